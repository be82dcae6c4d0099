"""What happens in a run that is being carried out, read from its folder as it comes: trials, steps, terminals.

Recordings are cleaned of secrets when an attempt ends. Before that they are cleaned here, which takes the environment
of the process that carries the run out: only that process may show them.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from termarena.core.errors import JournalDamaged
from termarena.core.scrub import Scrubber
from termarena.core.scrub_events import EventScrubber, TextEvent
from termarena.runs.journal import JournalReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from termarena.core.run_folder import AttemptFolder, RunFolder

__all__ = ["Happening", "Tail"]

BLOCK_BYTES: Final = 1 << 20
"""Read of one file at a time."""
LONGEST_LINE_BYTES: Final = 4 << 20
SHOWN_TEXT: Final = 2_000
"""Characters of a command or an answer."""
WHOLE: Final = frozenset({"r", "m"})
SHOWN: Final = WHOLE | {"o"}
"""Of a recording: sizes, markers and output; what was typed is not shown."""


class Happening(NamedTuple):
    """Something that happened. `trial` names the trial: `TASK/ATTEMPT`."""

    kind: Literal["trial", "terminal", "step"]
    content: Mapping[str, Any]


class Tail:
    """One run; `read` gives what is new."""

    def __init__(self, folder: RunFolder, scrubber: Scrubber | None = None) -> None:
        """Nothing is read yet. Without a scrubber: that of this process's environment."""
        self._folder = folder
        self._scrubber = scrubber or Scrubber.from_environment(os.environ)
        self._journal_bytes = 0
        self._seq = 0
        self._trials: dict[str, _Trial] = {}

    def read(self) -> Iterator[Happening]:
        """What happened since the last call, in order of each trial; read as it is asked for, since it may be much. A
        folder that is not there yet has nothing."""
        is_late = self._seq == 0  # what ended before anyone looked is told, not shown
        for name, fields, is_end in self._journal():
            if is_end:
                trial = self._trials.pop(name, None)
                if trial is not None and not is_late:
                    yield from trial.read()
                    yield from trial.rest()
                told = {key: fields.get(key) for key in ("outcome", "failure_mode", "reward")}
                yield Happening("trial", {"trial": name, "state": "ended", **told})
            else:
                folder = self._folder.attempt(fields["task_id"], fields["attempt"], retry=fields.get("retry", 0))
                self._trials[name] = _Trial(name, folder, self._scrubber)
                yield Happening("trial", {"trial": name, "state": "began"})
        for trial in self._trials.values():
            yield from trial.read()

    def _journal(self) -> Iterator[tuple[str, dict[str, Any], bool]]:
        """Beginnings and ends of trials that are new."""
        try:
            size = self._folder.journal.stat().st_size
        except OSError:
            return
        if size == self._journal_bytes:
            return
        self._journal_bytes = size
        try:
            for event in JournalReader(self._folder.journal):
                if event.seq > self._seq and event.name.startswith("trial_"):
                    self._seq = event.seq
                    name = f"{event.fields['task_id']}/{event.fields['attempt']}"
                    yield name, event.fields, event.name != "trial_started"
        except (JournalDamaged, OSError):
            return


@dataclass(slots=True)
class _Trial:
    """The files of one attempt that goes on."""

    name: str
    folder: AttemptFolder
    scrubber: Scrubber
    _files: dict[Path, _Lines] = field(default_factory=dict)
    _screens: dict[Path, _Screen] = field(default_factory=dict)
    _said: tuple[str, str | None] | None = None

    def read(self) -> Iterator[Happening]:
        for row in self._lines(self.folder.messages):
            step = _step(row)
            # Over A2A an agent's answer comes as a message, and again in the task that holds it.
            is_new = step is not None and (step["kind"], step.get("text")) != self._said
            self._said = self._said if step is None else (step["kind"], step.get("text"))
            if step is not None and is_new:
                yield Happening("step", {"trial": self.name, **step})
        number = 1
        while (path := self.folder.cast(number)).is_file():
            screen = self._screens.setdefault(path, _Screen(self.scrubber))
            for row in self._lines(path):
                yield from (self._shown(number, event) for event in screen.feed(row))
            number += 1

    def rest(self) -> Iterator[Happening]:
        """What was held back."""
        for number, screen in enumerate(self._screens.values(), start=1):
            yield from (self._shown(number, event) for event in screen.rest())

    def _shown(self, number: int, event: list[Any]) -> Happening:
        return Happening("terminal", {"trial": self.name, "terminal": number, "event": event})

    def _lines(self, path: Path) -> Iterator[Any]:
        return self._files.setdefault(path, _Lines(path)).read()


