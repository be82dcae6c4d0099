"""A trajectory as turns and acts: what was said, what was done, what came of it, and what it took."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from termarena.analysis.shell_words import Line, read_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.analysis.shell_words import Effect
    from termarena.core.trajectory import Content, ObservationResult, Step, ToolCall, Trajectory

__all__ = ["Act", "Turn", "durations_of", "error_kind", "turns_of"]

Kind = Literal["command", "keys", "read", "write", "other"]
Status = Literal["ok", "failed", "timeout", "unknown"]
INSTALLED: Final = "cli:"
SHOWN_CHARACTERS: Final = 600
READ_FOR_ERRORS: Final = 20_000

_COMMAND_NAMES: Final = ("command", "cmd", "script", "argv", "keystrokes", "keys", "code", "input")
_PATH_NAMES: Final = ("path", "file_path", "filename", "file")
_READING: Final = re.compile(r"(?:^|[._])(?:read|view|open|cat|list|glob|grep|search|ls|find|fetch)", re.IGNORECASE)
_WRITING: Final = re.compile(
    r"(?:^|[._])(?:write|edit|create|put|patch|apply|replace|insert|delete|move)", re.IGNORECASE
)
_EDITOR_COMMANDS: Final = frozenset(("view", "create", "str_replace", "insert", "undo_edit"))
"""What an editor for models is told as its `command`, beside a path: no line for a shell."""
_NO_ACT: Final = frozenset(("terminal", "task_complete", "submit", "finish", "think", "todowrite", "update_plan"))
"""Opening a terminal, ending, planning: nothing that was done to the task."""

_ERRORS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern, re.MULTILINE | re.IGNORECASE))
    for kind, pattern in (
        ("command not found", r"command not found|: not found$|is not recognized as an? (?:internal|command)"),
        ("missing module", r"ModuleNotFoundError|ImportError|Cannot find module|No module named"),
        ("missing file", r"No such file or directory|FileNotFoundError|cannot access|does not exist"),
        ("permission", r"Permission denied|PermissionError|Operation not permitted|must be root"),
        ("network", r"Could not resolve|Connection refused|Network is unreachable|Temporary failure in name|timed out"),
        ("syntax", r"SyntaxError|syntax error|unexpected token|parse error|invalid syntax|IndentationError"),
        (
            "compile or build",
            r"\berror: |undefined reference|\*\*\* (?:\[|No rule)|collect2: error|compilation terminated",
        ),
        ("crash", r"Segmentation fault|core dumped|Traceback \(most recent call last\)|panic:|Aborted"),
        ("failed test", r"\bFAILED\b|AssertionError|assertion failed|\d+ failed"),
        ("usage", r"[Uu]sage:|unrecognized (?:option|argument)|invalid option|unknown (?:option|command|flag)"),
        ("no space or memory", r"No space left|Out of memory|Cannot allocate memory|\bKilled\b"),
    )
)
_CERTAIN: Final = re.compile(
    r"command not found|No such file or directory|Permission denied|Traceback \(most recent call last\)|SyntaxError"
    r"|^(?:\w+: )?(?:fatal|error): |Segmentation fault|undefined reference",
    re.MULTILINE,
)
"""Read where no exit status was recorded."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that was done."""

    step_id: int
    kind: Kind
    text: str
    """The command line, the keys, or the tool and its path."""
    move: str
    """Equal for acts that do the same: without spaces and options that make no difference."""
    line: Line
    status: Status
    exit_status: int | None
    output: str
    """The beginning and the end of it."""
    output_digest: bytes
    error: str | None
    """What kind of error it shows, where it failed."""
    at_s: float | None
    """Since the trajectory began."""
    duration_s: float

    @property
    def effect(self) -> Effect:
        """What it was for."""
        return self.line.effect

    @property
    def is_error(self) -> bool:
        """It failed, and that was no answer."""
        return self.status in ("failed", "timeout")

    @property
    def is_pause(self) -> bool:
        """It waits: by a command, or by pressing no key."""
        is_keyless = self.kind == "keys" and not self.text.strip()
        return is_keyless or "sleep" in self.line.programs or "wait" in self.line.programs


