"""Redaction: each private value is replaced by one placeholder of its kind, wherever it stands."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from termarena.forge.screening.privacy import SECRET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.forge.screening.privacy import Private

__all__ = ["Redactor"]

PLACEHOLDERS: Final = {
    "email": "person{}@example.org",
    "address": "192.0.2.{}",
    "phone": "+1-555-01{:02}",
    "user": "user{}",
    "host": "host{}",
    SECRET: "REDACTED{}",
}


class Redactor:
    """Replaces private values, each by one placeholder of its kind, in any text."""

    def __init__(self, privates: Iterable[Private]) -> None:
        """Placeholders are numbered in the order given."""
        self._numbers: Counter[str] = Counter()
        self.placeholders: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.times: Counter[str] = Counter()
        for private in privates:
            self._numbers[private.kind] += 1
            self.placeholders[private.value] = PLACEHOLDERS[private.kind].format(self._numbers[private.kind])
            self.kinds[private.value] = private.kind

    def clean(self, text: str) -> str:
        """The text without private values."""
        there = [value for value in self.placeholders if value in text]
        if not there:
            return text
        pattern = "|".join(self._pattern(value) for value in sorted(there, key=len, reverse=True))
        return re.sub(pattern, self._replace, text)

    def _pattern(self, value: str) -> str:
        escaped = re.escape(value)
        if self.kinds[value] not in ("user", "host"):
            return escaped
        # A host may be called like any word; then only the form user@host tells that it is meant.
        is_word = self.kinds[value] == "host" and value.isalpha()
        before = rf"(?<=@{escaped})" if is_word else rf"(?<![A-Za-z0-9_]{escaped})"
        return rf"{escaped}{before}(?![A-Za-z0-9_])"

    def _replace(self, found: re.Match[str]) -> str:
        self.times[found[0]] += 1
        return self.placeholders[found[0]]
