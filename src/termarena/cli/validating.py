"""What `tasks validate` does with what the rules find: collects it, counts it, shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from termarena.cli.choosing import names_of_others
from termarena.cli.output import Column, print_line, print_table, progress
from termarena.tasks import Finding
from termarena.tasks.lint import lint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.tasks import Dataset

__all__ = ["Checked", "check_datasets", "print_findings"]

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim", "ok": "green"}


@dataclass(frozen=True)
class CheckedTask:
    """One task and what was found; `id` is its path if it did not load."""

    id: str
    path: str
    findings: tuple[Finding, ...]

    def count(self, severity: Severity) -> int:
        """How many findings of this severity."""
        return sum(1 for finding in self.findings if finding.severity == severity)


@dataclass(frozen=True)
class Checked:
    """Everything that was checked; `others` are the names of folders beside the tasks that claim to be none."""

    tasks: tuple[CheckedTask, ...]
    others: tuple[str, ...] = ()

    def count(self, severity: Severity) -> int:
        """How many findings of this severity, over all tasks."""
        return sum(task.count(severity) for task in self.tasks)

    def as_dict(self) -> dict[str, object]:
        """As `--json` shows it."""
        return {
            "tasks": [
                {"id": task.id, "path": task.path, "findings": [one.model_dump() for one in task.findings]}
                for task in self.tasks
            ],
            "others": list(self.others),
            **{f"{severity}s" if severity != "info" else "notes": self.count(severity) for severity in SEVERITIES},
        }


def check_datasets(datasets: Sequence[Dataset]) -> Checked:
    """Check every task of every dataset; one that does not load is a finding of the rule `does-not-load`."""
    total = sum(len(dataset) + len(dataset.broken) + bool(dataset.findings) for dataset in datasets)
    tasks: list[CheckedTask] = []
    with progress("checking", total=total) as shown:
        for dataset in datasets:
            for task in _checked(dataset):
                tasks.append(task)
                shown.advance()
    return Checked(tuple(tasks), tuple(name for dataset in datasets for name in names_of_others(dataset)))


def _checked(dataset: Dataset) -> Iterator[CheckedTask]:
    for task in dataset:
        yield CheckedTask(task.id, task.provenance.path, (*task.findings, *lint(task)))
    for broken in dataset.broken:
        error = broken.error
        finding = Finding(
            rule="does-not-load", severity="error", file=broken.path, message=error.message, hint=error.hint
        )
        yield CheckedTask(broken.path, broken.path, (finding,))
    if dataset.manifest is not None and dataset.findings:
        yield CheckedTask(dataset.manifest.file, dataset.path, dataset.findings)


def print_findings(checked: Checked, *, with_notes: bool) -> None:
    """Each finding, then a table with a line per task (a line per verdict, where there are many tasks), then the
    sum."""
    shown = SEVERITIES if with_notes else SEVERITIES[:2]
    for task in checked.tasks:
        for finding in task.findings:
            if finding.severity in shown:
                _print_finding(task, finding)
    many = len(checked.tasks) > MANY_TASKS
    listed = [task for task in checked.tasks if not many or _verdict(task) != "ok"][:MANY_TASKS]
    if listed:
        numbers = [Column(name, "right") for name in ("errors", "warnings", "notes")]
        columns: list[str | Column] = ["task", Column("verdict", styles=_STYLES), *numbers]
        print_table(columns, [_row(task) for task in listed])
    errors, warnings, notes = (checked.count(severity) for severity in SEVERITIES)
    good = sum(_verdict(task) == "ok" for task in checked.tasks)
    print_line()
    hidden = " (--notes shows them)" if notes and not with_notes else ""
    print_line(f"{good} of {len(checked.tasks)} tasks ok; {errors} errors, {warnings} warnings, {notes} notes{hidden}")


# Beyond this, a line for every task that is fine helps nobody.
MANY_TASKS = 60


def _row(task: CheckedTask) -> list[object]:
    return [task.id, _verdict(task), *(task.count(severity) or None for severity in SEVERITIES)]


def _verdict(task: CheckedTask) -> str:
    return next((severity for severity in SEVERITIES[:2] if task.count(severity)), "ok")


def _print_finding(task: CheckedTask, finding: Finding) -> None:
    where = f"{finding.file}:{finding.line}" if finding.line else finding.file
    place = where if task.id == task.path else f"{task.id}: {where}"
    print_line(f"{finding.severity}: {place}: {finding.message} [{finding.rule}]")
    if finding.hint:
        print_line(f"    {finding.hint}")
