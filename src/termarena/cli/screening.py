"""What `termarena forge screen` reads, shows and writes."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from termarena.cli.output import print_json, print_line, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.forge.screening import Screening, ScreenRules
    from termarena.forge.screening.likeness import Kept, Known
    from termarena.forge.sharding import Where

__all__ = ["Screened", "known_tasks", "read_rules", "workers", "write_transcript"]

LARGEST_TEXT = 1 << 20
_KNOWN_NAMES = ("instruction.md", "task.yaml", "solve.sh", "solution.sh", "solution.yaml")


def read_rules(path: Path | None) -> ScreenRules:
    """The thresholds in a file; raises `UsageError` for one that cannot be used."""
    from termarena.core.given_files import read_given_toml
    from termarena.forge.screening import ScreenRules

    if path is None:
        return ScreenRules()
    return read_given_toml(ScreenRules, path, hint=f"there is: {', '.join(ScreenRules.model_fields)}")


def known_tasks(folders: Sequence[Path]) -> Known | None:
    """The instructions and solutions below the folders; raises `NotFound` where there is none."""
    from termarena.core.errors import NotFound
    from termarena.forge.screening.likeness import Known

    if not folders:
        return None
    texts = [
        path.read_text(encoding="utf-8", errors="replace")[:LARGEST_TEXT]
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.name in _KNOWN_NAMES and path.is_file()
    ]
    if not texts:
        shown = ", ".join(map(str, folders))
        raise NotFound(f"no task is below {shown}", hint="give folders with tasks in any format")
    return Known(texts)


def write_transcript(screening: Screening, folder: Path) -> Path:
    """Write a kept, redacted transcript as the record NAME-DIGEST.json; raises `UsageError` where it cannot be."""
    from termarena.core.errors import UsageError
    from termarena.core.records import write_record

    transcript = screening.transcript
    assert transcript is not None  # noqa: S101 - asked for in the plan
    stem = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in Path(screening.source).stem)[:80]
    path = folder / f"{stem}-{screening.digest.partition(':')[2][:12]}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_record(path, "transcript", transcript.model_dump(mode="json"))
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}", hint="name another folder") from error
    return path


def kept_before(folder: Path | None) -> tuple[Kept, ...]:
    """What earlier calls wrote to the folder. Raises `TaskFormatError` for a record of theirs that cannot be read."""
    from termarena.forge.intake import transcripts_kept_in
    from termarena.forge.screening.likeness import Kept, sketch_of

    found = transcripts_kept_in(folder) if folder is not None and folder.is_dir() else ()
    return tuple(Kept(one.source, one.digest, sketch_of(one)) for one in found)


@contextmanager
def workers(engine: Literal["local", "ray"], address: str, jobs: int | None = None) -> Iterator[Where]:
    """Where recordings are read, for the length of a `with`. Raises what connecting to a cluster raises, and `HeadLost`
    where one is lost meanwhile."""
    from termarena.forge.sharding import Where

    if engine == "local":
        yield Where(jobs)
        return
    from termarena.runs.cluster.asking import Asking
    from termarena.runs.cluster.connecting import connect

    asking = Asking(connect(address))
    try:
        yield Where(cluster=asking)
    finally:
        asking.close()


class Screened:
    """Shows one recording after the other, and the sum of all."""

    def __init__(self) -> None:
        """Nothing counted yet."""
        self._kept = 0
        self._refused: Counter[str] = Counter()
        self._total = 0

    def count(self, screening: Screening) -> None:
        """A refused recording counts at the first gate that it did not pass."""
        self._total += 1
        self._kept += screening.kept
        if not screening.kept:
            first = next(finding for finding in screening.findings if finding.effect == "drop")
            self._refused[first.gate.value] += 1

    def show(self, screening: Screening, *, json: bool, explain: bool) -> None:
        """One recording: a line, or with `explain` all that was found."""
        if json:
            print_json(screening.model_dump(mode="json", exclude={"transcript"}), is_line=True)
            return
        score = f" {screening.quality.total:2d}/12" if screening.quality is not None else "     "
        decision = "kept   " if screening.kept else "refused"
        why = "" if screening.kept or explain else f": {screening.reasons[0]}"
        print_line(f"{decision}{score}  {screening.source}{why}")
        if explain:
            _explain(screening)

    def sum_up(self, *, json: bool) -> None:
        """How many are kept, and at which gates the others were refused."""
        if json:
            return
        gates = ", ".join(f"{gate} {count}" for gate, count in self._refused.most_common())
        say(f"{self._kept} of {self._total} recordings kept" + (f"; refused by {gates}" if gates else ""))


def _explain(screening: Screening) -> None:
    for redaction in screening.redactions:
        print_line(f"    {redaction.kind} replaced by {redaction.placeholder} ({redaction.times} times)")
    for finding in screening.findings:
        print_line(f"    {finding.effect} {finding.gate.value}/{finding.rule}: {finding.reason}")
        for evidence in finding.evidence:
            print_line(f"        {evidence.where}: {evidence.excerpt}")
