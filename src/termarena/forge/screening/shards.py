"""Screening many recordings on all cores: a map over files, then one look at which of the kept ones are alike."""

from __future__ import annotations

import hashlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.core.errors import MissingExtra, RecordingError
from termarena.core.processors import usable_processors
from termarena.forge.reading import read
from termarena.forge.screening.findings import Evidence, Finding, Gate, Screening
from termarena.forge.screening.likeness import Known, Likeness, sketch_of
from termarena.forge.screening.rules import ScreenRules
from termarena.forge.screening.screening import refused, screen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from termarena.forge.screening.likeness import Sketch

__all__ = ["ScreenPlan", "screen_file", "screen_files"]

SHARD_FILES: Final = 8
"""As many as take about a tenth of a second: small enough to share out evenly."""


@dataclass(frozen=True, slots=True)
class ScreenPlan:
    """How many recordings are screened: with which thresholds, beside which known tasks, in how many processes."""

    rules: ScreenRules = field(default_factory=ScreenRules)
    known: Known | None = None
    jobs: int | None = None
    """None: one for each core; 1: in this process."""
    keeps_transcripts: bool = False


class _Judged(NamedTuple):
    screening: Screening
    sketch: Sketch
    typed: tuple[str, ...]


def screen_file(path: Path, rules: ScreenRules | None = None) -> Screening:
    """Read and screen one file; one that cannot be read or judged is refused. Raises `MissingExtra`."""
    return _judge(path, rules=rules or ScreenRules(), keeps_transcript=True).screening


def screen_files(paths: Iterable[Path], plan: ScreenPlan) -> Iterator[Screening]:
    """Screen files on several cores: the refused ones in order as they are found, then the kept, best first.

    Of recordings that are alike the best is kept. Raises `MissingExtra`.
    """
    kept = []
    for judged in _judged(list(paths), plan):
        if judged.screening.kept:
            kept.append(judged)
        else:
            yield judged.screening
    yield from _apart(kept, plan)


def _judged(paths: Sequence[Path], plan: ScreenPlan) -> Iterator[_Judged]:
    judge = partial(_judge, rules=plan.rules, keeps_transcript=plan.keeps_transcripts)
    jobs = plan.jobs or usable_processors()
    if jobs == 1 or len(paths) <= SHARD_FILES:
        yield from map(judge, paths)
        return
    # A fresh interpreter for each: the parent may have threads, and a fork would copy their locks.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(judge, paths, chunksize=SHARD_FILES)


def _judge(path: Path, *, rules: ScreenRules, keeps_transcript: bool) -> _Judged:
    try:
        transcript = read(path)
        screening = screen(transcript, rules)
        sketch = sketch_of(transcript)
    except MissingExtra:
        raise
    except RecordingError as error:
        return _Judged(refused(str(path), _digest(path), error.message), (), ())
    except Exception as error:  # noqa: BLE001 - the border of one recording: what cannot be judged is refused
        reason = f"it could not be judged: {type(error).__name__}: {error}"
        return _Judged(refused(str(path), _digest(path), reason[:500]), (), ())
    redacted = screening.transcript
    typed = tuple(command.text for command in redacted.commands) if redacted is not None else ()
    if not keeps_transcript:
        screening = screening.model_copy(update={"transcript": None})
    return _Judged(screening, sketch, typed if screening.kept else ())


def _digest(path: Path) -> str:
    try:
        return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _apart(kept: Sequence[_Judged], plan: ScreenPlan) -> Iterator[Screening]:
    """The kept ones, best first; those like a better one, or like a known task, are refused."""
    likeness = Likeness(plan.rules.near_duplicate)
    for judged in sorted(kept, key=_worth):
        found = judged.screening
        share = plan.known.share(judged.typed) if plan.known is not None else 0.0
        if share >= plan.rules.contamination_share:
            reason = f"{share:.0%} of what was typed stands in a known task"
            yield _with(found, Finding(gate=Gate.CONTAMINATION, rule="known-task", effect="drop", reason=reason))
            continue
        like = likeness.seen_before(found.source, found.digest, judged.sketch)
        if like is not None:
            evidence = (Evidence(where="recording", excerpt=like[0]),)
            reason = f"{like[1]:.0%} of its commands are those of a recording that is kept"
            yield _with(
                found, Finding(gate=Gate.DUPLICATES, rule="alike", effect="drop", reason=reason, evidence=evidence)
            )
        else:
            yield found


def _worth(judged: _Judged) -> tuple[int, str]:
    quality = judged.screening.quality
    return -(quality.total if quality is not None else 0), judged.screening.source


def _with(screening: Screening, finding: Finding) -> Screening:
    return screening.model_copy(update={"kept": False, "findings": (*screening.findings, finding)})
