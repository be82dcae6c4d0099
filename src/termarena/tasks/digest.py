"""What identifies a task: a digest of everything that can move a score, and of nothing else.

The scored view is a plain JSON value. A field at its default is left out, so that a later version of TermArena may
add fields without changing the digest of any task that does not use them. Files count by path, content and executable
bit.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NewType

from termarena.tasks.files import FileTree, not_content, scan
from termarena.tasks.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.model import Task

__all__ = ["DIGEST_VERSION", "LOCK_NAME", "TaskDigest", "digest_of", "digest_of_view", "file_digests", "scored_view"]

TaskDigest = NewType("TaskDigest", str)
"""`ta1:` and 64 hex digits; the prefix changes if the meaning of the digest ever does."""

DIGEST_VERSION = "ta1"
LOCK_NAME = "dataset.lock.json"

# A build that takes too long leaves a trial unscored, and a solution is never graded against itself: neither can move
# a score.
_UNSCORED = frozenset({"metadata", "provenance", "solution", "extras", "unknown", "findings", "id", "build_timeout_s"})


def digest_of(task: Task) -> TaskDigest:
    """Hash the scored view. Raises OSError if a file of the task can no longer be read."""
    return digest_of_view(scored_view(task))


def digest_of_view(view: dict[str, Any]) -> TaskDigest:
    """Hash a scored view that is at hand."""
    text = json.dumps(view, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return TaskDigest(f"{DIGEST_VERSION}:{hashlib.sha256(text.encode()).hexdigest()}")


def scored_view(task: Task) -> dict[str, Any]:
    """Everything that can move this task's score, as a JSON value; what `termarena tasks digest --explain` prints."""
    return _view(task)


def _view(part: Frozen) -> dict[str, Any]:
    view: dict[str, Any] = {}
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if name in _UNSCORED or value == field.get_default(call_default_factory=True, validated_data={}):
            continue
        view[name] = _plain(value)
    return view


def _plain(value: object) -> object:
    if isinstance(value, Frozen):
        return _view(value)
    if isinstance(value, FileTree):
        return [[_printable(path), held] for path, held in value.digests().items()]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def file_digests(task: Task) -> dict[str, str]:
    """Every file of the task by its path in the task's folder: what a lock records, to name the one that changed.

    A task out of a `tasks.json` has no folder; its parts stand for themselves.
    """
    folder = task.provenance.path
    if os.path.isdir(folder):  # noqa: PTH112 - a string, as everywhere in the loaders
        found = scan(folder, boundary=folder, skip=not_content(folder) | {LOCK_NAME}).digests()
    else:
        found = dict(_inline_digests(task))
    return {_printable(path): held for path, held in found.items()}


def _inline_digests(task: Task) -> Iterator[tuple[str, str]]:
    yield "instruction", f"text:{hashlib.sha256(task.instruction.encode()).hexdigest()}"
    parts = {"environment": task.environment.context, "extras": task.extras}
    parts |= {"tests": task.tests.files} if task.tests else {}
    parts |= {"solution": task.solution.files} if task.solution else {}
    for place, tree in parts.items():
        for path, held in tree.digests().items():
            yield f"{place}/{path}", held


def _printable(path: str) -> str:
    """A path that JSON can hold: bytes that are not UTF-8 are spelled out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
