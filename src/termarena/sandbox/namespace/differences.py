"""The difference between two lists of changes that were taken at different times in one sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from termarena.sandbox.contract import Change, FileChanges

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["changes_between"]


def changes_between(before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> FileChanges:
    """What happened between the two moments, each given as the changes since the start."""
    return FileChanges(tuple(Change(**entry) for entry in _difference(before, now)))


def _difference(before: Sequence[dict[str, Any]], now: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is in the later list of changes and not in the earlier one, told as a change since then."""
    old = {entry["path"]: entry for entry in before}
    new = {entry["path"]: entry for entry in now}
    found = []
    for path, entry in new.items():
        earlier = old.get(path)
        if earlier is None:
            found.append(entry)
        elif entry != earlier:
            found.append({**entry, "change": _change_between(earlier, entry)})
    for path, earlier in old.items():
        if path not in new and earlier["change"] != "removed":
            found.append(
                {
                    "path": path,
                    "kind": earlier["kind"],
                    "change": "removed" if earlier["change"] == "added" else "modified",
                }
            )
        elif path not in new:
            found.append({**earlier, "change": "added"})
    gone = {str(entry["path"]) for entry in found if entry["change"] == "removed"}
    kept = [entry for entry in found if gone.isdisjoint(_folders_of(str(entry["path"])))]
    return sorted(kept, key=lambda entry: str(entry["path"]))


def _folders_of(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


def _change_between(earlier: dict[str, Any], later: dict[str, Any]) -> str:
    if later["change"] == "removed":
        return "removed"
    if earlier["change"] == "removed":
        return "added"
    same = all(earlier.get(key) == later.get(key) for key in ("kind", "digest", "target"))
    return "metadata" if same else "modified"
