"""`report.json` and `report.md`, beside the journal that they are made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from termarena.core.records import read_record_as, write_atomically
from termarena.reports.markdown import as_markdown
from termarena.reports.report import Report

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.run_folder import RunFolder

__all__ = ["as_json", "read_report", "write_report"]

_KIND: Final = "report"


def as_json(report: Report) -> bytes:
    """The record `report.json`. Encoded by pydantic: json.dumps takes nine times as long over 100,000 tasks."""
    fields = {name: getattr(report, name) for name in Report.model_fields}
    return to_json({"schema_version": 1, "kind": _KIND, **fields}, indent=2) + b"\n"


def write_report(report: Report, folder: RunFolder) -> None:
    """Write both files, each whole or not at all; raises OSError."""
    write_atomically(folder.report, as_json(report))
    write_atomically(folder.report_text, as_markdown(report).encode())


def read_report(path: Path) -> Report:
    """The report in a `report.json`. Raises TaskFormatError when there is none in it."""
    return read_record_as(Report, path, _KIND)
