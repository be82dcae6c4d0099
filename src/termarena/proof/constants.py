"""Numbers in programs, wherever they stand in code and not in a remark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Constant", "evenly", "numbers_in", "with_number"]

T = TypeVar("T")
LARGE: Final = 100

# Not a descriptor (`>&2`), a variable (`$1`), a range or a count in a pattern (`[0-9]`, `{1,5}`), a part of a name.
_NUMBER: Final = re.compile(r"(?<![\w.\\$%#&>{\[!^-])\d{1,9}(?![\w.>}\]-]|,\d*\})", re.ASCII)
# One failure is as good as another, a subquery takes its first row whatever the limit, EXISTS asks for no value, and a
# path that comes second leads to the same module unless there are two of them.
_HARMLESS: Final = re.compile(
    r"\b(?:exit|return)[ (]+[1-9]\d*|\b(?i:limit) 1\b|\b(?i:exists)\s*\(\s*(?i:select)\s+\d+\b|\bsys\.path\.insert\(0"
)
_HASH: Final = re.compile(r'(?m)(?:^|(?<=[\s;]))#.*$|"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'')
_SLASHES: Final = re.compile(r"//.*|/\*[\s\S]*?\*/|(?m:^\s*#.*$)")
_DASHES: Final = re.compile(r"--.*|/\*[\s\S]*?\*/")
_REMARKS: Final = {
    **dict.fromkeys(("c", "h", "cc", "cpp", "js", "ts", "go", "rs", "java"), _SLASHES),
    "sql": _DASHES,
}


class Constant(NamedTuple):
    """A number in a text: where it begins, and its digits."""

    start: int
    digits: str


def numbers_in(text: str, *, suffix: str = "") -> Iterator[Constant]:
    """Every whole number in the code; `suffix` (`py`, `c`, `sql`) says what a remark looks like, by default `#`."""
    remarks = _REMARKS.get(suffix, _HASH)
    code = _HARMLESS.sub(_blank, remarks.sub(_blank, text))
    for found in _NUMBER.finditer(code):
        yield Constant(found.start(), found[0])


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def with_number(text: str, constant: Constant) -> str:
    """The text with this number one higher; a large factor or divisor doubled, of which one more is a matter of
    rounding."""
    before, after = text[: constant.start], text[constant.start + len(constant.digits) :]
    value = int(constant.digits)
    is_factor = before.rstrip()[-1:] in ("*", "/") or after.lstrip()[:1] in ("*", "/")
    return f"{before}{value * 2 if is_factor and value >= LARGE else value + 1}{after}"


def evenly(items: Sequence[T], most: int) -> tuple[T, ...]:
    """At most so many of them, spread over the whole, the same for the same items."""
    if len(items) <= most:
        return tuple(items)
    return tuple(items[place * len(items) // most] for place in range(most))
