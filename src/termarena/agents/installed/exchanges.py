"""An agent's steps as the broker saw them: what its model said, which tools it wanted, what came of them."""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from termarena.agents.truncation import head_and_tail
from termarena.core.trajectory import Observation, ObservationResult, Step, StepMetrics, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from termarena.broker import Exchanged
    from termarena.models.contract import Completion, Request

__all__ = ["ExchangeSteps", "arguments_of", "loaded"]

LONGEST_CHARACTERS: Final = 100_000
DEEPEST: Final = 100
"""A step that is nested more than 255 deep cannot be written down."""


@dataclass(frozen=True, slots=True)
class _Said:
    """An answer of the model, and when it was there."""

    completion: Completion
    at: str
    duration_s: float

    @property
    def moment(self) -> dict[str, Any]:
        """As fields of a step."""
        return {"timestamp": self.at, "extra": {"duration_s": round(self.duration_s, 6)}}

    @property
    def metrics(self) -> StepMetrics:
        """What it took."""
        used = self.completion.usage
        return StepMetrics(
            prompt_tokens=used.input_tokens,
            completion_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
            cost_usd=self.completion.cost_usd,
        )

    @property
    def marks(self) -> Iterator[tuple[str, str]]:
        """What a step of a log that is made of this answer has one of: its calls, or its words."""
        for call in self.completion.message.tool_calls:
            yield from (("call", call.id), ("call", f"toolu_{call.id}"))
        if words := self.completion.message.content.strip():
            yield "words", words


def _marks_of(step: Step) -> Iterator[tuple[str, str]]:
    yield from (("call", call.tool_call_id) for call in step.tool_calls or ())
    if isinstance(step.message, str) and (words := step.message.strip()):
        yield "words", words


class _Index:
    """Which answers a step may be made of. An agent writes as many steps into its log as it likes: none of them is held
    against every answer."""

    def __init__(self, said: Iterable[_Said]) -> None:
        self._places: dict[tuple[str, str], list[int]] = {}
        for place, answer in enumerate(said):
            for mark in answer.marks:
                self._places.setdefault(mark, []).append(place)

    def first(self, step: Step, *, since: int) -> int | None:
        """The first answer from this place on."""
        found = [self._places[mark] for mark in _marks_of(step) if mark in self._places]
        later = (places[at] for places in found if (at := bisect_left(places, since)) < len(places))
        return min(later, default=None)


class ExchangeSteps:
    """Collects steps while the agent works; the results of a step's calls come with a later request."""

    def __init__(self) -> None:
        """None yet."""
        self._said: list[_Said] = []
        self._results: dict[str, str] = {}

    def add(self, exchange: Exchanged, request: Request | None) -> None:
        """Take one exchange; `request` is what was asked, where it could be read."""
        wanted = {call.id for said in self._said for call in said.completion.message.tool_calls} - self._results.keys()
        for message in request.messages if request is not None else ():
            if message.role == "tool" and message.tool_call_id in _names(wanted):
                known = _names(wanted)[message.tool_call_id]
                self._results.setdefault(known, head_and_tail(message.content, LONGEST_CHARACTERS))
        if exchange.completion is not None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._said.append(_Said(exchange.completion, now, exchange.duration_s))

    def steps(self) -> tuple[Step, ...]:
        """One per answer of the model."""
        return tuple(self._step(said) for said in self._said)

    def dated(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Steps of a log, which seldom has a clock, with the times of the answers that they are made of.

        They get the answers' tokens as well, where the log does not tell them. Both are in order; a step that is made
        of no answer has the time of the one before it, or of the first.
        """
        if not self._said:
            return steps
        found: list[Step] = []
        place, latest = 0, self._said[0]
        index = _Index(self._said)
        for step in steps:
            match = index.first(step, since=place)
            if match is not None:
                place, latest = match + 1, self._said[match]
                moment = latest.moment
                known = {"extra": {**(step.extra or {}), **moment["extra"]}, "metrics": step.metrics or latest.metrics}
                found.append(step.model_copy(update={**moment, **known}))
            else:
                found.append(step.model_copy(update={"timestamp": latest.at}))
        return tuple(found)

    def _step(self, answer: _Said) -> Step:
        said = answer.completion
        calls = tuple(
            ToolCall(tool_call_id=call.id, function_name=call.name, arguments=arguments_of(call.arguments))
            for call in said.message.tool_calls
        )
        results = tuple(
            ObservationResult(source_call_id=call.tool_call_id, content=self._results[call.tool_call_id])
            for call in calls
            if call.tool_call_id in self._results
        )
        return Step(
            message=head_and_tail(said.message.content, LONGEST_CHARACTERS),
            reasoning_content=said.message.reasoning,
            model_name=said.model,
            tool_calls=calls or None,
            observation=Observation(results=results) if results else None,
            metrics=answer.metrics,
            llm_call_count=1,
            **answer.moment,
        )


def _names(wanted: set[str]) -> dict[str | None, str]:
    """Calls by the names that an interface may give them back under."""
    return {name: call for call in wanted for name in (call, f"toolu_{call}")}


def arguments_of(text: object) -> dict[str, Any]:
    """A call's arguments as an object; what is none is kept as the text that it was."""
    if isinstance(text, dict):
        return text
    try:
        found = loaded(text) if isinstance(text, str) else text
    except ValueError:
        found = text
    return found if isinstance(found, dict) else {"text": found}


def loaded(text: str) -> Any:  # noqa: ANN401 - any JSON
    """What a text of JSON holds, fit for a trajectory. Raises ValueError, also for what is nested too deep for one.

    Half of a character, as programs in JavaScript leave where they cut a text, becomes a question mark.
    """
    try:
        found = json.loads(text)
        if "\\ud" in text or "\\uD" in text:
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    level = [found]
    for _ in range(DEEPEST):
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [item for items in inner for item in items]
        if not level:
            return found
    raise ValueError("nested too deep")
