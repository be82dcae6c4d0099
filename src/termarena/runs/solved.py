"""Earlier runs as a store of solved examples."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.agents.examples import Example, ExampleTurn, builtin_examples
from termarena.agents.truncation import head_and_tail
from termarena.core.errors import TaskFormatError
from termarena.core.run_folder import RunFolder
from termarena.core.trajectory import read_trajectory
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.core.run_folder import AttemptFolder
    from termarena.core.trajectory import Step
    from termarena.runs.result import TrialSummary

__all__ = ["BUILTIN", "SolvedExamples"]

BUILTIN: Final = "builtin"
MOST_TURNS: Final = 20
OUTCOME_CHARACTERS: Final = 600
LONGEST_CHARACTERS: Final = 12_000
"""Of one example: a longer one would fill a small window."""


class SolvedExamples:
    """See `ExampleStore`: the solved trials of runs, and those that come with this version (`builtin`)."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` are folders of runs, or `builtin`. Raises `NotFound` for a folder that is no run."""
        found: list[Example] = []
        for word in words:
            found += builtin_examples() if word == BUILTIN else _of_run(RunFolder(Path(word)))
        self._examples = tuple(found)

    def examples(self) -> Sequence[Example]:
        """All of them."""
        return self._examples


def _of_run(folder: RunFolder) -> Iterator[Example]:
    view = read_run(folder)
    digests = {task.id: task.digest for task in view.lock.tasks}
    for trial in view.history.summaries():
        if trial.outcome == "solved":
            yield from _of_trial(folder, trial, digests.get(trial.task_id))


def _of_trial(folder: RunFolder, trial: TrialSummary, digest: str | None) -> Iterator[Example]:
    """One, or none where what was done cannot be shown: nothing but keys, too much of it, no trajectory."""
    attempt: AttemptFolder = folder.attempt(trial.task_id, trial.attempt, retry=trial.retry)
    if not attempt.trajectory.is_file():
        return
    try:
        trajectory = read_trajectory(attempt.trajectory)
    except TaskFormatError:
        return
    turns = tuple(turn for step in trajectory.steps for turn in _turns(step))
    instruction = trajectory.steps[0].message
    size = sum(len(turn.outcome) + len(str(turn.arguments)) for turn in turns)
    if isinstance(instruction, str) and 0 < len(turns) <= MOST_TURNS and size <= LONGEST_CHARACTERS:
        yield Example(
            task_id=trial.task_id, digest=digest, instruction=instruction, turns=turns, source=folder.path.name
        )


def _turns(step: Step) -> Iterator[ExampleTurn]:
    results = step.observation.results if step.observation is not None else ()
    shown = {result.source_call_id: result for result in results}
    for call in step.tool_calls or ():
        result = shown.get(call.tool_call_id)
        output = result.content if result is not None and isinstance(result.content, str) else ""
        status = (result.extra or {}).get("exit_status") if result is not None else None
        given = call.arguments
        if call.function_name in ("terminal.run", "exec"):
            command = given.get("command") or given.get("script") or shlex.join(map(str, given.get("argv", ())))
            told = f"Exit code: {status}\n{head_and_tail(output, OUTCOME_CHARACTERS) or '(no output)'}"
            yield ExampleTurn(action="EXECUTE", arguments={"command": command}, outcome=told)
        elif call.function_name == "write" and isinstance(given.get("content"), str):
            told = f"{len(str(given['content']).encode())} bytes are in {given['path']}"
            arguments = {"path": given["path"], "content": given["content"]}
            yield ExampleTurn(action="WRITE_FILE", arguments=arguments, outcome=told)
