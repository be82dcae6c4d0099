"""The variables of a shell as far as its lines tell: what they hold, and whose output they were filled with."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.shell.calls import Call

__all__ = ["Value", "Variables", "altered", "every_source"]

FIRST: Final = "0"
GIVEN: Final = ("@", "*")
"""Both name all the words that a script or a function was given."""
LONGEST_ALTERED: Final = 256
"""A path; trying all its ends takes the square of its length."""
_SET_ALWAYS: Final = (("HOME", "~"), ("PWD", "."), ("SHELL", "/bin/bash"))


@dataclass(slots=True)
class Value:
    """What one variable holds."""

    texts: dict[str, str]
    """By index; a plain variable has one, at 0."""
    sources: tuple[Call, ...] = ()
    """The calls whose output went into it."""
    is_loop: bool = False
    """It takes its texts one after the other."""

    def joined(self) -> str:
        """As one word."""
        return " ".join(self.texts.values())


@dataclass(slots=True)
class Variables:
    """Of one session."""

    given: Value | None = None
    """What the script or function that is read was given; None where nothing tells."""
    has_many: bool = False
    """Whether any of them ever held more than one text."""
    _values: dict[str, Value] = field(
        default_factory=lambda: {name: Value({FIRST: text}) for name, text in _SET_ALWAYS}
    )

    def find(self, name: str) -> Value | None:
        """None where nothing tells what it holds."""
        if name in GIVEN:
            return self.given
        if not name.isdigit():
            return self._values.get(name)
        if self.given is None:
            return None
        return Value({FIRST: self.given.texts.get(name, "")}, self.given.sources)

    def give(self, words: Sequence[str], sources: tuple[Call, ...]) -> None:
        """The words from `$1` on."""
        self.given = Value({str(number): word for number, word in enumerate(words, 1)}, sources)
        self.has_many |= len(words) > 1

    def put(self, name: str, text: str, sources: tuple[Call, ...] = ()) -> None:
        """As `name=text` does."""
        self._values[name] = Value({FIRST: text}, sources)

    def put_all(
        self, name: str, texts: Iterable[str], sources: tuple[Call, ...], *, more: bool = False, is_loop: bool = False
    ) -> None:
        """As `name=(texts …)` does, or with `more` as `name+=(texts …)`; with `is_loop` as a loop over them."""
        held = self._values.get(name) if more else None
        value = held or Value({}, is_loop=is_loop)
        for text in texts:
            value.texts[str(len(value.texts))] = text
        value.sources = every_source(value.sources, sources)
        self._values[name] = value
        self.has_many |= len(value.texts) > 1

    def put_at(self, name: str, index: str, text: str, sources: tuple[Call, ...]) -> None:
        """As `name[index]=text` does."""
        value = self._values.setdefault(name, Value({}))
        value.texts[index] = text
        value.sources = every_source(value.sources, sources)
        self.has_many |= len(value.texts) > 1


def every_source(*sources: Iterable[Call]) -> tuple[Call, ...]:
    """All of them; of calls with the same words the first: more would tell nothing, and loops would have no end."""
    return tuple({call.words: call for some in reversed(sources) for call in reversed(tuple(some))}.values())[::-1]


def altered(text: str, sign: str, given: Sequence[str]) -> str | None:
    """What `${name%given}` and its like come to; None where that cannot be told."""
    if len(text) > LONGEST_ALTERED or not text.isascii() or not "".join(given).isascii():
        return None
    first = given[0] if given else ""
    if sign in ("%", "%%", "#", "##"):
        return _trimmed(text, sign, first)
    if sign in ("^^", ",,"):
        return text.upper() if sign == "^^" else text.lower()
    if sign in ("/", "//") and not set("*?[") & set(first):
        return text.replace(first, "".join(given[1:2]), 1 if sign == "/" else -1) if first else text
    if sign != ":" or not all(re.fullmatch(r"-?\d{1,4}", one) for one in given):
        return None
    rest = text[int(first) :] if int(first) >= -len(text) else ""
    return rest if len(given) == 1 else rest[: int(given[1])]


def _trimmed(text: str, sign: str, pattern: str) -> str:
    """Without the shortest end (or beginning) that the pattern matches, or the longest if the sign is doubled."""
    matches = re.compile(fnmatch.translate(pattern)).match
    sizes = range(len(text) + 1) if len(sign) == 1 else range(len(text), -1, -1)
    for size in sizes:
        cut, rest = (text[len(text) - size :], text[: len(text) - size]) if "%" in sign else (text[:size], text[size:])
        if matches(cut):
            return rest
    return text
