"""A trial from its folder, and a run from its journal, in words."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from termarena.agents.workspace import CLEAN_UP
from termarena.cli.output import on_one_line
from termarena.reports.telling import count, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from termarena.core.run_folder import AttemptFolder
    from termarena.grading.contract import Verdict
    from termarena.runs.journal import Event
    from termarena.runs.result import TrialResult

__all__ = ["event_line", "trial_log", "trial_log_text", "trial_text"]

_LABEL_WIDTH: Final = 14
MOST_BYTES: Final = 256 << 10
"""So much of the end of a text is shown; the file has all that was kept."""
LONGEST_CALL: Final = 200
MOST_LINES: Final = 12
"""Of a script that an agent ran; `tool_calls.json` has more of it, the trajectory all that was kept."""
_UNTOLD: Final = frozenset({"cols", "rows", "timeout_s"})
# Colours, titles and the like, which are no words; every other control character is spelled out where it is printed.
_STYLING: Final = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]|\x1b[]P^_X][^\x07\x1b]*(?:\x07|\x1b\\\\)|\x1b[ -/]*[0-~]|\r")


def trial_text(folder: AttemptFolder, result: TrialResult) -> str:
    """One trial on a screen: each fact on a line of its own, then its tests and findings."""
    facts = [f"{label:<{_LABEL_WIDTH}}{on_one_line(value)}" for label, value in _facts(folder, result)]
    verdict = result.verdict
    return "\n".join([*facts, *(_verdict_lines(verdict) if verdict is not None else ())])


def _facts(folder: AttemptFolder, result: TrialResult) -> Iterator[tuple[str, str]]:
    agent, limits, sandbox = result.agent, result.limits, result.sandbox
    again = f", retry {result.retry}" if result.retry else ""
    yield "trial", f"{result.task_id}, attempt {result.attempt}{again} of run {result.run_id}"
    yield "outcome", result.outcome + ("" if result.outcome == "solved" else f" ({result.failure_mode})")
    if result.fault_detail is not None:
        detail = result.fault_detail
        yield "fault", f"{result.fault or 'none'}, in {detail.phase}: {detail.kind}: {detail.message}"
        if detail.hint:
            yield "hint", detail.hint
    yield "reward", "none" if result.reward is None else f"{result.reward:g}"
    who = f"{agent.name} {agent.version}" + (f" with {agent.model}" if agent.model else "")
    yield "agent", f"{who}: {result.agent_end or 'never started'}, {count(agent.commands, 'command')}"
    if result.agent_error is not None:
        yield "agent error", f"{result.agent_error.kind}: {result.agent_error.message}"
    if agent.message:
        yield "last words", agent.message
    host = ", on this machine's own /usr" if sandbox.is_host_root else ""
    host += f", with substitutes: {'; '.join(sandbox.substitutes)}" if sandbox.substitutes else ""
    host += f", downloads {sandbox.fetches}" if sandbox.fetches else ""
    left = f"{sandbox.processes_left} left running" if sandbox.processes_left else "nothing left running"
    yield "sandbox", f"{sandbox.driver}{host}, {left}"
    yield "limits", f"agent {limits.agent_timeout_s:g} s, tests {limits.test_timeout_s:g} s"
    yield "clocks", ", ".join(f"{phase} {duration(clock.duration_s)}" for phase, clock in result.clocks.items())
    yield "time", f"{result.started_at} to {result.finished_at}"
    yield "files", f"{folder.path}: {', '.join(sorted(path.name for path in folder.path.iterdir()))}"


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    states = {"passed": "ok"}
    told = f"{verdict.graded_in} grading" + (", tests timed out" if verdict.timed_out else "")
    yield f"{'verdict':<{_LABEL_WIDTH}}{told}" + (", TAMPERED" if verdict.is_tampered else "")
    for test in verdict.tests:
        message = f": {test.message}" if test.message else ""
        yield on_one_line(f"  {states.get(test.state, test.state):<8} {test.name}{message}")
    for finding in verdict.findings:
        yield on_one_line(f"  {finding.severity}: {finding.message} ({finding.path}) [{finding.rule}]")


def trial_log(folder: AttemptFolder) -> dict[str, object]:
    """What a trial left to read: its calls, its errors, and what the tests wrote."""
    result = _record(folder.result)
    return {
        "folder": str(folder.path),
        "tool_calls": _record(folder.tool_calls).get("calls"),
        "agent_error": result.get("agent_error"),
        "fault_detail": result.get("fault_detail"),
        "test_output": _text(folder.test_output),
    }


def trial_log_text(log: Mapping[str, Any]) -> str:
    """The same in words, with a heading for each part that there is."""
    parts = [f"== {log['folder']}"]
    calls = log["tool_calls"] or []
    if calls:
        parts += [f"== what the agent did ({count(len(calls), 'call')})", *map(_call_text, calls)]
    for title, detail in (("the agent's error", log["agent_error"]), ("the fault", log["fault_detail"])):
        if detail:
            lines = [f"{detail['kind']}: {detail['message']}", detail.get("log_tail", ""), detail.get("traceback", "")]
            parts += [f"== {title}, in {detail['phase']}", *(_plain(line) for line in lines if line)]
    output = log["test_output"]
    parts += ["== what the tests wrote", _plain(output)] if output else ["== the tests wrote nothing"]
    return "\n".join(parts)


def _call_text(call: Mapping[str, Any]) -> str:
    """A call on one line; a script of several below it, as it was written."""
    ends = [f"status {call['exit_status']}" if call.get("exit_status") is not None else ""]
    ends += ["timed out" if call.get("timed_out") else "", call.get("error") or "", duration(call.get("duration_s"))]
    ended = f"({', '.join(end for end in ends if end)})"
    if (folder := _cleaned_up(call)) is not None:
        return on_one_line(f"clean up  {folder}  {ended}")
    words = [" ".join(map(str, value)) if isinstance(value, list) else str(value) for value in _values(call)]
    lines = [line.expandtabs(4) for line in " ".join(words).split("\n") if line.strip()]
    first, rest = (lines[0], lines[1:]) if lines else ("", [])
    more = [f"… {count(len(rest) - MOST_LINES, 'more line')}"] if len(rest) > MOST_LINES else []
    below = [f"    {_cut(line)}" for line in (*rest[:MOST_LINES], *more)]
    return "\n".join(on_one_line(line) for line in (f"{call.get('name', '')}  {_cut(first)}  {ended}", *below))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_CALL else f"{line[:LONGEST_CALL]}…"


def _cleaned_up(call: Mapping[str, Any]) -> str | None:
    """The folder that this call removes, where it is the harness's own after a script from the host."""
    arguments = call.get("arguments")
    if call.get("name") == "clean_up":
        return str(arguments.get("path")) if isinstance(arguments, dict) else None
    words, env = (arguments.get("argv"), arguments.get("env")) if isinstance(arguments, dict) else (None, None)
    is_ours = isinstance(words, list) and words[-1:] == [CLEAN_UP]
    return str(env.get("FOLDER")) if is_ours and isinstance(env, dict) else None


