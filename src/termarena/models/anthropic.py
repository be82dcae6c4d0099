"""The messages interface of Anthropic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from termarena.models.contract import Completion, Message, TokenUsage, ToolCall
from termarena.models.wire import Reply, as_object, problem_in, read_reply, values_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.core.records import Json
    from termarena.models.contract import Finish, Request
    from termarena.models.wire import Problem

__all__ = ["AnthropicWire"]

VERSION: Final = "2023-06-01"
DEFAULT_MAX_TOKENS: Final = 8192
"""The interface wants a number."""
CACHE: Final[dict[str, Json]] = {"type": "ephemeral"}
_FINISH: Final[dict[str | None, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refused",
}


class _Block(Reply):
    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    input: Any = None


class _Usage(Reply):
    input_tokens: int | None = None
    """Those that were neither read from the cache nor written to it."""
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Answer(Reply):
    id: str | None = None
    model: str | None = None
    content: tuple[_Block, ...]
    stop_reason: str | None = None
    usage: _Usage | None = None


class AnthropicWire:
    """See `Wire`. The instructions, the tools and the conversation up to its last turn are marked for the cache."""

    def path(self, model: str) -> str:  # noqa: ARG002 - the model stands in the body
        """Of the messages."""
        return "/messages"

    def headers(self, key: str | None) -> dict[str, str]:
        """The version of the interface, and the key where there is one."""
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def body(self, model: str, request: Request) -> dict[str, Json]:
        """The request; the system's messages go beside the others."""
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        turns = _turns([message for message in request.messages if message.role != "system"])
        sampling = request.sampling
        body: dict[str, Json] = {
            "model": model,
            "max_tokens": sampling.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": _marked(turns),
        }
        if system:
            body["system"] = [{"type": "text", "text": system, "cache_control": CACHE}]
        if request.tools:
            tools: list[Json] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
                for tool in request.tools
            ]
            body["tools"] = tools
        if sampling.temperature is not None:
            body["temperature"] = sampling.temperature
        if sampling.stop:
            body["stop_sequences"] = [*sampling.stop]
        return body

    def completion(self, document: dict[str, Any]) -> Completion:
        """All blocks of the answer."""
        answer: _Answer = read_reply(_Answer, document)
        texts = [block.text for block in answer.content if block.type == "text"]
        thoughts = [block.thinking for block in answer.content if block.type == "thinking" and block.thinking]
        calls = tuple(
            ToolCall(block.id, block.name, block.input if isinstance(block.input, str) else json.dumps(block.input))
            for block in answer.content
            if block.type == "tool_use"
        )
        return Completion(
            message=Message(
                "assistant", "\n".join(texts), tool_calls=calls, reasoning="\n".join(thoughts) if thoughts else None
            ),
            finish=_FINISH.get(answer.stop_reason, "unknown"),
            usage=_usage(answer.usage),
            model=answer.model,
            request_id=answer.id,
        )

    def problem(self, document: Json) -> Problem | None:
        """`{"type": "error", "error": {"type": …, "message": …}}`."""
        return problem_in(document)

    def listing(self) -> str:
        """The list."""
        return "/models?limit=1000"

    def listed(self, document: Json) -> tuple[str, ...] | None:
        """The ids."""
        return values_in(document, "data", "id")


def _turns(messages: Sequence[Message]) -> list[tuple[str, list[dict[str, Json]]]]:
    """Role and blocks of each turn; what follows one another from the same side is one turn, as the interface asks."""
    turns: list[tuple[str, list[dict[str, Json]]]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].extend(_blocks(message))
    return [(role, blocks or [{"type": "text", "text": "(nothing)"}]) for role, blocks in turns]


def _blocks(message: Message) -> list[dict[str, Json]]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}]
    blocks: list[dict[str, Json]] = [{"type": "text", "text": message.content}] if message.content.strip() else []
    calls: list[dict[str, Json]] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": as_object(call.arguments)}
        for call in message.tool_calls
    ]
    return blocks + calls


def _marked(turns: list[tuple[str, list[dict[str, Json]]]]) -> list[Json]:
    """The last block marked: what comes before it is read from the cache by the next request."""
    if turns:
        turns[-1][1][-1]["cache_control"] = CACHE
    return [{"role": role, "content": [*blocks]} for role, blocks in turns]


def _usage(usage: _Usage | None) -> TokenUsage:
    if usage is None or usage.input_tokens is None:
        return TokenUsage()
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return TokenUsage(
        input_tokens=usage.input_tokens + read + written,
        output_tokens=usage.output_tokens,
        cached_tokens=read,
        cache_write_tokens=written,
    )
