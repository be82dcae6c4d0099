"""OpenAI's chat completions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Literal

from termarena.broker.contract import Refusal, Screened
from termarena.broker.dialects.parts import as_text, lowered, merged, new_id, objects, shown_input, shown_output
from termarena.broker.screening import refuse_addresses, refuse_fields, without_kinds
from termarena.broker.sse import event, last_event
from termarena.models.contract import Message, Request, Sampling, ToolCall, ToolSpec
from termarena.models.openai import OpenAiWire

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.broker.contract import Asked
    from termarena.broker.sse import Event
    from termarena.models.contract import Completion

__all__ = ["ChatDialect"]

OWN_TOOLS: Final = frozenset({"function", "custom"})
# How endpoints that speak like OpenAI are asked to search the web, and to let another model answer.
_PROVIDERS_OWN: Final = (
    *("web_search_options", "plugins", "search_parameters", "enable_search", "search_options", "search_settings"),
    *("compound_custom", "models", "route", "preset"),
)
# Answers beside the first: each would be as long as a reply may be, and nobody here reads them.
_SEVERAL: Final = ("n", "best_of")
_FINISH: Final = {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "refused": "content_filter"}
_ROLES: Final[dict[str, Literal["system", "user", "assistant", "tool"]]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class ChatDialect:
    """See `Dialect`."""

    name: Final = "chat"

    def read(self, body: Mapping[str, Any]) -> Request:
        """The messages and the functions on offer."""
        messages = merged(_message(row) for row in objects(body.get("messages"), "messages"))
        if not messages:
            raise Refusal(400, "there is no message")
        functions = [tool.get("function") or {} for tool in objects(body.get("tools"), "tools")]
        tools = tuple(
            ToolSpec(str(one.get("name")), str(one.get("description") or ""), one.get("parameters") or {})
            for one in functions
            if one.get("name")
        )
        stop = body.get("stop")
        sampling = Sampling(
            temperature=body.get("temperature"),
            max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
            seed=body.get("seed"),
            stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        )
        return Request(messages, tools, sampling)

    def screen(self, body: Mapping[str, Any]) -> Screened:
        """Without tools of the provider, its web search, its plugins, its other models, and further answers."""
        refuse_addresses(body.get("messages"))
        refuse_fields(body, mcp_servers="a remote MCP server")
        kept, stripped = without_kinds(objects(body.get("tools"), "tools"), OWN_TOOLS)
        if "mcp" in stripped:
            raise Refusal(400, "a remote MCP server cannot be used here")
        clean = dict(body)
        for name in _PROVIDERS_OWN:
            if clean.pop(name, None):
                stripped.append(name)
        for name in _SEVERAL:
            if clean.get(name) not in (None, 1):
                stripped.append(f"{name}={clean.pop(name)!r:.20}")
        if "tools" in body and stripped:
            clean["tools"] = kept
            if not kept:
                clean.pop("tools")
                clean.pop("tool_choice", None)
        return Screened(clean, tuple(stripped))

    def shortened(self, body: dict[str, Any], most_tokens: int) -> dict[str, Any]:
        """By whichever name the limit has."""
        return lowered(body, ("max_completion_tokens", "max_tokens"), most_tokens)

    def addressed(self, body: dict[str, Any], model: str) -> dict[str, Any]:
        """With the model, and with usage at the end of a stream."""
        told = {**body, "model": model}
        if body.get("stream"):
            told["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return told

    def completion(self, document: dict[str, Any]) -> Completion:
        """The first choice."""
        return OpenAiWire().completion(document)

    def document(self, answer: Completion, asked: Asked) -> dict[str, Any]:
        """One choice."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.message.content or None}
        if answer.message.reasoning:
            message["reasoning_content"] = answer.message.reasoning
        if answer.message.tool_calls:
            message["tool_calls"] = [_call(call) for call in answer.message.tool_calls]
        return {
            **_head(answer, asked, "chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": _FINISH.get(answer.finish, "stop")}],
            "usage": _usage(answer, asked),
        }

    def events(self, answer: Completion, asked: Asked) -> Iterator[bytes]:
        """What is said in one chunk, what is called in another, as providers do it, and the end in a third."""
        head = _head(answer, asked, "chat.completion.chunk")
        delta = self.document(answer, asked)["choices"][0]["message"]
        calls = [{**call, "index": place} for place, call in enumerate(delta.pop("tool_calls", ()))]
        for part in (delta, {"tool_calls": calls}) if calls else (delta,):
            yield event({**head, "choices": [{"index": 0, "delta": part, "finish_reason": None}]})
        finish = _FINISH.get(answer.finish, "stop")
        yield event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if (asked.body.get("stream_options") or {}).get("include_usage"):
            yield event({**head, "choices": [], "usage": _usage(answer, asked)})
        yield last_event()

    def gatherer(self, asked: Asked) -> ChatGatherer:
        """Chunks to a message."""
        return ChatGatherer(wants_usage=bool((asked.body.get("stream_options") or {}).get("include_usage")))

    def problem(self, refusal: Refusal) -> dict[str, Any]:
        """`{"error": {…}}`."""
        return {"error": {"message": refusal.message, "type": refusal.kind, "code": refusal.kind, "param": None}}

    def broken_off(self, refusal: Refusal) -> bytes:
        """The same as a chunk."""
        return event(self.problem(refusal))


