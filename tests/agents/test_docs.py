"""The page about agents: the example that it shows runs, and it names every agent there is."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.agents import Brief, known_agents, resolve_agent
from termarena.agents.workspace import TrialWorkspace
from termarena.sandbox.bare import bare_spec, prepare_bare
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    import pytest

    from termarena.agents.recording import Recording
    from termarena.sandbox.namespace import NamespaceDriver

TYPIST = Path(__file__).parents[2] / "examples" / "typist.py"
PAGE = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()


async def test_the_example_solves_a_sample(
    driver: NamespaceDriver, recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "<!-- copy: examples/typist.py -->" in PAGE
    assert 10 < len(TYPIST.read_text().splitlines()) <= 30
    shutil.copy(TYPIST, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (task,) = (task for task in load_dataset("samples").tasks if task.id == "termarena/hello-world")
    agent = resolve_agent("typist:Typist", task=task)()
    async with driver.start(bare_spec(task.environment)) as box:
        await prepare_bare(box, task.environment)
        async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60) as workspace:
            brief = Brief(task_id=task.id, instruction=task.instruction, timeout_s=60)
            report = await agent.solve(brief, workspace)
        assert (report.end, report.message) == ("submitted", "14 bytes: 'Hello, world!\\n'")
        assert await box.read("/app/hello.txt") == b"Hello, world!\n"
    record = recording.finish()
    assert [row.name for row in record.calls] == ["write", "exec", "terminal", "terminal.run"]
    assert record.steps[0].message == "I shall write 14 characters to /app/hello.txt."


def test_the_page_names_every_agent() -> None:
    rows = {word for row in re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE) for word in re.findall(r"`([^`]+)`", row)}
    assert {known.word for known in known_agents()} <= rows
