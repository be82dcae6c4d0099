"""Markdown that holds foreign text: names, messages and commands stay nothing but text, in one cell, on one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["code", "plain", "table"]

LONGEST: Final = 300
# An underscore inside a word is no markup, and most identifiers have one.
_MARKUP: Final = re.compile(r"([\\`*\[\]<>|~&]|(?<!\w)_|_(?!\w))")
_BREAKS: Final = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]+")


def plain(value: str) -> str:
    """Text that no reader of Markdown takes for anything else."""
    shown = _BREAKS.sub(" ", value).strip()
    if len(shown) > LONGEST:
        shown = shown[:LONGEST] + "…"
    return _MARKUP.sub(r"\\\1", shown)


def code(value: str) -> str:
    """Text between backticks, which nothing can escape in there."""
    return _BREAKS.sub(" ", value).replace("`", "'")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are taken as they are."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))