@dataclass(slots=True)
class Turn:
    """What the agent said, and what it did then; an agent without a model has one turn and says nothing."""

    step_id: int
    said: str = ""
    at_s: float | None = None
    thinking_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    acts: list[Act] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Thinking and doing."""
        return self.thinking_s + sum(act.duration_s for act in self.acts)


def durations_of(tool_calls: Path) -> dict[str, float]:
    """Seconds of each call by its id, from `tool_calls.json`; empty where that is missing or is none."""
    try:
        rows = json.loads(tool_calls.read_bytes())["calls"]
        return {str(row["id"]): float(row["duration_s"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def turns_of(trajectory: Trajectory, durations: Mapping[str, float]) -> list[Turn]:
    """Everything the agent said and did, in order. Of an agent in the sandbox, not the command that it is itself."""
    reader = _Reader(durations, _seconds(trajectory.steps[0].timestamp))
    steps = [*trajectory.steps]
    if trajectory.agent.name.startswith(INSTALLED) and any(map(_is_told, steps)):
        steps = [step for step in steps if step.source != "agent" or _is_told(step)]
    for place, step in enumerate(steps):
        reader.read(step, _began_s(steps[place + 1]) if place + 1 < len(steps) else None)
    return reader.turns


def _is_told(step: Step) -> bool:
    """Whether the agent tells of it; what the harness did for it has no call of a model by definition."""
    return step.source == "agent" and step.llm_call_count != 0


def _began_s(step: Step) -> float | None:
    """When a step's thinking began: it is dated when that was over."""
    at_s = _seconds(step.timestamp)
    return None if at_s is None else at_s - _number((step.extra or {}).get("duration_s"))


def error_kind(output: str) -> str | None:
    """What kind of error an output shows; None where it shows none that is known."""
    shown = output[-READ_FOR_ERRORS:]
    return next((kind for kind, pattern in _ERRORS if pattern.search(shown)), None)


class _Reader:
    def __init__(self, durations: Mapping[str, float], began_s: float | None) -> None:
        self.turns: list[Turn] = []
        self._durations = durations
        self._began_s = began_s
        self._last_screen: frozenset[str] = frozenset()

    def read(self, step: Step, following_s: float | None) -> None:
        if step.source != "agent" or step.is_copied_context:
            return
        if _is_said(step) or not self.turns:
            self.turns.append(self._turn(step))
        results = {one.source_call_id: one for one in (step.observation.results if step.observation else ())}
        calls = [call for call in step.tool_calls or () if call.function_name.lower() not in _NO_ACT]
        now_s = _seconds(step.timestamp)
        lasted_s = max(0.0, following_s - now_s) if following_s is not None and now_s is not None else 0.0
        for call in calls:
            result = results.get(call.tool_call_id) or (results.get(None) if len(calls) == 1 else None)
            duration_s = self._durations.get(call.tool_call_id, lasted_s / len(calls))
            self.turns[-1].acts.append(self._act(step, call, result, duration_s))

    def _turn(self, step: Step) -> Turn:
        used = step.metrics
        return Turn(
            step.step_id,
            said=_text(step.message) or _asked(step),
            at_s=self._since(step),
            thinking_s=_number((step.extra or {}).get("duration_s")),
            input_tokens=(used.prompt_tokens if used else None) or 0,
            output_tokens=(used.completion_tokens if used else None) or 0,
            cost_usd=used.cost_usd if used else None,
        )

    def _since(self, step: Step) -> float | None:
        at_s = _seconds(step.timestamp)
        return None if at_s is None or self._began_s is None else max(0.0, at_s - self._began_s)

    def _act(self, step: Step, call: ToolCall, result: ObservationResult | None, duration_s: float) -> Act:
        kind, text, line = _read_call(call)
        output = _text(result.content) if result is not None else ""
        facts = (result.extra if result is not None else None) or {}
        new = self._new_lines(output) if kind == "keys" else output
        status, exit_status = _status(kind, line, facts, new)
        return Act(
            step_id=step.step_id,
            kind=kind,
            text=text,
            move=_move(kind, text, call),
            line=line,
            status=status,
            exit_status=exit_status,
            output=_shortened(output),
            output_digest=_digest(output),
            error=(error_kind(str(facts.get("error") or "") + new) or "other") if status == "failed" else None,
            at_s=self._since(step),
            duration_s=duration_s,
        )

    def _new_lines(self, screen: str) -> str:
        """Of a screen, what the one before did not show: an old error is no new one."""
        lines = screen.splitlines()
        new = "\n".join(line for line in lines if line not in self._last_screen)
        self._last_screen = frozenset(lines)
        return new


