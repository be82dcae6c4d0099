"""Variables in a Dockerfile, filled in by its own rules: quotes, escapes, and the forms `${NAME:-word}`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["BadSubstitution", "expand"]

_NAME: Final = re.compile(r"[A-Za-z_]\w*|\d")
_FORM: Final = re.compile(r"(:?[-+?])")


class BadSubstitution(ValueError):
    """A `${…}` that is none, or one that insists on a value that is not there."""


def expand(text: str, values: Mapping[str, str], *, escape: str = "\\") -> str:
    """The word with its variables filled in and its quotes taken off; an unknown variable is empty."""
    return _Word(text, values, escape).read(stop="")


class _Word:
    def __init__(self, text: str, values: Mapping[str, str], escape: str) -> None:
        self.text = text
        self.values = values
        self.escape = escape
        self.at = 0

    def read(self, stop: str) -> str:
        """Up to the letter `stop`, which is taken, or the end."""
        parts: list[str] = []
        while self.at < len(self.text):
            letter = self.text[self.at]
            if stop and letter == stop:
                self.at += 1
                return "".join(parts)
            self.at += 1
            if letter == "'":
                parts.append(self._single())
            elif letter == '"':
                parts.append(self._double())
            elif letter == "$":
                parts.append(self._variable())
            elif letter == self.escape:
                parts.append(self._next())
            else:
                parts.append(letter)
        if stop:
            raise BadSubstitution(f"`{stop}` is missing in {self.text!r}")
        return "".join(parts)

    def _next(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        return letter

    def _single(self) -> str:
        end = self.text.find("'", self.at)
        if end < 0:
            raise BadSubstitution(f"a quote is not closed in {self.text!r}")
        inner, self.at = self.text[self.at : end], end + 1
        return inner

    def _double(self) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            letter = self._next()
            if letter == '"':
                return "".join(parts)
            if letter == "$":
                parts.append(self._variable())
            elif letter == self.escape and self.text[self.at : self.at + 1] in ('"', "$", self.escape):
                parts.append(self._next())
            else:
                parts.append(letter)
        raise BadSubstitution(f"a quote is not closed in {self.text!r}")

    def _variable(self) -> str:
        if self.text[self.at : self.at + 1] != "{":
            found = _NAME.match(self.text, self.at)
            if found is None:
                return "$"
            self.at = found.end()
            return self.values.get(found[0], "")
        self.at += 1
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise BadSubstitution(f"a variable without a name in {self.text!r}")
        self.at = found.end()
        if self.text[self.at : self.at + 1] == "}":
            self.at += 1
            return self.values.get(found[0], "")
        form = _FORM.match(self.text, self.at)
        if form is None:
            raise BadSubstitution(f"a form of ${{…}} that is not known, in {self.text!r}")
        self.at = form.end()
        return self._formed(found[0], form[0], self.read("}"))

    def _formed(self, name: str, form: str, word: str) -> str:
        value = self.values.get(name)
        is_set = bool(value) if form.startswith(":") else value is not None
        if form.endswith("-"):
            return value or "" if is_set else word
        if form.endswith("+"):
            return word if is_set else ""
        if not is_set:
            raise BadSubstitution(f"{name}: {word or 'it has no value'}")
        return value or ""
