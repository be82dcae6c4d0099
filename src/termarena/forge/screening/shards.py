"""Screening many recordings on all cores: a map over files, then one look at which of the kept ones are alike."""

from __future__ import annotations

import os
import tempfile
from array import array
from dataclasses import dataclass, field
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple

from termarena.core.errors import MissingExtra, RecordingError, RecordingTooLong
from termarena.forge.casts import load_file
from termarena.forge.limiting import limited
from termarena.forge.reading import read_loaded
from termarena.forge.screening.findings import Evidence, Finding, Gate, Screening
from termarena.forge.screening.likeness import Known, Likeness, sketch_of
from termarena.forge.screening.rules import ScreenRules
from termarena.forge.screening.screening import refused, screen
from termarena.forge.sharding import HERE, Where, map_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from termarena.forge.casts import Loaded
    from termarena.forge.screening.likeness import Kept, Sketch

__all__ = ["ScreenPlan", "screen_file", "screen_files"]


@dataclass(frozen=True, slots=True)
class ScreenPlan:
    """How many recordings are screened: with which thresholds, beside which known tasks, in how many processes."""

    rules: ScreenRules = field(default_factory=ScreenRules)
    known: Known | None = None
    where: Where = HERE
    keeps_transcripts: bool = False
    earlier: tuple[Kept, ...] = ()
    """What was kept by earlier calls: a recording that is like one of those is refused."""


class _Judged(NamedTuple):
    screening: Screening
    sketch: Sketch
    typed: tuple[str, ...]


def screen_file(path: Path, rules: ScreenRules | None = None) -> Screening:
    """Read and screen one file; one that cannot be read or judged is refused. Raises `MissingExtra`."""
    return _judge(load_file(path), rules=rules or ScreenRules(), keeps_transcript=True).screening


def screen_files(paths: Iterable[Path], plan: ScreenPlan) -> Iterator[Screening]:
    """Screen files, on several cores or nodes: the refused ones in order as they are found, then the kept, best first.

    Of recordings that are alike the best is kept. What waits for that lies in a file: memory holds half a kilobyte of
    each. Raises `MissingExtra`, `ClusterError`, and `OSError` where there is no room for the file.
    """
    judge = partial(_judge, rules=plan.rules, keeps_transcript=plan.keeps_transcripts)
    with tempfile.TemporaryFile() as file:
        kept: list[_Waiting] = []
        for judged in map_files(judge, paths, plan.where):
            if judged.screening.kept:
                kept.append(_put_by(judged, plan, file))
            else:
                yield judged.screening
        yield from _apart(kept, plan, file)


class _Waiting(NamedTuple):
    """What stays in memory of a recording until all have been seen."""

    worth: tuple[int, str]
    digest: str
    sketch: bytes
    known_share: float
    at: int
    size: int


def _put_by(judged: _Judged, plan: ScreenPlan, file: IO[bytes]) -> _Waiting:
    screening = judged.screening
    share = plan.known.share(judged.typed) if plan.known is not None else 0.0
    at = file.seek(0, os.SEEK_END)
    size = file.write(screening.model_dump_json().encode("utf-8", "replace"))
    return _Waiting(_worth(screening), screening.digest, array("Q", judged.sketch).tobytes(), share, at, size)


def _taken(waiting: _Waiting, file: IO[bytes]) -> Screening:
    file.seek(waiting.at)
    return Screening.model_validate_json(file.read(waiting.size))


def _judge(loaded: Loaded, *, rules: ScreenRules, keeps_transcript: bool) -> _Judged:
    try:
        screening, sketch = limited(rules.most_processor_s, _screened, loaded, rules)
    except MissingExtra:
        raise
    except RecordingTooLong as error:
        return _Judged(refused(loaded.path, loaded.digest, error.message, rule="took-too-long"), (), ())
    except RecordingError as error:
        return _Judged(refused(loaded.path, loaded.digest, error.message), (), ())
    except Exception as error:  # noqa: BLE001 - the border of one recording: what cannot be judged is refused
        reason = f"it could not be judged: {type(error).__name__}: {error}"
        return _Judged(refused(loaded.path, loaded.digest, reason[:500]), (), ())
    redacted = screening.transcript
    typed = tuple(command.text for command in redacted.commands) if redacted is not None else ()
    if not keeps_transcript:
        screening = screening.model_copy(update={"transcript": None})
    return _Judged(screening, sketch, typed if screening.kept else ())


def _screened(loaded: Loaded, rules: ScreenRules) -> tuple[Screening, Sketch]:
    transcript = read_loaded(loaded)
    return screen(transcript, rules), sketch_of(transcript)


def _apart(kept: Sequence[_Waiting], plan: ScreenPlan, file: IO[bytes]) -> Iterator[Screening]:
    """The kept ones, best first; those like a better one, or like a known task, are refused."""
    likeness = Likeness(plan.rules.near_duplicate)
    again = {waiting.digest for waiting in kept}
    for one in plan.earlier:
        if one.digest not in again:  # else it is looked at anew
            likeness.add(one.source, one.sketch)
    for waiting in sorted(kept):
        found = _taken(waiting, file)
        if waiting.known_share >= plan.rules.contamination_share:
            reason = f"{100 * waiting.known_share:.0f} % of what was typed stands in a known task"
            yield _with(found, Finding(gate=Gate.CONTAMINATION, rule="known-task", effect="drop", reason=reason))
            continue
        like = likeness.seen_before(found.source, found.digest, tuple(array("Q", waiting.sketch)))
        if like is not None:
            evidence = (Evidence(where="recording", excerpt=like[0]),)
            reason = f"{100 * like[1]:.0f} % of its commands are those of a recording that is kept"
            yield _with(
                found, Finding(gate=Gate.DUPLICATES, rule="alike", effect="drop", reason=reason, evidence=evidence)
            )
        else:
            yield found


def _worth(screening: Screening) -> tuple[int, str]:
    return -(screening.quality.total if screening.quality is not None else 0), screening.source


def _with(screening: Screening, finding: Finding) -> Screening:
    return screening.model_copy(update={"kept": False, "findings": (*screening.findings, finding)})
