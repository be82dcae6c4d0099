"""Reading in a sandbox what tells normal work from tampering. Nothing of the sandbox runs for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxFileError
from termarena.grading.packages import has_opaque_packages, packaged_among
from termarena.grading.rules import is_interesting
from termarena.grading.rules.rule import Evidence
from termarena.grading.rules.tools import target_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.sandbox.contract import Change, FileChanges, Sandbox

__all__ = ["gather"]

CONTENT_BYTES: Final = 1 << 16
MOST_CONTENTS: Final = 300


async def gather(box: Sandbox, changes: FileChanges) -> Evidence:
    """The evidence for these changes, read from the state they led to: frozen, sealed, or a fork of it.

    Raises `SandboxBroken`. What cannot be read is not there.
    """
    suspicious = list(_suspicious(changes))
    small = [one.path for one in suspicious if one.kind == "file" and (one.size or 0) <= CONTENT_BYTES]
    contents = {}
    for path in small[:MOST_CONTENTS]:
        try:
            contents[path] = await box.read(path, max_bytes=CONTENT_BYTES)
        except SandboxFileError:
            continue
    return Evidence(
        contents=contents,
        packaged=await packaged_among(box, changes, [one.path for one in suspicious]),
        has_opaque_packages=has_opaque_packages(changes),
    )


def _suspicious(changes: FileChanges) -> Iterator[Change]:
    """What some rule will ask about, and what links among it lead to."""
    there = {change.path: change for change in changes.changes if change.change in ("added", "modified")}
    asked = [change for change in there.values() if change.kind != "folder" and is_interesting(change.path)]
    seen = set()
    while asked:
        change = asked.pop()
        if change.path in seen:
            continue
        seen.add(change.path)
        yield change
        behind = there.get(target_of(change)) if change.kind == "symlink" else None
        if behind is not None and behind.kind != "folder":
            asked.append(behind)
