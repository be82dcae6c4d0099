"""Reading in a sandbox what tells normal work from tampering. Nothing of the sandbox runs for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxFileError
from termarena.grading.packages import has_opaque_packages, packaged_among
from termarena.grading.rules import is_interesting, is_watched, tools
from termarena.grading.rules.rule import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.sandbox.contract import Change, FileChanges, Sandbox

__all__ = ["gather"]

CONTENT_BYTES: Final = 1 << 16
PROGRAM_BYTES: Final = 48 << 20
MOST_CONTENTS: Final = 300
MOST_PROGRAMS: Final = 12
AT_ONCE: Final = 6


async def gather(box: Sandbox, changes: FileChanges) -> Evidence:
    """The evidence for these changes, read from the state they led to: frozen, sealed, or a fork of it.

    Raises `SandboxBroken`. What cannot be read is not there.
    """
    suspicious = list(_suspicious(changes))
    files = [one for one in suspicious if one.kind == "file"]
    # The nearest to the root first: a thousand files further below must not keep one above them from being read.
    small = sorted((one.path for one in files if (one.size or 0) <= CONTENT_BYTES), key=lambda path: path.count("/"))
    programs = [one.path for one in files if (one.size or 0) > CONTENT_BYTES and tools.is_interesting(one.path)]
    contents = await _contents(box, [*small[:MOST_CONTENTS], *programs[:MOST_PROGRAMS]])
    return Evidence(
        contents=contents,
        unread=frozenset(one.path for one in files) - contents.keys(),
        packaged=await packaged_among(box, changes, (one.path for one in suspicious), contents),
        has_opaque_packages=has_opaque_packages(changes),
    )


async def _contents(box: Sandbox, paths: list[str]) -> dict[str, bytes]:
    """Several at once: one by one, an engine takes ten milliseconds each."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def content(path: str) -> bytes | None:
        async with turns:
            try:
                return await box.read(path, max_bytes=PROGRAM_BYTES)
            except SandboxFileError:
                return None

    found = await asyncio.gather(*(content(path) for path in paths))
    return {path: one for path, one in zip(paths, found, strict=True) if one is not None}


def _suspicious(changes: FileChanges) -> Iterator[Change]:
    """What some rule will ask about, and what links among it lead to."""
    there = {change.path: change for change in changes.changes if change.change in ("added", "modified")}
    watched = [change for change in there.values() if change.kind != "folder" and is_watched(change)]
    asked = [change for change in watched if is_interesting(change.path)]
    seen = set()
    while asked:
        change = asked.pop()
        if change.path in seen:
            continue
        seen.add(change.path)
        yield change
        behind = there.get(tools.target_of(change)) if change.kind == "symlink" else None
        if behind is not None and behind.kind != "folder":
            asked.append(behind)
