"""Scripts from the host, run as one command in the sandbox and gone afterwards: the solution's, and `script:PATH`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from termarena import __version__
from termarena.agents.contract import AgentReport
from termarena.agents.workspace import CLEAN_UP, SCRIPT_FILE, TrialWorkspace
from termarena.core.errors import NotFound, UsageError, WorkspaceClosed
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from termarena.agents.contract import Brief, Workspace
    from termarena.agents.registry import AgentFactory, AgentRequest

__all__ = ["Script", "laid_down", "make", "words_for"]

FOLDER: Final = "/tmp/agent-script"  # noqa: S108 - inside the sandbox, where nobody else is
LARGEST_BYTES: Final = 64 << 20


@contextlib.asynccontextmanager
async def laid_down(workspace: Workspace, staged: Path, folder: str) -> AsyncIterator[None]:
    """A folder of the host in the sandbox, and removed again unless something that was left running needs it."""
    await workspace.put_tree(staged, folder)
    try:
        yield
    finally:
        with contextlib.suppress(WorkspaceClosed):
            if isinstance(workspace, TrialWorkspace):
                await workspace.clean_up(folder)
            else:
                await workspace.exec(["/bin/sh", "-c", CLEAN_UP], env={"FOLDER": folder}, user="root", cwd="/")


def words_for(path: str, beginning: bytes) -> list[str]:
    """How a script is started: by its own first line, else by the best shell there is."""
    return [path] if beginning.startswith(b"#!") else ["/bin/sh", "-c", SCRIPT_FILE, "sh", path]


def make(request: AgentRequest) -> AgentFactory:
    """Raises `NotFound` for a path that names no file, `UsageError` for one that cannot be read or is no script."""
    path = request.file
    try:
        if not path.is_file():
            raise NotFound(f"no script is at {path}", hint="script:PATH takes a file of this machine")
        if path.stat().st_size > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than {LARGEST_BYTES} bytes", hint="a script is text")
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    return lambda: Script(request.word, path.name, content)


class Script:
    """See `Agent`."""

    version = __version__

    def __init__(self, word: str, name: str, content: bytes) -> None:
        """`word` is the agent's, `name` the file's."""
        self.name = word
        self._file = name
        self._content = content

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:  # noqa: ARG002 - a script reads nothing
        """Run it where commands start, as the agent's user. How it ended is told, not judged, nor is lack of memory."""
        with staged("script") as place:
            await asyncio.to_thread(self._stage, place)
            async with laid_down(workspace, place, FOLDER):
                done = await workspace.exec(words_for(f"{FOLDER}/{self._file}", self._content))
        is_exhausted = done.oom_killed and done.exit_status != 0
        message = f"the script ended with status {done.exit_status}"
        return AgentReport(end="resource_limit" if is_exhausted else "submitted", message=message)

    def _stage(self, folder: Path) -> None:
        (folder / self._file).write_bytes(self._content)
        (folder / self._file).chmod(0o755)
