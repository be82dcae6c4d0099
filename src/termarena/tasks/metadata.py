"""Free-form metadata, read by convention: what everyone writes under the same name becomes a field, the rest is kept
as it stands."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from termarena.tasks.model import Metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.tasks.checking import Checker
    from termarena.tasks.harbor_schema import TaskToml

__all__ = ["conventional", "metadata_of"]

# Ten years: beyond it stands a mistake, or a number that no float can hold.
MOST_MINUTES = 10 * 366 * 24 * 60


def metadata_of(check: Checker, document: TaskToml) -> Metadata:
    """`[metadata]` and `[task]` together."""
    package = document.task
    return conventional(
        check,
        {name: value for name, value in document.metadata.items() if name != "termarena"},
        description=package.description if package else "",
        version=package.version if package else None,
        keywords=package.keywords if package else (),
        authors=tuple(_author(author.name, author.email) for author in package.authors) if package else (),
    )


def conventional(check: Checker, table: Mapping[str, Any], **known: Any) -> Metadata:  # noqa: ANN401 - fields of Metadata
    """Metadata out of a free-form table; a conventional name with a value of another type is noted and kept as it
    stands."""
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in table.items():
        field, read = _CONVENTIONS.get(name, ("", None))
        understood = read(value) if read and field not in fields else None
        if understood is None:
            extra[name] = value
            if read and field not in fields:
                told = f"metadata.{name} is {value!r:.60}, which is not what other tasks put there"
                check.note("odd-metadata", told, field=f"metadata.{name}")
        else:
            fields[field] = understood
    if not known.get("authors") and isinstance(extra.get("author_name"), str):
        email = extra.pop("author_email") if isinstance(extra.get("author_email"), str) else None
        fields["authors"] = (_author(extra.pop("author_name"), email),)
    return Metadata(**{**known, **fields}, extra=extra)


def _author(name: str, email: str | None) -> str:
    return f"{name} <{email}>" if email else name


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _strings(value: object) -> tuple[str, ...] | None:
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


def _minutes(value: object, unit: int = 1) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) * unit if is_number and 0 <= value < MOST_MINUTES else None  # type: ignore[arg-type,operator]  # a number


_CONVENTIONS: dict[str, tuple[str, Callable[[object], object]]] = {
    "category": ("category", _text),
    "difficulty": ("difficulty", _text),
    "tags": ("tags", _strings),
    "languages": ("languages", _strings),
    "expert_time_estimate_min": ("expert_time_min", _minutes),
    "expert_time_estimate_hours": ("expert_time_min", partial(_minutes, unit=60)),
    "junior_time_estimate_min": ("junior_time_min", _minutes),
}
