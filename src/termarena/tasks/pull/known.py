"""Names for public datasets, with the addresses they stand for: `known.toml`, and what the settings add or replace."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from termarena.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Index", "KnownSource", "all_names", "look_up"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:@[\w.+-]+)?")


@dataclass(frozen=True, slots=True)
class Index:
    """A file of the source, of JSON lines, whose `field` lists the paths that make up the dataset."""

    file: str
    field: str


@dataclass(frozen=True, slots=True)
class KnownSource:
    """One known name: `name` or `name@version`."""

    name: str
    source: str
    tasks: tuple[str, ...] = ()
    """The folders that are its tasks, where the source holds more."""
    index: Index | None = None
    unpack: bool = False
    """Whether the source's files are archives of one task each."""

    def deciding(self) -> list[str]:
        """What of it, beside the source, decides the content."""
        index = [] if self.index is None else [self.index.file, self.index.field]
        return [self.name, str(self.unpack), *index, *self.tasks]


@cache
def _bundled() -> dict[str, KnownSource]:
    text = files(__package__).joinpath("known.toml").read_text(encoding="utf-8")
    found = {}
    for name, table in tomllib.loads(text).items():
        index = table.get("index")
        found[name] = KnownSource(
            name=name,
            source=table["source"],
            tasks=tuple(table.get("tasks", ())),
            index=None if index is None else Index(**index),
            unpack=table.get("unpack", False),
        )
    return found


def all_names() -> tuple[str, ...]:
    """Every bundled name."""
    return tuple(_bundled())


def look_up(text: str, sources: Mapping[str, str]) -> KnownSource | None:
    """The known source of this name, None if `text` is of another form or its name is unknown.

    A version may be shortened as long as it says which (`terminal-bench@3`). Raises NotFound for a known name without a
    version it has, listing those, and UsageError for a name in `sources` that cannot be one.
    """
    for name in sources:
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"datasets.sources: {name!r} is no name for a dataset")
    if _NAME.fullmatch(text) is None:
        return None
    table = _bundled() | {name: KnownSource(name, source) for name, source in sources.items()}
    if text in table:
        return table[text]
    base, _, version = text.partition("@")
    versions = [name for name in table if name.partition("@")[0] == base]
    fitting = [name for name in versions if version and name.startswith(f"{base}@{version}.")]
    if len(fitting) == 1:
        return table[fitting[0]]
    if versions:
        raise NotFound(
            f"{base} has no version {version}" if version else f"{base} has several versions", known=tuple(versions)
        )
    return None
