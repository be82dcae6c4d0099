"""Runs that were handed in as bundles: what was found in them on arrival, beside the run as `verification.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record_as, write_record

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.run_folder import RunFolder
    from termarena.reports.handed_in import HandedIn

__all__ = ["FindingRow", "Verified", "keep_verified", "verified_of"]

KIND: Final = "handed-in-run"
MOST_FINDINGS: Final = 200
LONGEST_TEXT: Final = 1_000


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FindingRow(_Frozen):
    """One thing that was found; docs/bundles.md explains each rule."""

    severity: Literal["broken", "unranked", "note"]
    rule: str
    where: str
    message: str


class Verified(_Frozen):
    """What a handed-in run is worth, as far as files can tell."""

    chain: str
    """The end of its hash chain."""
    is_sound: bool
    """Nothing in it contradicts anything else."""
    is_rankable: bool
    """Sound, complete, and with the tasks' own limits."""
    accuracy: float | None
    """Computed anew from the journal."""
    findings: tuple[FindingRow, ...]
    """The gravest first; at most 200."""
    finding_count: int


def keep_verified(folder: RunFolder, found: HandedIn) -> Verified:
    """Write it down. Raises OSError."""
    order = {"broken": 0, "unranked": 1, "note": 2}
    rows = sorted(found.verification.findings, key=lambda one: order[one.severity])
    made = Verified(
        chain=found.verification.chain[:LONGEST_TEXT],
        is_sound=found.verification.is_sound,
        is_rankable=found.verification.is_rankable,
        accuracy=found.report.accuracy if found.report is not None else None,
        findings=tuple(_row(folder, *one) for one in rows[:MOST_FINDINGS]),
        finding_count=len(rows),
    )
    write_record(_place(folder), KIND, made.model_dump(mode="json"))
    return made


def _row(folder: RunFolder, severity: Literal["broken", "unranked", "note"], *texts: str) -> FindingRow:
    rule, where, message = (one.replace(f"{folder.path}/", "")[:LONGEST_TEXT] for one in texts)
    return FindingRow(severity=severity, rule=rule, where=where, message=message)


def verified_of(folder: RunFolder) -> Verified | None:
    """None for a run that was not handed in."""
    try:
        return read_record_as(Verified, _place(folder), KIND)
    except TaskFormatError:
        return None


def _place(folder: RunFolder) -> Path:
    return folder.path / "verification.json"
