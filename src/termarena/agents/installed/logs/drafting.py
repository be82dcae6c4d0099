"""Steps while they are read from a log: what was said, what was done, and what came of it, which comes later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from termarena.agents.installed.exchanges import arguments_of, loaded
from termarena.agents.truncation import head_and_tail
from termarena.core.trajectory import Observation, ObservationResult, Step, StepMetrics, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Draft", "Drafts", "count", "dollars", "lines_of", "table"]

LONGEST_CHARACTERS: Final = 100_000
LONGEST_LINE: Final = 4 << 20
MOST_DOLLARS: Final = 1e9


@dataclass(slots=True)
class Draft:
    """A step that is not finished."""

    message: str = ""
    reasoning: str = ""
    model: object = None
    """As the log has it."""
    calls: list[ToolCall] = field(default_factory=list)
    results: dict[str, ObservationResult] = field(default_factory=dict)
    metrics: StepMetrics | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def step(self) -> Step:
        """As a trajectory has it."""
        results = tuple(self.results[call.tool_call_id] for call in self.calls if call.tool_call_id in self.results)
        return Step(
            message=head_and_tail(self.message, LONGEST_CHARACTERS),
            reasoning_content=head_and_tail(self.reasoning, LONGEST_CHARACTERS) or None,
            model_name=self.model if isinstance(self.model, str) else None,
            tool_calls=tuple(self.calls) or None,
            observation=Observation(results=results) if results else None,
            metrics=self.metrics,
            extra=self.extra or None,
        )


class Drafts:
    """The steps of one log, in order."""

    def __init__(self) -> None:
        """None yet."""
        self._drafts: list[Draft] = []
        self._of_call: dict[str, Draft] = {}
        self.unknown_lines = 0

    @property
    def last(self) -> Draft:
        """The step that is being read; a new one where there is none."""
        known = (draft for draft in reversed(self._drafts) if "unknown" not in draft.extra)
        return next(known, None) or self.begin()

    def begin(self, message: str = "", **fields: Any) -> Draft:  # noqa: ANN401 - the fields of a draft
        """A further step."""
        self._drafts.append(Draft(message, **fields))
        return self._drafts[-1]

    def call(self, draft: Draft, identity: str, name: str, arguments: object) -> None:
        """Something that the agent did in this step; the same call told twice is one."""
        if identity in self._of_call:
            return
        call = ToolCall(tool_call_id=identity, function_name=name or "unknown", arguments=arguments_of(arguments))
        draft.calls.append(call)
        self._of_call[identity] = draft

    def result(self, identity: str, content: str, **facts: object) -> None:
        """What came of a call; of one that was never told, it is kept as a step of its own."""
        draft = self._of_call.get(identity)
        shown = head_and_tail(content, LONGEST_CHARACTERS)
        if draft is None:
            self.begin(shown, extra={"unknown": "a result of no call", "call": identity})
            return
        known = {name: value for name, value in facts.items() if value is not None}
        draft.results[identity] = ObservationResult(source_call_id=identity, content=shown, extra=known or None)

    def keep(self, line: str) -> None:
        """A line that the parser does not know, word for word."""
        self.unknown_lines += 1
        self.begin(line, extra={"unknown": "a line of the agent's log"})

    def steps(self) -> tuple[Step, ...]:
        """All of them."""
        return tuple(draft.step() for draft in self._drafts)


def lines_of(text: str, drafts: Drafts) -> Iterator[dict[str, Any]]:
    """The objects of a log that has one per line; every other line is kept as unknown."""
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            found = loaded(line) if len(line) <= LONGEST_LINE else None
        except ValueError:
            found = None
        if isinstance(found, dict):
            yield found
        else:
            drafts.keep(line)


def table(value: object, *names: str) -> Mapping[str, Any]:
    """The object at the end of this way through objects; empty where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def count(value: object) -> int | None:
    """A number of tokens; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def dollars(value: object) -> float | None:
    """A cost; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= MOST_DOLLARS else None
