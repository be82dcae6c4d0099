"""What an attempt keeps of its agent's work: steps, calls, protocol messages, recordings of terminals."""

from __future__ import annotations

import base64
import json
import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from termarena.agents.unfinished import UnfinishedTrajectory
from termarena.core.records import write_record
from termarena.core.trajectory import (
    FinalMetrics,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
    write_trajectory,
)
from termarena.sandbox.terminal import CastWriter

if TYPE_CHECKING:
    from termarena.agents.contract import Usage
    from termarena.core.records import Json
    from termarena.core.run_folder import AttemptFolder
    from termarena.core.scrub import Scrubber
    from termarena.core.trajectory import TrajectoryAgent

__all__ = ["Call", "CallRow", "Recording", "Told", "WorkspaceRecord"]

STEP_TEXT_BYTES: Final = 1 << 18
"""Of one argument and one output in the trajectory: 20,000 lines of a dozen characters, with room."""
ROW_TEXT_BYTES: Final = 1 << 11
"""Of one argument in `tool_calls.json`."""
ALL_TEXT_BYTES: Final = 128 << 20
"""Of all outputs in one trajectory; what comes after it is only counted."""
MESSAGES_BYTES: Final = 256 << 20
SCRUB_ROOM: Final = 1 << 14
"""How much more than what is kept is looked at, so that no half of a secret stays at the cut."""
NOT_COMMANDS: Final = frozenset({"read", "write", "put_tree", "clean_up", "terminal", "person"})


class Call:
    """A call of the workspace that has begun."""

    __slots__ = ("arguments", "name", "started", "started_at")

    def __init__(self, name: str, arguments: Mapping[str, object]) -> None:
        """Its clock starts; arguments that are None are left out."""
        self.name = name
        self.arguments = {key: value for key, value in arguments.items() if value is not None}
        self.started = time.monotonic()
        self.started_at = _now()


@dataclass(frozen=True, slots=True)
class Told:
    """How a call came out."""

    output: bytes = b""
    output_bytes: int = 0
    exit_status: int | None = None
    timed_out: bool = False
    error: str | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)
    """More for the trajectory."""