class ChatGatherer:
    """See `Gatherer`."""

    def __init__(self, *, wants_usage: bool) -> None:
        """Where the agent did not ask for usage, the chunk that has it is ours alone."""
        self._wants_usage = wants_usage
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant", "content": ""}
        self._calls: dict[int, dict[str, Any]] = {}
        self._finish: str | None = None
        self._usage: dict[str, Any] | None = None
        self.is_whole = False

    def add(self, event: Event) -> bool:
        """One chunk."""
        if event.data == "[DONE]":
            self.is_whole = True
            return True
        chunk = event.document
        self._head |= {name: chunk[name] for name in ("id", "model", "created") if name in chunk}
        self._usage = chunk.get("usage") or self._usage
        choices = [choice for choice in chunk.get("choices") or () if isinstance(choice, dict)]
        for choice in choices:
            self._finish = choice.get("finish_reason") or self._finish
            self._take(choice.get("delta") or {})
        return bool(choices) or self._wants_usage or not chunk.get("usage")

    def _take(self, delta: dict[str, Any]) -> None:
        for name in ("content", "reasoning_content", "reasoning", "refusal"):
            if isinstance(delta.get(name), str):
                self._message[name] = self._message.get(name, "") + delta[name]
        for row in delta.get("tool_calls") or ():
            if not isinstance(row, dict):
                continue
            call = self._calls.setdefault(row.get("index", 0), {"type": "function", "function": {"arguments": ""}})
            function = row.get("function") or {}
            call["id"] = row.get("id") or call.get("id")
            call["function"]["name"] = function.get("name") or call["function"].get("name", "")
            call["function"]["arguments"] += function.get("arguments") or ""

    @property
    def document(self) -> dict[str, Any]:
        """As in one piece."""
        message = {**self._message, **({"tool_calls": [*self._calls.values()]} if self._calls else {})}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}


def _message(row: dict[str, Any]) -> Message:
    role = _ROLES.get(str(row.get("role")))
    if role is None:
        raise Refusal(400, f"{row.get('role')!r} is no role of a message")
    calls = tuple(
        ToolCall(str(call.get("id")), str(call["function"].get("name")), as_text(call["function"].get("arguments")))
        for call in objects(row.get("tool_calls"), "tool_calls")
        if isinstance(call.get("function"), dict)
    )
    return Message(role, as_text(row.get("content")), tool_calls=calls, tool_call_id=row.get("tool_call_id"))


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _head(answer: Completion, asked: Asked, kind: str) -> dict[str, Any]:
    return {
        "id": answer.request_id or new_id("chatcmpl-"),
        "object": kind,
        "created": int(time.time()),
        "model": str(asked.body.get("model") or answer.model),
    }


def _usage(answer: Completion, asked: Asked) -> dict[str, Any]:
    read, written = shown_input(answer, asked.body), shown_output(answer)
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": answer.usage.cached_tokens or 0},
    }
