"""One attempt as its folder tells it: what was done, step by step, and what came of it.

Everything is bounded: the files are an agent's work, and may be of any size.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record
from termarena.core.trajectory import read_trajectory
from termarena.runs.recording import read_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from termarena.core.run_folder import AttemptFolder
    from termarena.core.trajectory import Content, Observation, Step, ToolCall
    from termarena.runs.result import TrialResult

__all__ = ["FILES", "Attempt", "CallShown", "CastShown", "ChangeShown", "StepShown", "read_attempt"]

STEPS_ON_A_PAGE: Final = 200
CALL_TEXT: Final = 2_000
"""Characters of one output or one argument; the trajectory has them all."""
ALL_TEXT: Final = 90_000
"""Characters of all steps on one page."""
TEST_OUTPUT_TEXT: Final = 20_000
CHANGES_SHOWN: Final = 200
LARGEST_RECORD_BYTES: Final = 64 << 20
"""A larger file is offered, not shown."""
MOST_CASTS: Final = 20
HEAD_BYTES: Final = 1 << 20
FILES: Final = ("result.json", "trajectory.json", "tool_calls.json", "changes.json", "metrics.json", "test_output.txt")
"""What may be fetched, beside recordings."""


@dataclass(frozen=True, slots=True)
class CallShown:
    """Something that the agent did."""

    name: str
    told: str
    """What it was asked to do: the command, the keys, the path."""
    output: str
    exit_status: int | None = None
    duration_s: float | None = None
    timed_out: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StepShown:
    """A step of the trajectory."""

    number: int
    source: str
    at_s: float | None
    """Seconds since the agent's time began; None where that is not known."""
    cast_s: float | None
    """Seconds into the first recording; None where there is none."""
    message: str
    reasoning: str
    calls: tuple[CallShown, ...]


@dataclass(frozen=True, slots=True)
class CastShown:
    """The recording of a terminal."""

    number: int
    size_bytes: int
    cols: int
    rows: int


@dataclass(frozen=True, slots=True)
class ChangeShown:
    """A path that the agent changed."""

    path: str
    change: str
    kind: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """All of it, as far as a page holds it."""

    result: TrialResult | None
    steps: tuple[StepShown, ...]
    step_count: int
    casts: tuple[CastShown, ...]
    changes: tuple[ChangeShown, ...]
    change_count: int
    test_output: str
    files: Mapping[str, int]
    """Files that can be fetched, with their sizes."""
    problems: tuple[str, ...]
    """What could not be shown, and why."""

    @property
    def has_ended(self) -> bool:
        """Before it has, recordings may still hold secrets, and nothing of it is shown."""
        return self.result is not None


def read_attempt(folder: AttemptFolder, *, first_step: int = 0) -> Attempt:
    """What there is, from step `first_step` on (0 is the first). A file that cannot be read is told, not raised."""
    if not folder.result.is_file():
        return Attempt(None, (), 0, (), (), 0, "", {}, ("the files of this attempt are not here",))
    problems: list[str] = []
    result = _tried(lambda: read_result(folder), folder.result, problems)
    casts = tuple(_casts(folder))
    steps, count = _steps(folder, result, problems, first_step=first_step)
    changes, change_count = _changes(folder, problems)
    return Attempt(
        result=result,
        steps=steps,
        step_count=count,
        casts=casts,
        changes=changes,
        change_count=change_count,
        test_output=_beginning_and_end(folder.test_output),
        files={name: size for name in FILES if (size := _size(_place(folder, name))) is not None},
        problems=tuple(problems),
    )


def _place(folder: AttemptFolder, name: str) -> Path:
    """Where a file of `FILES` is: of a graded attempt, what counts."""
    places = {"result.json": folder.result, "test_output.txt": folder.test_output}
    return places.get(name, folder.path / name)


