"""A run that was handed in as a bundle: what is found in it, and what its score comes to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from termarena.reports.building import build_report
from termarena.runs.verifying import Finding, Verification, verify_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from termarena.core.run_folder import RunFolder
    from termarena.reports.report import Report
    from termarena.runs.unpacking import Unpacked

__all__ = ["HandedIn", "judge"]


class HandedIn(NamedTuple):
    """What it is worth."""

    verification: Verification
    report: Report | None
    """Made anew from the journal; None where that cannot be read."""


def judge(folder: RunFolder, unpacked: Unpacked, tasks: Mapping[str, Any] | None = None) -> HandedIn:
    """See `verify_run`; the report that came with the run is compared with the one that its journal gives."""
    found = verify_run(folder, unpacked, tasks)
    report = build_report(found.view) if found.view is not None else None
    return HandedIn(replace(found, findings=(*found.findings, *_of_report(folder, report))), report)


def _of_report(folder: RunFolder, report: Report | None) -> Iterator[Finding]:
    if report is None or not folder.report.is_file():
        return
    try:
        told = json.loads(folder.report.read_bytes())["accuracy"]
    except (ValueError, KeyError, TypeError, RecursionError):
        told = "nothing"
    if told != report.accuracy:
        yield Finding("broken", "report", folder.report.name, f"it tells an accuracy of {told}, not {report.accuracy}")
