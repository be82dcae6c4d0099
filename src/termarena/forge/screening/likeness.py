"""Recordings that are alike: exact copies, near-duplicates by what was typed, and overlap with known benchmarks.

A sketch holds the smallest hashes of a command sequence's pieces; two sketches estimate how much the sequences share
without keeping them. Sketches depend on nothing but the commands, so they can be made anywhere and compared later.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.forge.transcript import Transcript

__all__ = ["Kept", "Known", "Likeness", "Sketch", "sketch_of"]

SKETCH_SIZE: Final = 64
INDEXED: Final = 12
"""Two sequences that share four fifths also share one of their twelve smallest hashes, but once in a billion times."""
PIECE_LINES: Final = 2
NGRAM_WORDS: Final = 6
_NOISE: Final = re.compile(r"[0-9a-f]{7,40}\b|\d+|\s+")

Sketch = tuple[int, ...]


class Kept(NamedTuple):
    """What stays in memory of a recording that is kept."""

    source: str
    digest: str
    sketch: Sketch


def sketch_of(transcript: Transcript) -> Sketch:
    """The sketch of what was typed; numbers, hashes and blanks do not count. Empty for a recording without commands."""
    lines = [_NOISE.sub(" ", command.text).strip() for command in transcript.commands if command.shell]
    lines = [line for line in lines if line and line != "exit"]
    pieces = (
        {"\n".join(lines[at : at + PIECE_LINES]) for at in range(max(1, len(lines) - PIECE_LINES + 1))}
        if lines
        else set()
    )
    return tuple(sorted(_hash(piece) for piece in pieces | set(lines))[:SKETCH_SIZE])


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big")


def similarity(one: Sketch, other: Sketch) -> float:
    """The share of pieces that both have, estimated from the smallest hashes of both together."""
    if not one or not other:
        return 0.0
    smallest = sorted(set(one) | set(other))[:SKETCH_SIZE]
    both = set(one) & set(other)
    return sum(value in both for value in smallest) / len(smallest)


@dataclass(slots=True)
class Likeness:
    """Remembers recordings, and finds the one that a new one is like. Sixty-four numbers are kept of each."""

    threshold: float
    _sketches: list[tuple[str, Sketch]] = field(default_factory=list)
    _index: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _digests: dict[str, str] = field(default_factory=dict)

    def seen_before(self, name: str, digest: str, sketch: Sketch) -> tuple[str, float] | None:
        """The name of a recording that is the same or alike, and how alike; None if it is new, and then remembered."""
        if (same := self._digests.get(digest)) is not None:
            return same, 1.0
        self._digests[digest] = name
        like = self.like(sketch)
        if like is None:
            self.add(name, sketch)
        return like

    def like(self, sketch: Sketch, *, but: str | None = None) -> tuple[str, float] | None:
        """The name of the recording that is most like it, where one is, leaving out the one called `but`."""
        candidates = {place for value in sketch[:INDEXED] for place in self._index.get(value, ())}
        best = max(
            (
                (similarity(sketch, self._sketches[place][1]), place)
                for place in sorted(candidates)
                if self._sketches[place][0] != but
            ),
            default=None,
        )
        return (self._sketches[best[1]][0], best[0]) if best is not None and best[0] >= self.threshold else None

    def add(self, name: str, sketch: Sketch) -> None:
        """Remember a recording; one without commands is like none."""
        if sketch:
            for value in sketch[:INDEXED]:
                self._index[value].append(len(self._sketches))
            self._sketches.append((name, sketch))


class Known:
    """The word n-grams of tasks that are published already."""

    def __init__(self, texts: Iterable[str]) -> None:
        """`texts` are solutions and instructions."""
        self._grams = {gram for text in texts for gram in _ngrams(_words(text))}

    def share(self, commands: Sequence[str]) -> float:
        """How much of what was typed stands there too; 0 where too little was typed to say."""
        grams = _ngrams(_words("\n".join(commands)))
        return sum(gram in self._grams for gram in grams) / len(grams) if grams else 0.0


def _words(text: str) -> list[str]:
    return re.findall(r"[\w./~-]+", text.lower())


def _ngrams(words: Sequence[str]) -> set[int]:
    return {_hash(" ".join(words[at : at + NGRAM_WORDS])) for at in range(len(words) - NGRAM_WORDS + 1)}
