"""Baselines: verdicts that nobody worked for, so that scores have something to be compared with.

They are answered by the harness itself: no sandbox starts and no test runs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal

from termarena.core.errors import UsageError

__all__ = ["Baseline", "baseline_of", "is_baseline"]

_FIXED: Final[dict[str, bool]] = {"always-right": True, "always-wrong": False}
_RANDOM: Final = "random"


@dataclass(frozen=True, slots=True)
class Baseline:
    """One of them; the same word gives the same verdicts on every machine."""

    kind: Literal["always-right", "always-wrong", "random"]
    seed: str = ""

    def passes(self, task_id: str, attempt: int) -> bool:
        """Whether this attempt counts as solved: for `random` half of them, each by its own coin."""
        if self.kind != "random":
            return _FIXED[self.kind]
        coin = hashlib.sha256(f"{self.seed}\0{task_id}\0{attempt}".encode("utf-8", "surrogateescape"))
        return coin.digest()[0] % 2 == 1


def is_baseline(word: str) -> bool:
    """Whether the word of `--agent` is one that needs no sandbox."""
    return word in _FIXED or word.partition(":")[0] == _RANDOM


def baseline_of(word: str) -> Baseline:
    """The baseline of a word. Raises `UsageError` for `random` without a seed, and for any other word."""
    if word == "always-right":
        return Baseline("always-right")
    if word == "always-wrong":
        return Baseline("always-wrong")
    name, _, seed = word.partition(":")
    if name != _RANDOM or not seed:
        raise UsageError(f"{word!r} is no baseline", hint="there is always-right, always-wrong and random:SEED")
    return Baseline("random", seed)