def _asked(step: Step) -> str:
    """What a model without words asked for, by name: also what is no act, such as ending."""
    asked = (step.extra or {}).get("tool_calls")
    names = [str(call.get("name")) for call in asked if isinstance(call, dict)] if isinstance(asked, list) else []
    return f"({', '.join(names)})" if names else ""


def _is_said(step: Step) -> bool:
    return step.llm_call_count != 0 and bool(step.llm_call_count or step.metrics or step.message)


def _read_call(call: ToolCall) -> tuple[Kind, str, Line]:
    name, given = call.function_name, call.arguments
    path = next((str(given[key]) for key in _PATH_NAMES if given.get(key)), "")
    verb = given.get("command") if path else None
    if isinstance(verb, str) and verb in _EDITOR_COMMANDS:
        return _on_a_path("view" if verb == "view" else "edit", f"{name} {verb}", path)
    for key in _COMMAND_NAMES:
        value = given.get(key)
        if isinstance(value, list | tuple):
            value = _joined(value)
        if isinstance(value, str) and value:
            kind: Kind = "keys" if "key" in key or "send_keys" in name else "command"
            return kind, value, read_line(value)
        if value == "" and "key" in key:
            return "keys", "", Line((), frozenset(), "idle", is_question=False)
    return _on_a_path(name, name, path or _shortened(json.dumps(dict(given), default=str), 200), is_path=bool(path))


def _on_a_path(name: str, told: str, path: str, *, is_path: bool = True) -> tuple[Kind, str, Line]:
    """What a tool of this name does to a file; without a path, `path` is all that it was given."""
    names = frozenset((path, path.rsplit("/", 1)[-1])) - {""} if is_path else frozenset[str]()
    text = f"{told} {path}".rstrip()
    if _WRITING.search(name):
        return "write", text, Line((), names, "change", is_question=False)
    if _READING.search(name):
        return "read", text, Line((), names, "look", is_question=True)
    return "other", text, Line((), names, "change", is_question=False)


def _move(kind: Kind, text: str, call: ToolCall) -> str:
    if kind in ("command", "keys"):
        return f"{kind} {' '.join(text.split())}"
    return f"{text} {_digest(json.dumps(dict(call.arguments), default=str, sort_keys=True)).hex()}"


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _joined(words: list[Any] | tuple[Any, ...]) -> str:
    """A list of words as a line; the script of `sh -c SCRIPT` is the line."""
    plain = [str(word) for word in words]
    if len(plain) == 3 and plain[0].rsplit("/", 1)[-1] in ("sh", "bash", "zsh", "dash") and plain[1] in ("-c", "-lc"):  # noqa: PLR2004
        return plain[2]
    return shlex.join(plain)


def _status(kind: Kind, line: Line, facts: Mapping[str, Any], output: str) -> tuple[Status, int | None]:
    exit_status = facts.get("exit_status", facts.get("exit_code"))
    exit_status = exit_status if isinstance(exit_status, int) else None
    if facts.get("timed_out"):
        return "timeout", exit_status
    if facts.get("error") or facts.get("is_error"):
        return "failed", exit_status
    if exit_status is None and kind in ("read", "write"):
        return "ok", None
    if exit_status is None:
        return ("failed" if _CERTAIN.search(output[-READ_FOR_ERRORS:]) else "unknown"), None
    is_answer = exit_status == 0 or (line.is_question and exit_status in (1, 2))
    return ("ok" if is_answer else "failed"), exit_status


def _text(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content if part.text)


def _shortened(text: str, most: int = SHOWN_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} […] {text[-(most // 2) :]}"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value >= 0 else 0.0


def _seconds(timestamp: str | None) -> float | None:
    return None if timestamp is None else datetime.fromisoformat(timestamp).timestamp()
