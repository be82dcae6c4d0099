"""An agent's steps as the broker saw them: what its model said, which tools it wanted, what came of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from termarena.agents.truncation import head_and_tail
from termarena.core.trajectory import Observation, ObservationResult, Step, StepMetrics, ToolCall

if TYPE_CHECKING:
    from termarena.broker import Exchanged
    from termarena.models.contract import Completion, Request

__all__ = ["ExchangeSteps", "arguments_of"]

LONGEST_CHARACTERS: Final = 100_000


class ExchangeSteps:
    """Collects steps while the agent works; the results of a step's calls come with a later request."""

    def __init__(self) -> None:
        """None yet."""
        self._said: list[Completion] = []
        self._results: dict[str, str] = {}

    def add(self, exchange: Exchanged, request: Request | None) -> None:
        """Take one exchange; `request` is what was asked, where it could be read."""
        wanted = {call.id for said in self._said for call in said.message.tool_calls} - self._results.keys()
        for message in request.messages if request is not None else ():
            if message.role == "tool" and message.tool_call_id in _names(wanted):
                known = _names(wanted)[message.tool_call_id]
                self._results.setdefault(known, head_and_tail(message.content, LONGEST_CHARACTERS))
        if exchange.completion is not None:
            self._said.append(exchange.completion)

    def steps(self) -> tuple[Step, ...]:
        """One per answer of the model."""
        return tuple(self._step(said) for said in self._said)

    def _step(self, said: Completion) -> Step:
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
            metrics=StepMetrics(
                prompt_tokens=said.usage.input_tokens,
                completion_tokens=said.usage.output_tokens,
                cached_tokens=said.usage.cached_tokens,
                cost_usd=said.cost_usd,
            ),
            llm_call_count=1,
        )


def _names(wanted: set[str]) -> dict[str | None, str]:
    """Calls by the names that an interface may give them back under."""
    return {name: call for call in wanted for name in (call, f"toolu_{call}")}


def arguments_of(text: object) -> dict[str, Any]:
    """A call's arguments as an object; what is none is kept as the text that it was."""
    if isinstance(text, dict):
        return text
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        found = text
    return found if isinstance(found, dict) else {"text": found}