class _Lines:
    """The lines of a file that grows, as JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._held = b""

    def read(self) -> Iterator[Any]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                while block := file.read(BLOCK_BYTES):
                    self._at += len(block)
                    yield from self._whole(block)
        except OSError:
            return

    def _whole(self, block: bytes) -> Iterator[Any]:
        *lines, self._held = (self._held + block).split(b"\n")
        if len(self._held) > LONGEST_LINE_BYTES:
            self._held = b""
        for line in lines:
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue


class _Screen:
    """The events of a recording without secrets: what may be the beginning of one waits for the rest."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._events = EventScrubber(scrubber, whole=WHOLE)
        self._at = 0.0

    def feed(self, row: Any) -> Iterator[list[Any]]:  # noqa: ANN401 - a line of a recording
        """A line of the file becomes none, one or more events; the header becomes the first size."""
        if isinstance(row, dict):
            yield [0.0, "r", f"{row.get('width', 80)}x{row.get('height', 24)}"]
        elif isinstance(row, list) and len(row) == 3 and all(isinstance(one, str) for one in row[1:]):  # noqa: PLR2004 - time, code, text
            at, code, text = row
            self._at = _seconds(at, self._at)
            if code in SHOWN:
                yield from _listed(self._events.add(TextEvent(self._at, code, text)))

    def rest(self) -> Iterator[list[Any]]:
        return _listed(self._events.rest())


def _seconds(at: Any, before: float) -> float:  # noqa: ANN401 - of a line of a recording
    """A time of a recording; the one before where it is none."""
    try:
        return float(at) if isinstance(at, int | float) and math.isfinite(at) else before
    except OverflowError:
        return before


def _listed(events: Iterator[TextEvent]) -> Iterator[list[Any]]:
    for event in events:
        if event.text:
            yield [event.at_s, event.code, event.text if event.code == "o" else event.text[:SHOWN_TEXT]]


def _step(row: Any) -> dict[str, Any] | None:  # noqa: ANN401 - a line of messages.jsonl
    """What a message over the wire asks or answers, in short; None for one that is neither."""
    content = row.get("content") if isinstance(row, dict) else None
    for told in _objects(content):
        kind = told.get("kind")
        if kind == "exec_request" and row.get("direction") == "received":
            return {"at": row.get("at"), "kind": "command", "text": str(told.get("command", ""))[:SHOWN_TEXT]}
        if kind in ("keys", "read_file", "write_file", "list_dir") and row.get("direction") == "received":
            keys = told.get("keys")
            named = told.get("path") or told.get("text") or " ".join(map(str, keys if isinstance(keys, list) else ()))
            return {"at": row.get("at"), "kind": str(kind), "text": str(named)[:SHOWN_TEXT]}
        if kind == "exec_result" and row.get("direction") == "sent":
            return {"at": row.get("at"), "kind": "answer", "exit_status": told.get("exit_code")}
        if kind in ("final", "submit") and row.get("direction") == "received":
            return {"at": row.get("at"), "kind": "final", "text": str(told.get("output", ""))[:SHOWN_TEXT]}
    return None


def _objects(value: Any, depth: int = 12) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401 - any JSON
    """The objects with a kind in a message, whichever part of it holds them as JSON."""
    if depth == 0:
        return
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str):
            yield value
        for item in value.values():
            yield from _objects(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item, depth - 1)
    elif isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            yield from _objects(json.loads(value), depth - 1)
        except (ValueError, RecursionError):
            return