class CallRow(BaseModel):
    """One call in `tool_calls.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """As in the trajectory."""
    step_id: int
    name: str
    """`exec`, `read`, `write`, `put_tree`, `clean_up`, `terminal`, `terminal.run`, `terminal.send_keys` …"""
    arguments: dict[str, Any]
    """Texts are cut; the trajectory has more of them."""
    started_at: str
    duration_s: float
    exit_status: int | None = None
    timed_out: bool = False
    error: str | None = None
    output_bytes: int = 0
    """How much came out in all."""


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """Everything that was kept, scrubbed."""

    steps: tuple[Step, ...]
    calls: tuple[CallRow, ...]
    counts: Mapping[str, int]
    """Calls by name."""
    casts: int
    """How many terminals were recorded."""
    problems: tuple[str, ...] = ()
    """What could not be kept whole, in sentences."""

    @property
    def commands(self) -> int:
        """Programs that were run and input that was typed; files and opened terminals do not count."""
        return sum(number for name, number in self.counts.items() if name not in NOT_COMMANDS)

    def save(self, folder: AttemptFolder, agent: TrajectoryAgent, *, usage: Usage | None = None) -> None:
        """Write `trajectory.json` and `tool_calls.json`, each as a whole and before what makes the attempt durable.
        Raises OSError.

        An agent that was told nothing and did nothing has no trajectory: the format asks for a step.
        """
        rows = [row.model_dump(exclude_none=True) for row in self.calls]
        write_record(folder.tool_calls, "tool_calls", {"counts": dict(self.counts), "calls": rows}, is_durable=False)
        if self.steps:
            trajectory = Trajectory(agent=agent, steps=self.steps, final_metrics=self._sums(usage))
            write_trajectory(folder.trajectory, trajectory, is_durable=False)

    def _sums(self, usage: Usage | None) -> FinalMetrics:
        return FinalMetrics(
            total_prompt_tokens=usage.input_tokens if usage else None,
            total_completion_tokens=usage.output_tokens if usage else None,
            total_cached_tokens=usage.cached_tokens if usage else None,
            total_cost_usd=usage.cost_usd if usage else None,
            total_steps=len(self.steps),
            extra={"commands": self.commands},
        )


class Recording:
    """Collects what the workspaces of one attempt tell; nothing but `messages.jsonl` and casts is written before the
    end."""

    def __init__(self, folder: AttemptFolder, scrubber: Scrubber) -> None:
        """`folder` must exist once there is something to write."""
        self.folder = folder
        self._scrubber = scrubber
        self._steps: list[Step] = []
        self._calls: list[CallRow] = []
        self._counts: Counter[str] = Counter()
        self._casts: dict[int, CastWriter] = {}
        self._last_cast = 0
        self._message_bytes = 0
        self._text_room = ALL_TEXT_BYTES
        self._problems: list[str] = []
        self._agent: TrajectoryAgent | None = None
        self._so_far = UnfinishedTrajectory(folder.trajectory)

    # What is told.

    def instruct(self, instruction: str) -> None:
        """The user's step that every trajectory, and every step of a task of several, begins with."""
        self._append(Step(source="user", message=self._clean(instruction), timestamp=_now()))

    def introduce(self, agent: TrajectoryAgent) -> None:
        """Whose trajectory it is; from now on it is saved with every note, so that a killed harness leaves it."""
        self._agent = agent

    def note(self, step: Step) -> None:
        """A step of the agent's own; it is numbered and dated here."""
        content = self._scrubber.scrub_json(step.model_dump(mode="json", exclude_none=True))
        self._append(Step.model_validate({"timestamp": _now(), **_mapping(content)}))
        if self._agent is not None:
            self._so_far.save(self._agent, self._steps)

    def add(self, call: Call, told: Told) -> None:
        """A call that has ended, whichever way."""
        if told.error is not None:
            told = replace(told, error=self._clean(told.error))
        self._counts[call.name] += 1
        number = f"call-{len(self._calls) + 1}"
        kept, cut = self._kept(call.arguments, STEP_TEXT_BYTES)
        result = ObservationResult(source_call_id=number, content=self._output(told), extra=_facts(told))
        self._append(
            Step(
                timestamp=call.started_at,
                tool_calls=(
                    ToolCall(
                        tool_call_id=number,
                        function_name=call.name,
                        arguments=kept,
                        extra={"cut_arguments": cut} if cut else None,
                    ),
                ),
                observation=Observation(results=(result,)),
                llm_call_count=0,
            )
        )
        self._calls.append(
            CallRow(
                id=number,
                step_id=len(self._steps),
                name=call.name,
                arguments=self._kept(call.arguments, ROW_TEXT_BYTES)[0],
                started_at=call.started_at,
                duration_s=round(time.monotonic() - call.started, 6),
                exit_status=told.exit_status,
                timed_out=told.timed_out,
                error=told.error,
                output_bytes=told.output_bytes,
            )
        )

    def message(self, direction: Literal["sent", "received"], content: object) -> None:
        """A line of `messages.jsonl`, written at once. Raises TypeError or ValueError for what JSON cannot hold.

        What the disk or the limit refuses is told at the end and disturbs nobody.
        """
        clean = self._scrubber.scrub_json(json.loads(json.dumps(content, allow_nan=False)))
        row = {"at": _now(), "direction": direction, "content": clean}
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._message_bytes += len(line)
        if self._message_bytes > MESSAGES_BYTES:
            self._problem(f"messages.jsonl ends at its limit of {MESSAGES_BYTES} bytes")
            return
        try:
            with self.folder.messages.open("ab", buffering=0) as file:
                file.write(line)
        except OSError as error:
            self._problem(f"messages.jsonl is not complete: {error.strerror}")

    def new_cast(self) -> tuple[int, CastWriter]:
        """The recording of a further terminal, with its number. Raises OSError."""
        self._last_cast += 1
        path = self.folder.cast(self._last_cast)
        cast = CastWriter(path, env={"TERM": "xterm-256color"}, scrubber=self._scrubber)
        self._casts[self._last_cast] = cast
        return self._last_cast, cast

    def drop_cast(self, number: int) -> None:
        """Remove the recording of a terminal that did not open."""
        self._casts.pop(number).close()
        self.folder.cast(number).unlink(missing_ok=True)

    # The end.

    def finish(self) -> WorkspaceRecord:
        """What was kept, once every workspace is closed and every terminal hung up."""
        for number, cast in self._casts.items():
            if cast.problem is not None:
                self._problem(f"{self.folder.cast(number).name} is not complete: {cast.problem}")
        return WorkspaceRecord(
            tuple(self._steps), tuple(self._calls), dict(self._counts), len(self._casts), tuple(self._problems)
        )

    # How it is kept.

    def _append(self, step: Step) -> None:
        self._steps.append(step.model_copy(update={"step_id": len(self._steps) + 1}))

    def _problem(self, sentence: str) -> None:
        if sentence not in self._problems:
            self._problems.append(sentence)

    def _clean(self, text: str) -> str:
        """Without secrets, and without what UTF-8 cannot hold."""
        return self._scrubber.scrub(text).encode("utf-8", "replace").decode()

    def _output(self, told: Told) -> str | None:
        if not told.output:
            return None
        kept = self._cut(told.output, min(STEP_TEXT_BYTES, self._text_room))
        self._text_room -= len(kept)
        if self._text_room <= 0:
            self._problem(f"the trajectory holds the first {ALL_TEXT_BYTES} bytes of output")
        return kept

    def _cut(self, content: bytes, limit: int) -> str:
        """The beginning and the end, with a word about what is missing between."""
        if len(content) <= limit:
            return self._clean(content.decode("utf-8", "replace"))
        half = limit // 2
        head = self._clean(content[: half + SCRUB_ROOM].decode("utf-8", "replace"))[:half]
        tail = self._clean(content[len(content) - half - SCRUB_ROOM :].decode("utf-8", "replace"))
        return f"{head}\n[{len(content) - 2 * half} bytes are not shown]\n{tail[len(tail) - half :] if half else ''}"

    def _kept(self, arguments: Mapping[str, object], limit: int) -> tuple[dict[str, Any], dict[str, int]]:
        """The arguments as JSON, texts cut at the limit; and the true sizes of those that are not whole."""
        kept: dict[str, Any] = {}
        cut: dict[str, int] = {}
        for name, value in arguments.items():
            raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
            if not isinstance(raw, bytes):
                kept[name] = self._scrubber.scrub_json(_plain(value))
            elif len(raw) > limit:
                kept[name], cut[name] = self._cut(raw, limit), len(raw)
            elif isinstance(value, bytes) and not _is_text(value):
                clean = self._scrubber.scrub_bytes(value)
                kept[f"{name}_base64"] = base64.b64encode(clean).decode()
                if clean is not value:
                    cut[name] = len(value)
            else:
                kept[name] = self._cut(raw, limit)
        return kept, cut


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _plain(value: object) -> Json:
    """A value as JSON has it, whatever its strings and numbers are."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(_plain(str(name))): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _plain(str(value))


def _facts(told: Told) -> dict[str, Json]:
    facts: dict[str, Json] = {"output_bytes": told.output_bytes, **told.facts}
    if told.exit_status is not None:
        facts["exit_status"] = told.exit_status
    if told.timed_out:
        facts["timed_out"] = True
    if told.error is not None:
        facts["error"] = told.error
    return facts


def _mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError("a step is an object")
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
