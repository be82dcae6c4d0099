"""A mind: a conversation with a model, asked turn by turn, kept within its window, every exchange recorded."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from termarena.agents.contract import AgentReport, Usage
from termarena.agents.examples import retrieve, retrieve_by
from termarena.agents.truncation import head_and_tail
from termarena.core.errors import UsageError, WorkspaceClosed
from termarena.core.trajectory import Step, StepMetrics
from termarena.models import Message, Request, RunModels, Sampling
from termarena.models.errors import ContextOverflow, UnusableReply
from termarena.models.http import CHARACTERS_PER_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.agents.contract import OwnEnd, Workspace
    from termarena.agents.custom_tools import CustomTool
    from termarena.agents.examples import ExampleStore, Retrieval
    from termarena.agents.registry import AgentRequest
    from termarena.models import Completion, Exchange, MeteredModel, ToolSpec
    from termarena.models.embeddings import Embeddings

__all__ = ["LoopOptions", "Mind", "model_of", "recall", "usage_of"]

NEARLY_FULL: Final = 0.75
TOO_FULL: Final = 0.85
"""Of the window: the rest is for the answer."""
EMPTIED: Final = 0.6
"""How full it is after early turns were left out; so that does not happen at every turn."""
LONGEST_CHARACTERS: Final = 200_000
"""Of one reply: more has never been an action, and would be sent back with every request."""
SHORTENED_CHARACTERS: Final = 2000
LAST_WORDS_CHARACTERS: Final = 2000


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How an agent with a model works."""

    max_steps: int = 100
    """How often its model is asked."""
    sampling: Sampling = field(default_factory=Sampling)
    examples: ExampleStore | None = None
    """Solved tasks of which the most similar ones are shown."""
    example_count: int = 1
    embeddings: Embeddings | None = None
    """What says which are similar; None is BM25."""
    tools: tuple[CustomTool, ...] = ()
    """Beyond ours, for those loops that have tools."""


async def recall(request: AgentRequest, instruction: str) -> Retrieval | None:
    """The solved examples that a model is shown with an instruction; None where there is no store.

    Raises what asking for embeddings raises, where they are asked for.
    """
    loop = request.options.loop
    if loop is None or loop.examples is None:
        return None
    examples, count = loop.examples.examples(), loop.example_count
    if loop.embeddings is None:
        return retrieve(request.task, instruction, examples, count=count)
    return await retrieve_by(loop.embeddings, request.task, instruction, examples, count=count)


def model_of(request: AgentRequest) -> Callable[[], MeteredModel]:
    """What opens the model of each attempt. Raises `UsageError` without one, and what `RunModels.check` raises."""
    word = request.options.model
    if word is None:
        hint = "--model openai:gpt-5-mini; docs/models.md has them all"
        raise UsageError(f"the agent {request.word} needs a model", hint=hint)
    models = request.options.models or RunModels()
    models.check(word)
    return lambda: models.open(word)


def usage_of(model: MeteredModel) -> Usage:
    """What an attempt has used up to now."""
    meter = model.meter
    return Usage(meter.input_tokens, meter.output_tokens, meter.cached_tokens, meter.cost_usd)


