"""How alike two outputs are, once what differs between any two machines and moments is masked."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final

__all__ = ["likeness", "masked"]

MOST_WORDS: Final = 1500
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>])")
_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_MASKS: Final = (
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:\s?(?:Z|[+-]\d\d:?\d\d))?"), "<date>"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\s+"), ""),
    (re.compile(rf"\b(?:\d{{1,2}}\s+)?(?:{_MONTHS})\s+\d{{1,2}}(?:\s+(?:\d\d:\d\d|\d{{4}}))?"), "<date>"),
    (re.compile(r"\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|µs|us|ns|sec|seconds|s)\b"), "<duration>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<hash>"),
    (re.compile(r"^\[\d+\]\s*\d+$", re.MULTILINE), "<job>"),
    (re.compile(r"\bpid\s*[=:]?\s*\d+", re.IGNORECASE), "<pid>"),
    (re.compile(r"^total \d+$", re.MULTILINE), "<total>"),
    (re.compile(r"/tmp/tmp\.?\w+"), "<temporary>"),  # noqa: S108 - a name that is masked
)  # fmt: skip


def masked(text: str) -> str:
    """The text without escape sequences, with dates, times, hashes and process numbers replaced by marks."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    for pattern, mark in _MASKS:
        plain = pattern.sub(mark, plain)
    return plain


def likeness(recorded: str, found: str) -> float:
    """From 0 to 1, over the words of both; 1 for two that are both empty. Line breaks and columns do not count."""
    one, other = masked(recorded).split()[:MOST_WORDS], masked(found).split()[:MOST_WORDS]
    if one == other:
        return 1.0
    if sorted(one) == sorted(other):  # `ls` in another width
        return 1.0
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