def file_of(folder: AttemptFolder, name: str) -> Path | None:
    """The path of a file that may be fetched; None where there is none, or the attempt has not ended."""
    casts = {folder.cast(number).name for number in range(1, MOST_CASTS + 1)}
    if not folder.result.is_file() or (name not in FILES and name not in casts):
        return None
    path = _place(folder, name)
    return path if _size(path) is not None else None


def _size(path: Path) -> int | None:
    """Of a plain file: what an archive made a link of is none."""
    try:
        return path.stat().st_size if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None


def _tried(read: Any, path: Path, problems: list[str]) -> Any:  # noqa: ANN401 - whatever the reader returns
    size = _size(path)
    if size is None:
        return None
    if size > LARGEST_RECORD_BYTES:
        problems.append(f"{path.name} is too large to be shown; it can be fetched")
        return None
    try:
        return read()
    except (TaskFormatError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        problems.append(f"{path.name} cannot be shown: {str(error).replace(str(path), path.name)[:200]}")
        return None


def _casts(folder: AttemptFolder) -> Iterator[CastShown]:
    for number in range(1, MOST_CASTS + 1):
        path = folder.cast(number)
        size = _size(path)
        if size is None:
            return
        header = _header(path)
        yield CastShown(number, size, _whole(header, "width", 80), _whole(header, "height", 24))


def _header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            found = json.loads(file.readline(HEAD_BYTES))
        except (ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def _whole(header: Mapping[str, Any], name: str, usual: int) -> int:
    value = header.get(name)
    return value if isinstance(value, int) and 0 < value <= 1000 else usual  # noqa: PLR2004 - no screen is wider


def _steps(
    folder: AttemptFolder, result: TrialResult | None, problems: list[str], *, first_step: int
) -> tuple[tuple[StepShown, ...], int]:
    trajectory = _tried(lambda: read_trajectory(folder.trajectory), folder.trajectory, problems)
    if trajectory is None:
        return (), 0
    record = _tried(lambda: read_record(folder.tool_calls, "tool_calls"), folder.tool_calls, problems) or {}
    listed = record.get("calls")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    calls = {row["id"]: row for row in rows if isinstance(row.get("id"), str)}
    clock = _Clock(_began(result), _cast_began(folder, calls.values()))
    shown, room = [], ALL_TEXT
    for step in trajectory.steps[first_step : first_step + STEPS_ON_A_PAGE]:
        one = _step(step, calls, clock, room=room)
        room -= len(one.message) + len(one.reasoning) + sum(len(call.told) + len(call.output) for call in one.calls)
        shown.append(one)
        if room <= 0:
            break
    return tuple(shown), len(trajectory.steps)


@dataclass(frozen=True, slots=True)
class _Clock:
    work: float | None
    cast: float | None

    def since(self, beginning: float | None, timestamp: str | None) -> float | None:
        moment = _moment(timestamp)
        return None if moment is None or beginning is None else max(0.0, round(moment - beginning, 3))


def _moment(timestamp: object) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else None
    except (ValueError, OverflowError):
        return None


def _began(result: TrialResult | None) -> float | None:
    if result is None or "work" not in result.clocks:
        return None
    return _moment(result.clocks["work"].started_at)


def _cast_began(folder: AttemptFolder, calls: Any) -> float | None:  # noqa: ANN401 - rows as the file has them
    """When the first recording's clock was 0. Its header knows whole seconds only; the first marker, which is the first
    command's, says it exactly."""
    path = folder.cast()
    if _size(path) is None:
        return None
    marked = _first_marker(path)
    for row in calls:
        arguments = row.get("arguments")
        if marked and isinstance(arguments, dict) and arguments.get("command") == marked[1]:
            begun = _moment(row.get("started_at"))
            return None if begun is None else begun - marked[0]
    stamp = _header(path).get("timestamp")
    return float(stamp) if isinstance(stamp, int | float) else None


def _first_marker(path: Path) -> tuple[float, str] | None:
    with path.open("rb") as file:
        for line in file.read(HEAD_BYTES).split(b"\n")[1:-1]:
            try:
                event = json.loads(line)
                if event[1] == "m":
                    return float(event[0]), str(event[2])
            except (ValueError, TypeError, LookupError, RecursionError):
                return None
    return None


def _step(step: Step, rows: Mapping[str, Any], clock: _Clock, *, room: int) -> StepShown:
    limit = max(0, min(CALL_TEXT, room))
    outputs = _outputs(step.observation)
    calls = tuple(_call(call, rows.get(call.tool_call_id), outputs, limit) for call in step.tool_calls or ())
    loose = _cut(outputs.get("", ""), limit)
    if loose:
        calls += (CallShown("observation", "", loose),)
    return StepShown(
        number=step.step_id,
        source=step.source,
        at_s=clock.since(clock.work, step.timestamp),
        cast_s=clock.since(clock.cast, step.timestamp),
        message=_cut(_text(step.message), limit),
        reasoning=_cut(step.reasoning_content or "", limit),
        calls=calls,
    )


def _call(call: ToolCall, row: Any, outputs: Mapping[str, str], limit: int) -> CallShown:  # noqa: ANN401 - as in the file
    shown = CallShown(
        name=call.function_name[:100],
        told=_cut(_told(call), limit),
        output=_cut(outputs.get(call.tool_call_id, ""), limit),
    )
    if not isinstance(row, dict):
        return shown
    status, took = row.get("exit_status"), row.get("duration_s")
    return replace(
        shown,
        exit_status=status if isinstance(status, int) else None,
        duration_s=float(took) if isinstance(took, int | float) else None,
        timed_out=row.get("timed_out") is True,
        error=_cut(str(row["error"]), limit) if row.get("error") else None,
    )


_TELLING: Final = ("command", "script", "keys", "text", "path", "argv", "cmd")


def _told(call: ToolCall) -> str:
    """The argument that says most, or all of them."""
    for name in _TELLING:
        value = call.arguments.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list | tuple) and value:
            return " ".join(map(str, value))
    if {"cols", "rows"} <= call.arguments.keys():
        return f"{call.arguments['cols']}x{call.arguments['rows']}"
    return json.dumps(dict(call.arguments), ensure_ascii=False, default=str) if call.arguments else ""


def _outputs(observation: Observation | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for result in observation.results if observation is not None else ():
        key = result.source_call_id or ""
        found[key] = "\n".join(filter(None, (found.get(key), _text(result.content))))
    return found


def _text(content: Content | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text or f"[{part.type}]" for part in content)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… {len(text) - limit:,} more characters in trajectory.json"


def _changes(folder: AttemptFolder, problems: list[str]) -> tuple[tuple[ChangeShown, ...], int]:
    record = _tried(lambda: read_record(folder.changes, "file-changes"), folder.changes, problems) or {}
    listed, total = record.get("changes"), record.get("total")
    rows = [row for row in listed[:CHANGES_SHOWN] if isinstance(row, dict)] if isinstance(listed, list) else []
    shown = tuple(
        ChangeShown(
            path=str(row.get("path"))[:500],
            change=str(row.get("change"))[:20],
            kind=str(row.get("kind"))[:20],
            size_bytes=row["size"] if isinstance(row.get("size"), int) else None,
        )
        for row in rows
    )
    return shown, total if isinstance(total, int) else len(shown)


def _beginning_and_end(path: Path) -> str:
    size = _size(path)
    if size is None:
        return ""
    with path.open("rb") as file:
        if size <= TEST_OUTPUT_TEXT:
            return file.read().decode(errors="replace")
        first = file.read(TEST_OUTPUT_TEXT // 4)
        file.seek(size - TEST_OUTPUT_TEXT * 3 // 4)
        last = file.read()
    left = size - len(first) - len(last)
    return f"{first.decode(errors='replace')}\n… {left:,} bytes left out …\n{last.decode(errors='replace')}"
