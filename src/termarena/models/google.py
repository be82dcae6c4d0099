"""The generateContent interface of Google's Gemini models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pydantic import Field

from termarena.models.contract import Completion, Message, TokenUsage, ToolCall
from termarena.models.errors import UnusableReply
from termarena.models.wire import Reply, as_object, problem_in, read_reply, values_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.core.records import Json
    from termarena.models.contract import Finish, Request
    from termarena.models.wire import Problem

__all__ = ["GoogleWire"]

_FINISH: Final[dict[str | None, Finish]] = {"STOP": "stop", "MAX_TOKENS": "length"}
_REFUSED: Final = frozenset({"SAFETY", "RECITATION", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "IMAGE_SAFETY"})
# The keywords of JSON schema that the interface does not take.
_UNKNOWN: Final = frozenset({"additionalProperties", "$schema"})


class _Call(Reply):
    name: str = ""
    args: Any = None


class _Part(Reply):
    text: str = ""
    thought: bool = False
    function_call: _Call | None = Field(default=None, alias="functionCall")


class _Content(Reply):
    parts: tuple[_Part, ...] = ()


class _Candidate(Reply):
    content: _Content = Field(default_factory=_Content)
    finish_reason: str | None = Field(default=None, alias="finishReason")


class _Feedback(Reply):
    block_reason: str | None = Field(default=None, alias="blockReason")


class _Usage(Reply):
    prompt: int | None = Field(default=None, alias="promptTokenCount")
    candidates: int | None = Field(default=None, alias="candidatesTokenCount")
    thoughts: int | None = Field(default=None, alias="thoughtsTokenCount")
    cached: int | None = Field(default=None, alias="cachedContentTokenCount")


class _Answer(Reply):
    candidates: tuple[_Candidate, ...] = ()
    feedback: _Feedback | None = Field(default=None, alias="promptFeedback")
    usage: _Usage | None = Field(default=None, alias="usageMetadata")
    model: str | None = Field(default=None, alias="modelVersion")
    id: str | None = Field(default=None, alias="responseId")


class GoogleWire:
    """See `Wire`."""

    def path(self, model: str) -> str:
        """Of the model itself."""
        return f"/models/{quote(model, safe='')}:generateContent"

    def headers(self, key: str | None) -> dict[str, str]:
        """The key in a header: an address is written down in too many places."""
        return {"x-goog-api-key": key} if key else {}

    def body(self, model: str, request: Request) -> dict[str, Json]:  # noqa: ARG002 - the model stands in the path
        """The request; the system's messages go beside the others."""
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        body: dict[str, Json] = {"contents": _contents(request.messages)}
        if system:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        if request.tools:
            declared: list[Json] = [
                {"name": tool.name, "description": tool.description, "parameters": _schema(tool.parameters)}
                for tool in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
        sampling = request.sampling
        chosen: dict[str, Json] = {
            "temperature": sampling.temperature,
            "maxOutputTokens": sampling.max_tokens,
            "seed": sampling.seed,
            "stopSequences": [*sampling.stop] or None,
        }
        chosen = {name: value for name, value in chosen.items() if value is not None}
        return body | ({"generationConfig": chosen} if chosen else {})

    def completion(self, document: dict[str, Any]) -> Completion:
        """The first candidate; a prompt that was blocked is a refusal."""
        answer: _Answer = read_reply(_Answer, document)
        usage = _usage(answer.usage)
        if not answer.candidates:
            reason = answer.feedback.block_reason if answer.feedback else None
            if reason is None:
                raise UnusableReply("the answer has no candidate in it")
            return Completion(Message("assistant", reason), "refused", usage, model=answer.model, request_id=answer.id)
        first = answer.candidates[0]
        parts = first.content.parts
        calls = tuple(
            ToolCall(f"call_{place}", part.function_call.name, json.dumps(part.function_call.args or {}))
            for place, part in enumerate(parts, 1)
            if part.function_call is not None
        )
        thoughts = "".join(part.text for part in parts if part.thought)
        finish: Finish = "tool_calls" if calls else _FINISH.get(first.finish_reason, "unknown")
        return Completion(
            message=Message(
                "assistant",
                "".join(part.text for part in parts if not part.thought),
                tool_calls=calls,
                reasoning=thoughts or None,
            ),
            finish="refused" if first.finish_reason in _REFUSED else finish,
            usage=usage,
            model=answer.model,
            request_id=answer.id,
        )

    def problem(self, document: Json) -> Problem | None:
        """`{"error": {"code": 429, "message": …, "status": "RESOURCE_EXHAUSTED"}}`."""
        found = problem_in(document)
        # A wrong key is status 400 here, told apart by its reason alone.
        if found is not None and "API_KEY_INVALID" in json.dumps(document):
            return found.model_copy(update={"code": 401})
        return found

    def listing(self) -> str:
        """The list."""
        return "/models?pageSize=1000"

    def listed(self, document: Json) -> tuple[str, ...] | None:
        """The names, without the folder that they come with."""
        names = values_in(document, "models", "name")
        return None if names is None else tuple(name.removeprefix("models/") for name in names)


def _contents(messages: Sequence[Message]) -> list[Json]:
    """The turns; results of tools name the function, and what follows from the same side is one turn."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    turns: list[tuple[str, list[Json]]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "model" if message.role == "assistant" else "user"
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].extend(_parts(message, names))
    return [{"role": role, "parts": parts or [{"text": "(nothing)"}]} for role, parts in turns]


def _parts(message: Message, names: Mapping[str, str]) -> list[Json]:
    if message.role == "tool":
        name = names.get(message.tool_call_id or "", "unknown")
        return [{"functionResponse": {"name": name, "response": {"result": message.content}}}]
    parts: list[Json] = [{"text": message.content}] if message.content else []
    calls: list[Json] = [
        {"functionCall": {"name": call.name, "args": as_object(call.arguments)}} for call in message.tool_calls
    ]
    return parts + calls


def _schema(value: Mapping[str, Json]) -> dict[str, Json]:
    """A JSON schema without what the interface refuses."""
    return {
        name: _schema(inner) if isinstance(inner, dict) else inner
        for name, inner in value.items()
        if name not in _UNKNOWN
    }


def _usage(usage: _Usage | None) -> TokenUsage:
    if usage is None or usage.prompt is None:
        return TokenUsage()
    return TokenUsage(
        input_tokens=usage.prompt,
        output_tokens=(usage.candidates or 0) + (usage.thoughts or 0),
        cached_tokens=usage.cached or 0,
        reasoning_tokens=usage.thoughts,
    )
