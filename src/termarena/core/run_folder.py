"""Where everything of a run lies."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["AttemptFolder", "RunFolder", "folder_name"]

LONGEST_NAME = 100
_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


def folder_name(task_id: str) -> str:
    """A task's id as the name of a folder: itself where it is plain, else told apart by a digest.

    Two ids never share a name, whatever they hold, and no name is hidden, empty, too long or a way out.
    """
    plain = _PLAIN.sub("_", task_id).lstrip(".")[:LONGEST_NAME]
    if plain == task_id and plain:
        return plain
    return f"{plain or 'task'}~{hashlib.blake2b(task_id.encode('utf-8', 'surrogateescape'), digest_size=4).hexdigest()}"


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """One attempt at one task.

    result.json         outcome, verdict, clocks, limits, evidence; its presence means that the attempt ended
    trajectory.json     ATIF: every step of the agent
    messages.jsonl      verbatim protocol messages, where there are any
    tool_calls.json     every call of the workspace: what, when, how long, how it ended
    terminal.cast       the terminal, as asciicast v2 (terminal-2.cast … for further ones)
    test_output.txt     what the tests wrote, the first and the last of it
    metrics.json        commands, tokens, cost, processor time, memory, contention
    changes.json        what the agent changed in the file system: the first 100,000 paths, and the number of all
    changes-more.jsonl  the further ones, where there are any, one per line
    state.snapshot      the captured file state that `regrade` starts from
    logs/               what the tests left in /logs, capped
    …-sealed, …-live    the same of a grading that did not count (test_output-sealed.txt, logs-sealed/)
    regrading/          a later grading on its way: once its `result.json` is there, what it holds is what counts
    """

    path: Path

    @property
    def regrading(self) -> Path:
        """`regrading/`: there while a grading is replaced by another, and where that was interrupted."""
        return self.path / "regrading"

    @property
    def _graded(self) -> Path:
        newer = self.regrading
        return newer if (newer / "result.json").is_file() else self.path

    @property
    def result(self) -> Path:
        """`result.json`"""
        return self._graded / "result.json"

    @property
    def trajectory(self) -> Path:
        """`trajectory.json`"""
        return self.path / "trajectory.json"

    @property
    def messages(self) -> Path:
        """`messages.jsonl`"""
        return self.path / "messages.jsonl"

    @property
    def tool_calls(self) -> Path:
        """`tool_calls.json`"""
        return self.path / "tool_calls.json"

    @property
    def test_output(self) -> Path:
        """`test_output.txt`"""
        return self._graded / "test_output.txt"

    @property
    def metrics(self) -> Path:
        """`metrics.json`"""
        return self.path / "metrics.json"

    @property
    def changes(self) -> Path:
        """`changes.json`"""
        return self.path / "changes.json"

    @property
    def further_changes(self) -> Path:
        """`changes-more.jsonl`"""
        return self.path / "changes-more.jsonl"

    @property
    def state(self) -> Path:
        """`state.snapshot`"""
        return self.path / "state.snapshot"

    @property
    def logs(self) -> Path:
        """`logs/`"""
        return self._graded / "logs"

    def cast(self, number: int = 1) -> Path:
        """The recording of the first terminal, or of a further one."""
        return self.path / ("terminal.cast" if number == 1 else f"terminal-{number}.cast")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run.

    config.lock.json                        what was run: task digests, versions, options, machine
    journal.jsonl                           every event, append-only; the truth
    report.json, report.md                  derived from the journal, can be made again
    lock                                    held by the process that runs it
    trials/<task>/attempt-<n>/              an attempt, as `AttemptFolder` says
    trials/<task>/attempt-<n>-retry-<m>/    the same attempt again, after it could not be scored
    """

    path: Path

    @property
    def id(self) -> str:
        """The folder's name: a run that was moved is still itself."""
        return self.path.name

    @property
    def config_lock(self) -> Path:
        """`config.lock.json`"""
        return self.path / "config.lock.json"

    @property
    def journal(self) -> Path:
        """`journal.jsonl`"""
        return self.path / "journal.jsonl"

    @property
    def report(self) -> Path:
        """`report.json`"""
        return self.path / "report.json"

    @property
    def report_text(self) -> Path:
        """`report.md`"""
        return self.path / "report.md"

    @property
    def lock(self) -> Path:
        """`lock`"""
        return self.path / "lock"

    @property
    def trials(self) -> Path:
        """`trials/`"""
        return self.path / "trials"

    def attempt(self, task_id: str, attempt: int, *, retry: int = 0) -> AttemptFolder:
        """Where an attempt lies; attempts count from 1, retries of one from 1, 0 being none."""
        return self.attempt_in(folder_name(task_id), attempt, retry=retry)

    def attempt_in(self, task_folder: str, attempt: int, *, retry: int = 0) -> AttemptFolder:
        """The same by what `folder_name` makes of the task's id."""
        name = f"attempt-{attempt}" + (f"-retry-{retry}" if retry else "")
        return AttemptFolder(self.trials / task_folder / name)
