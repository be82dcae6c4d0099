"""Writes the text that a task shows into the file that it names."""

import re

from termarena.agents import AgentReport, Brief, Workspace
from termarena.core.trajectory import Step


class Typist:
    version = "1"

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        path = re.search(r"`(/[^`]+)`", brief.instruction)
        text = re.search(r"```\n(.*?\n)```", brief.instruction, re.DOTALL)
        if path is None or text is None:
            return AgentReport(end="refused", message="it names no file, or shows no text")
        workspace.note(Step(message=f"I shall write {len(text[1])} characters to {path[1]}."))

        await workspace.write(path[1], text[1].encode())
        counted = await workspace.exec(["wc", "-c", path[1]], timeout_s=10)

        async with workspace.terminal() as terminal:
            shown = await terminal.run(f"cat {path[1]}")
            if shown.exit_status != 0:
                return AgentReport(message=f"it cannot be read: {terminal.screen().text}")
        return AgentReport(message=f"{counted.stdout.decode().split()[0]} bytes: {shown.text!r}")
