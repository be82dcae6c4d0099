"""`scripted:FILE`: a model whose every word stands in a file, for tests and demonstrations."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from termarena.core.errors import AgentError, NotFound
from termarena.core.given_files import read_given
from termarena.models.contract import Completion, Exchange, Message, TokenUsage, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from termarena.core.records import Json
    from termarena.models.contract import Finish, Request

__all__ = ["Script", "ScriptedModel", "read_script"]

LARGEST_BYTES: Final = 64 << 20


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ScriptedCall(_Frozen):
    """A tool call."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    """A text is sent as it is: it need not be JSON."""


class ScriptedReply(_Frozen):
    """One answer."""

    content: str = ""
    reasoning: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish: str | None = None
    """By default `tool_calls` where there are some, else `stop`."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    wait_s: float = 0.0
    """How long the model thinks."""

    @field_validator("finish")
    @classmethod
    def _is_known(cls, value: str | None) -> str | None:
        if value not in (None, "stop", "length", "tool_calls", "refused", "unknown"):
            raise ValueError("stop, length, tool_calls, refused or unknown")
        return value

    def completion(self, number: int) -> Completion:
        """As a model would answer."""
        calls = tuple(
            ToolCall(
                f"call_{number}_{place}",
                call.name,
                call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
            )
            for place, call in enumerate(self.tool_calls, 1)
        )
        finish: Finish = self.finish or ("tool_calls" if calls else "stop")  # type: ignore[assignment]  # checked above
        usage = TokenUsage(self.input_tokens, self.output_tokens, self.cached_tokens)
        source = None if self.cost_usd is None else "provider"
        message = Message("assistant", self.content, tool_calls=calls, reasoning=self.reasoning)
        return Completion(message, finish, usage, cost_usd=self.cost_usd, cost_source=source)  # type: ignore[arg-type]  # one of two


class Conversation(_Frozen):
    """What is answered when the first messages hold a pattern."""

    when: str
    """A regular expression."""
    replies: tuple[ScriptedReply, ...]

    @field_validator("when")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        return value


class Script(_Frozen):
    """The file: a JSON object."""

    model: str = "scripted"
    context_tokens: int | None = None
    conversations: tuple[Conversation, ...] = ()
    """Looked through in order; the first whose pattern is found answers."""
    replies: tuple[ScriptedReply, ...] = ()
    """For every other conversation."""
    by_turn: bool = False
    """Whether each request is looked at by itself: the reply is that behind as many turns of the assistant as it holds.
    For programs that hold several conversations at once, or ask again."""

    @property
    def tells_costs(self) -> bool:
        """Whether every reply has a price."""
        every = [*self.replies, *(reply for one in self.conversations for reply in one.replies)]
        return all(reply.cost_usd is not None for reply in every)


def read_script(path: Path) -> Script:
    """Raises `NotFound` for a path without a file, `UsageError` for a file that is no script."""
    if not path.is_file():
        raise NotFound(
            f"no script of a model is at {path}", hint="scripted:FILE takes a file; docs/models.md shows one"
        )
    return read_given(Script, path, largest_bytes=LARGEST_BYTES, hint="docs/models.md shows a script")


class ScriptedModel:
    """See `Model`; one object serves one attempt, and answers from the beginning of its script."""

    def __init__(self, word: str, script: Script) -> None:
        """`word` is that of `--model`."""
        self.name = word
        self.context_tokens = script.context_tokens
        self._script = script
        self._replies: tuple[ScriptedReply, ...] | None = None
        self._said = 0

    async def complete(
        self, request: Request, *, timeout_s: float, observe: Callable[[Exchange], None] | None = None
    ) -> Completion:
        """The next reply. Raises `AgentError` when there is none."""
        reply = self._next(request)
        await asyncio.sleep(min(reply.wait_s, timeout_s))
        if observe is not None:
            asked: dict[str, Json] = {"messages": len(request.messages), "tools": [tool.name for tool in request.tools]}
            observe(Exchange(self.name, asked, None, reply.model_dump(mode="json", exclude_defaults=True), 0.0))
        return reply.completion(self._said)

    def _next(self, request: Request) -> ScriptedReply:
        if self._replies is None or self._script.by_turn:
            self._replies = self._chosen(request)
        if self._script.by_turn:
            self._said = sum(message.role == "assistant" for message in request.messages)
        if self._said >= len(self._replies):
            raise AgentError(f"the script {self.name} has no reply after the {self._said} that were used")
        self._said += 1
        return self._replies[self._said - 1]

    def _chosen(self, request: Request) -> tuple[ScriptedReply, ...]:
        first = "\n".join(message.content for message in request.messages if message.role != "assistant")
        for conversation in self._script.conversations:
            if re.search(conversation.when, first):
                return conversation.replies
        return self._script.replies
