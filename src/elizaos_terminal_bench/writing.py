"""The files of a run, by the names that ElizaOS gives them, beside the run folder that they are made from."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elizaos_terminal_bench.markdown import format_report_markdown
from termarena.core.errors import RunNotWritable
from termarena.core.records import write_atomically
from termarena.core.run_folder import RunFolder, folder_name

if TYPE_CHECKING:
    from elizaos_terminal_bench.types import (
        TerminalBenchConfig,
        TerminalBenchReport,
        TerminalBenchResult,
    )

__all__ = ["OutputFiles", "report_as_dict", "session_as_dict", "session_names", "write_files"]


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """Where everything of one run lies.

    terminal-bench-<time>.json      the report
    terminal-bench-<time>.md        the same for people
    sessions-<time>/<task>.json     what the agent did, task by task
    terminal-bench-<time>/          TermArena's own run folder, which the others are made from
    """

    folder: Path
    stamp: str

    @classmethod
    def new(cls, folder: Path | str) -> OutputFiles:
        """Names of this moment (UTC), or with a number behind them where those are taken."""
        place, now = Path(folder), f"{datetime.now(UTC):%Y%m%d_%H%M%S}"
        stamp, number = now, 2
        while (place / f"terminal-bench-{stamp}").exists():
            stamp, number = f"{now}-{number}", number + 1
        return cls(place, stamp)

    @property
    def run(self) -> RunFolder:
        """The run."""
        return RunFolder(self.folder / f"terminal-bench-{self.stamp}")

    @property
    def report(self) -> Path:
        """The report as JSON."""
        return self.folder / f"terminal-bench-{self.stamp}.json"

    @property
    def report_text(self) -> Path:
        """The report as Markdown."""
        return self.folder / f"terminal-bench-{self.stamp}.md"

    @property
    def sessions(self) -> Path:
        """The folder of sessions."""
        return self.folder / f"sessions-{self.stamp}"


def write_files(report: TerminalBenchReport, files: OutputFiles, config: TerminalBenchConfig) -> None:
    """Write what the config asks for, each file whole or not at all. Raises RunNotWritable."""
    try:
        write_atomically(files.report, _json(report_as_dict(report)))
        if config.generate_markdown:
            write_atomically(files.report_text, format_report_markdown(report).encode())
        if config.save_sessions:
            _write_sessions(report, files)
    except OSError as error:
        raise RunNotWritable(str(error.filename or files.folder), problem=error.strerror or str(error)) from error


def report_as_dict(report: TerminalBenchReport) -> dict[str, Any]:
    """The report as its JSON file has it: ElizaOS's fields, and beside them what it does not have."""
    compared = report.leaderboard_comparison
    return {
        "metadata": dict(report.metadata),
        "summary": {
            "total_tasks": report.total_tasks,
            "passed_tasks": report.passed_tasks,
            "failed_tasks": report.failed_tasks,
            "unscored_tasks": report.unscored_tasks,
            "accuracy": report.accuracy,
            "total_commands": report.total_commands,
            "avg_commands_per_task": report.avg_commands_per_task,
            "total_tokens": report.total_tokens,
            "avg_tokens_per_task": report.avg_tokens_per_task,
            "evaluation_time_seconds": report.evaluation_time_seconds,
            "avg_time_per_task_seconds": report.avg_time_per_task_seconds,
        },
        "leaderboard_comparison": None if compared is None else asdict(compared),
        "by_category": {name.value: asdict(each) for name, each in report.by_category.items()},
        "by_difficulty": {name.value: asdict(each) for name, each in report.by_difficulty.items()},
        "error_categories": report.error_categories,
        "results": [_result(result) for result in report.results],
    }


def session_as_dict(result: TerminalBenchResult) -> dict[str, Any]:
    """The session of a result that has one."""
    session = result.session
    if session is None:
        raise ValueError(f"{result.task_id} has no session")
    return {
        "session_id": session.session_id,
        "task_id": result.task_id,
        "success": result.success,
        "outcome": result.outcome,
        "instruction": session.task.instruction,
        "start_time": None if session.start_time is None else session.start_time.isoformat(),
        "end_time": None if session.end_time is None else session.end_time.isoformat(),
        "commands": [
            {
                "command": command.command,
                "stdout": command.stdout,
                "stderr": command.stderr,
                "exit_code": command.exit_code,
                "execution_time_ms": command.execution_time_ms,
                "timestamp": command.timestamp.isoformat(),
                "status": command.status.value,
            }
            for command in session.commands
        ],
        "total_tokens": session.total_tokens,
        "test_output": result.test_output,
    }


def session_names(task_ids: list[str]) -> dict[str, str]:
    """The file name of each task: its id without the organisation, where that is plain and only one has it."""
    short = Counter(each.rpartition("/")[2] for each in task_ids)
    names = {}
    for each in task_ids:
        own = each.rpartition("/")[2]
        is_plain = short[own] == 1 and folder_name(own) == own
        names[each] = f"{own if is_plain else folder_name(each)}.json"
    return names


def _write_sessions(report: TerminalBenchReport, files: OutputFiles) -> None:
    files.sessions.mkdir(parents=True)
    names = session_names([result.task_id for result in report.results])
    for result in report.results:
        if result.session is not None:
            write_atomically(files.sessions / names[result.task_id], _json(session_as_dict(result)))


def _result(result: TerminalBenchResult) -> dict[str, Any]:
    return {
        "task_id": result.task_id,
        "success": result.success,
        "outcome": result.outcome,
        "commands_executed": result.commands_executed,
        "total_execution_time_ms": result.total_execution_time_ms,
        "tokens_used": result.tokens_used,
        "test_exit_code": result.test_exit_code,
        "error_message": result.error_message,
        "category": result.category.value,
        "difficulty": result.difficulty.value,
        "test_output": result.test_output,
    }


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", "replace")