def _values(call: Mapping[str, Any]) -> Sequence[object]:
    """What the call was given, in words: no tables, no limits and sizes, and which terminal only from the second on."""
    arguments = call.get("arguments")
    given = arguments.items() if isinstance(arguments, dict) else ()
    return [
        f"in terminal {value}:" if name == "terminal" else value
        for name, value in given
        if not isinstance(value, dict) and name not in _UNTOLD and (name, value) != ("terminal", 1)
    ]


def event_line(event: Event) -> str:
    """One event of a journal."""
    fields = {name: value for name, value in event.fields.items() if name not in {"seq", "at", "event", "crc"}}
    if "task_id" not in fields:
        return f"{event.at}  {event.name}  {_pairs(fields)}".rstrip()
    trial = f"{fields['task_id']}/{fields['attempt']}" + (f" retry {fields['retry']}" if fields.get("retry") else "")
    if "outcome" not in fields:
        return f"{event.at}  {event.name}  {trial}"
    why = "" if fields["outcome"] == "solved" else f"  {fields['failure_mode']}"
    message = f": {fields['message']}" if fields.get("message") else ""
    return f"{event.at}  {event.name}  {trial}  {fields['outcome']}{why}{message}  {duration(fields['duration_s'])}"


def _pairs(fields: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in fields.items() if value not in (None, {}, ""))


def _plain(text: str) -> str:
    return _STYLING.sub("", text).rstrip("\n")


def _text(path: Path) -> str | None:
    """The end of a text; None where there is none."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - MOST_BYTES))
            tail = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    return tail if size <= MOST_BYTES else f"[… {size - MOST_BYTES} bytes before this: see {path}]\n{tail}"


def _record(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