class Mind:
    """The conversation of one `solve`. What is told before the first answer is never left out."""

    def __init__(
        self, model: MeteredModel, workspace: Workspace, *, tools: tuple[ToolSpec, ...] = (), sampling: Sampling
    ) -> None:
        """`tools` are offered with every request."""
        self._model = model
        self._workspace = workspace
        self._tools = tools
        self._sampling = sampling
        self.messages: list[Message] = []
        self._tokens_per_character = 1 / CHARACTERS_PER_TOKEN
        self._left_out = 0
        self._prologue: int | None = None
        self._refused_characters: int | None = None
        """The size of the shortest conversation that was refused as too long."""

    @property
    def is_filling(self) -> bool:
        """Whether the window is nearly full, as far as its size is known."""
        return self._fullness() > NEARLY_FULL

    def begin_again(self, *messages: Message) -> None:
        """Go on with the instructions, the task and these messages alone."""
        self._left_out += len(self.messages) - self.prologue
        self.messages[self.prologue :] = messages

    @property
    def prologue(self) -> int:
        """How many messages came before the first answer: the instructions, examples, the task."""
        return len(self.messages) if self._prologue is None else self._prologue

    def tell(self, *messages: Message) -> None:
        """Add turns that are not the model's."""
        self.messages.extend(messages)

    async def answer(self) -> Completion:
        """The model's next turn: added to the conversation and noted in the trajectory.

        Raises what `Model.complete` raises; `ContextOverflow` only when there is nothing left to leave out.
        """
        self._prologue = self.prologue
        self._fit()
        while True:
            asked = Request(tuple(self.messages), self._tools, self._sampling)
            try:
                said = await self._model.complete(asked, timeout_s=self._workspace.seconds_left, observe=self._observe)
                break
            except ContextOverflow:
                self._refused_characters = self._characters()
                if not self._shrink():
                    raise
        self._learn(asked, said)
        self.messages.append(_shortened(said.message))
        self._note(said)
        return said

    async def answer_if_readable(self) -> Completion | None:
        """As `answer`; None for one that cannot be read, which the model is told."""
        try:
            return await self.answer()
        except UnusableReply as error:
            self.tell(Message("assistant", f"[a reply that could not be read: {error}]"))
            return None

    def report(self, end: OwnEnd, message: str) -> AgentReport:
        """The end of the work, with what the model has used in all and the last of the message."""
        last = message[-LAST_WORDS_CHARACTERS:]
        return AgentReport(end=end, message=last, usage=usage_of(self._model), model=self._model.name)

    # The window.

    def _fit(self) -> None:
        """Leave early turns out before the window is full, as far as its size is known."""
        if self._fullness() <= TOO_FULL:
            return
        while self._fullness() > EMPTIED and self._leave_out_one():
            pass

    def _characters(self) -> int:
        return sum(map(_characters, self.messages))

    def _fullness(self) -> float:
        """How much of the window is used: of the one that is known, or that a refusal has shown."""
        window, refused = self._model.context_tokens, self._refused_characters
        known = self._characters() * self._tokens_per_character / window if window else 0.0
        return max(known, self._characters() / refused if refused else 0.0)

    def _shrink(self) -> bool:
        """Make a conversation shorter that was refused as too long: half of its turns, else what long ones hold."""
        turns = len(self.messages) - self.prologue
        if turns > 2:  # noqa: PLR2004 - more than the last turn and what came of it
            while len(self.messages) - self.prologue > turns // 2 and self._leave_out_one():
                pass
            if len(self.messages) - self.prologue < turns:
                return True
        shorter = [
            replace(message, content=head_and_tail(message.content, SHORTENED_CHARACTERS))
            if place >= self.prologue and len(message.content) > SHORTENED_CHARACTERS * 2
            else message
            for place, message in enumerate(self.messages)
        ]
        is_shorter, self.messages = shorter != self.messages, shorter
        return is_shorter

    def _leave_out_one(self) -> bool:
        """Leave out the earliest turn of the model with what came of it; the last one stays."""
        starts = [
            place
            for place, message in enumerate(self.messages)
            if place >= self.prologue and message.role == "assistant"
        ]
        if len(starts) < 2:  # noqa: PLR2004 - the one that stays
            return False
        self._left_out += starts[1] - starts[0]
        notice = Message("user", f"[{self._left_out} earlier messages are left out here to make room.]")
        self.messages[self.prologue : starts[1]] = [notice]
        return True

    def _learn(self, asked: Request, said: Completion) -> None:
        """How many tokens a character of this conversation is, from what the provider counted."""
        characters = sum(map(_characters, asked.messages))
        if said.usage.input_tokens and characters:
            self._tokens_per_character = said.usage.input_tokens / characters

    # The record.

    def _observe(self, exchange: Exchange) -> None:
        with contextlib.suppress(WorkspaceClosed):
            self._workspace.message("sent", {"url": exchange.url, "body": exchange.request})
            self._workspace.message(
                "received",
                {
                    "url": exchange.url,
                    "status": exchange.status,
                    "body": exchange.response,
                    "duration_s": round(exchange.duration_s, 6),
                },
            )

    def _note(self, said: Completion) -> None:
        extra = {
            "finish": said.finish,
            "attempts": said.attempts,
            "duration_s": round(said.duration_s, 6),
            "request_id": said.request_id,
            "tool_calls": [
                {"name": call.name, "arguments": head_and_tail(call.arguments, SHORTENED_CHARACTERS)}
                for call in said.message.tool_calls
            ],
            "left_out_messages": self._left_out or None,
            "cost_source": said.cost_source,
            **said.extra,
        }
        usage = said.usage
        self._workspace.note(
            Step(
                message=head_and_tail(said.message.content, LONGEST_CHARACTERS),
                reasoning_content=said.message.reasoning,
                model_name=said.model or self._model.name,
                metrics=StepMetrics(
                    prompt_tokens=usage.input_tokens,
                    completion_tokens=usage.output_tokens,
                    cached_tokens=usage.cached_tokens,
                    cost_usd=said.cost_usd,
                ),
                llm_call_count=1,
                extra={name: value for name, value in extra.items() if value not in (None, [])},
            )
        )


def _shortened(message: Message) -> Message:
    return replace(message, content=head_and_tail(message.content, LONGEST_CHARACTERS))


def _characters(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) + len(call.name) for call in message.tool_calls) + 16
