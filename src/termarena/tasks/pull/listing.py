"""What was pulled, and what can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record
from termarena.tasks.pull.contract import Plan, Pulled, shown
from termarena.tasks.pull.known import all_names, look_up

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["known_sources", "list_pulled"]

_KIND = "pulled-dataset"


def known_sources(sources: Mapping[str, str] | None = None) -> dict[str, str]:
    """Every name that can be pulled, those of the settings included, with the source it stands for as it may be
    shown."""
    named = sources or {}
    found = ((name, look_up(name, named)) for name in (*all_names(), *named))
    return {name: shown(known.source) for name, known in found if known is not None}


def list_pulled(home: Path) -> tuple[Pulled, ...]:
    """Every dataset in the cache, oldest first. A folder whose record cannot be read is none; a pull replaces it."""
    found = []
    for path in home.glob("datasets/*/*/record.json"):
        try:
            record: dict[str, Any] = read_record(path, _KIND)
            plan = Plan(**{**record["plan"], "tasks": tuple(record["plan"]["tasks"])})
            pulled = Pulled(
                path=path.parent / plan.name,
                plan=plan,
                revision=record["revision"],
                files=record["files"],
                size_bytes=record["size_bytes"],
                pulled_at=record["pulled_at"],
                is_from_cache=True,
                notes=tuple(record["notes"]),
            )
        except (TaskFormatError, KeyError, TypeError):
            continue
        found.append(pulled)
    return tuple(sorted(found, key=lambda pulled: pulled.pulled_at))
