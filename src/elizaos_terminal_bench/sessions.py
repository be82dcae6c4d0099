"""What a trial left in its run folder, as ElizaOS's result and session."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from elizaos_terminal_bench.types import (
    CommandStatus,
    TaskCategory,
    TaskDifficulty,
    TerminalBenchResult,
    TerminalCommand,
    TerminalSession,
)
from termarena.core.records import read_record
from termarena.core.trajectory import read_trajectory
from termarena.runs.recording import read_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elizaos_terminal_bench.types import TerminalTask
    from termarena.core.run_folder import AttemptFolder
    from termarena.core.trajectory import ObservationResult, Step, ToolCall
    from termarena.runs.result import TrialResult, TrialSummary

__all__ = ["result_of"]

COMMANDS: Final = {"exec": "script", "terminal.run": "command", "terminal.type_text": "text", "terminal.paste": "text"}
"""The calls that are commands, and the argument that says which; `exec` may have an `argv` instead."""
LONGEST_OUTPUT_CHARS: Final = 1 << 16
_STDERR: Final = b"[stderr]\n"


def result_of(summary: TrialSummary, folder: AttemptFolder, task: TerminalTask | None) -> TerminalBenchResult:
    """One task's result; without a session where the trial never began. Raises TaskFormatError for a damaged record.

    `task` is None for a folder that does not load.
    """
    found = read_result(folder) if folder.result.is_file() else None
    verdict = found.verdict if found is not None else None
    tokens = [each for each in (summary.input_tokens, summary.output_tokens) if each is not None]
    return TerminalBenchResult(
        task_id=summary.task_id,
        success=summary.outcome == "solved",
        outcome=summary.outcome,
        commands_executed=summary.commands or 0,
        total_execution_time_ms=1000 * (summary.work_s or 0.0),
        test_output=_test_output(folder),
        test_exit_code=verdict.exit_status if verdict is not None else None,
        error_message=_error(summary),
        tokens_used=sum(tokens) if tokens else None,
        session=_session(found, folder, task) if found is not None and task is not None else None,
        category=task.category if task is not None else TaskCategory.UNKNOWN,
        difficulty=task.difficulty if task is not None else TaskDifficulty.UNKNOWN,
    )


def _error(summary: TrialSummary) -> str | None:
    if summary.outcome == "solved":
        return None
    return f"{summary.failure_mode}: {summary.message}" if summary.message else summary.failure_mode


def _test_output(folder: AttemptFolder) -> str:
    if not folder.test_output.is_file():
        return ""
    return folder.test_output.read_bytes().decode("utf-8", "replace")


def _session(found: TrialResult, folder: AttemptFolder, task: TerminalTask) -> TerminalSession:
    used = [each for each in (found.agent.input_tokens, found.agent.output_tokens) if each is not None]
    return TerminalSession(
        session_id=f"{found.run_id}-{folder.path.parent.name}-{found.attempt}",
        task=task,
        commands=[*_commands(folder)],
        start_time=datetime.fromisoformat(found.started_at),
        end_time=datetime.fromisoformat(found.finished_at),
        total_tokens=sum(used) if used else None,
    )


def _commands(folder: AttemptFolder) -> Iterator[TerminalCommand]:
    if not folder.trajectory.is_file():
        return
    durations = _durations(folder)
    for step in read_trajectory(folder.trajectory).steps:
        results = {each.source_call_id: each for each in (step.observation.results if step.observation else ())}
        for call in step.tool_calls or ():
            if call.function_name in COMMANDS and call.tool_call_id in results:
                yield _command(step, call, results[call.tool_call_id], durations.get(call.tool_call_id, 0.0))


def _durations(folder: AttemptFolder) -> dict[str, float]:
    calls: Any = read_record(folder.tool_calls, "tool_calls")["calls"]
    return {call["id"]: call["duration_s"] for call in calls}


def _command(step: Step, call: ToolCall, result: ObservationResult, duration_s: float) -> TerminalCommand:
    facts = result.extra or {}
    content = result.content if isinstance(result.content, str) else ""
    stdout, stderr = _split(content, facts.get("stderr_bytes", 0))
    status = facts.get("exit_status")
    return TerminalCommand(
        command=_words(call),
        stdout=stdout[:LONGEST_OUTPUT_CHARS],
        stderr=stderr[:LONGEST_OUTPUT_CHARS],
        exit_code=status,
        execution_time_ms=1000 * duration_s,
        timestamp=datetime.fromisoformat(step.timestamp or ""),
        working_directory=call.arguments.get("cwd"),
        status=_status(status, timed_out=bool(facts.get("timed_out")), error=facts.get("error")),
    )


def _words(call: ToolCall) -> str:
    said = call.arguments.get(COMMANDS[call.function_name])
    return said if isinstance(said, str) else shlex.join(map(str, call.arguments.get("argv", ())))


def _split(content: str, stderr_bytes: int) -> tuple[str, str]:
    """The two streams of an output that was kept as one, by how much of it was the second."""
    raw = content.encode()
    at = len(raw) - stderr_bytes
    if not stderr_bytes:
        return content, ""
    if at < len(_STDERR) or not raw[:at].endswith(_STDERR):  # cut, or a secret was taken out of it
        stdout, _, stderr = content.partition(_STDERR.decode())
        return stdout, stderr
    return raw[: at - len(_STDERR)].decode("utf-8", "replace"), raw[at:].decode("utf-8", "replace")


def _status(status: int | None, *, timed_out: bool, error: str | None) -> CommandStatus:
    if timed_out:
        return CommandStatus.TIMEOUT
    if error is not None:
        return CommandStatus.ERROR
    return CommandStatus.SUCCESS if not status else CommandStatus.FAILED
