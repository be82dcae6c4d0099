"""Real git repositories to pull from."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_WHO = {
    "GIT_AUTHOR_NAME": "Someone",
    "GIT_AUTHOR_EMAIL": "someone@example.invalid",
    "GIT_COMMITTER_NAME": "Someone",
    "GIT_COMMITTER_EMAIL": "someone@example.invalid",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}

TWO_TASKS: dict[str, bytes] = {
    "tasks/first/task.toml": b'schema_version = "1.0"\n',
    "tasks/first/instruction.md": b"Do the first.\n",
    "tasks/second/task.toml": b'schema_version = "1.0"\n',
    "tasks/second/instruction.md": b"Do the second.\n",
    "docs/large.bin": bytes(range(256)) * 400,
    "README.md": b"Two tasks.\n",
}


IN_TASKS = {name.removeprefix("tasks/"): data for name, data in TWO_TASKS.items() if name.startswith("tasks/")}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, with an author and a date that never change."""
    environment = {**os.environ, **_WHO}
    done = subprocess.run(  # noqa: S603 - our own arguments
        ["git", *arguments],  # noqa: S607 - whichever git there is
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def make_repository(folder: Path, content: Mapping[str, bytes]) -> str:
    """A repository with one commit on `main`; gives the commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder, "config", "core.autocrlf", "false")
    return commit(folder, content)


def commit(folder: Path, content: Mapping[str, bytes], message: str = "A commit") -> str:
    """Write these files and commit everything; gives the commit."""
    for name, data in content.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    git(folder, "add", "--all", ".")
    git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def files_in(folder: Path) -> dict[str, bytes]:
    """What a folder holds, by path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
