"""Anthropic's messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from termarena.broker.contract import Refusal, Screened
from termarena.broker.dialects.parts import as_text, lowered, new_id, objects, shown_input, shown_output
from termarena.broker.screening import refuse_addresses, refuse_fields, without_kinds
from termarena.broker.sse import event
from termarena.models.anthropic import AnthropicWire
from termarena.models.contract import Message, Request, Sampling, ToolCall, ToolSpec
from termarena.models.wire import as_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.broker.contract import Asked
    from termarena.broker.sse import Event
    from termarena.models.contract import Completion

__all__ = ["MessagesDialect"]

OWN_TOOLS: Final = frozenset({"custom"})
# Anthropic's own tools that the agent carries out, in whatever version.
OWN_TOOL_PREFIXES: Final = ("bash_", "text_editor_", "computer_", "memory_")
LEAST_THOUGHTS: Final = 1024
"""Tokens; Anthropic takes no smaller number."""
_FINISH: Final = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "refused": "refusal"}
_KINDS: Final = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large"}


class MessagesDialect:
    """See `Dialect`."""

    name: Final = "messages"

    def read(self, body: Mapping[str, Any]) -> Request:
        """The turns; results of tools are turns of their own."""
        system = as_text(body.get("system"))
        messages = [Message("system", system)] if system else []
        for row in objects(body.get("messages"), "messages"):
            messages.extend(_turn(row))
        if all(message.role == "system" for message in messages):
            raise Refusal(400, "there is no message")
        tools = tuple(
            ToolSpec(str(tool["name"]), str(tool.get("description") or ""), tool["input_schema"])
            for tool in objects(body.get("tools"), "tools")
            if tool.get("name") and isinstance(tool.get("input_schema"), dict)
        )
        sampling = Sampling(
            temperature=body.get("temperature"),
            max_tokens=body.get("max_tokens"),
            stop=tuple(body.get("stop_sequences") or ()),
        )
        return Request(tuple(messages), tools, sampling)

    def screen(self, body: Mapping[str, Any]) -> Screened:
        """Without tools of the provider; a remote MCP server is refused."""
        refuse_fields(body, mcp_servers="a remote MCP server")
        refuse_addresses([body.get("messages"), body.get("system")])
        tools = objects(body.get("tools"), "tools")
        kept, stripped = without_kinds(tools, OWN_TOOLS, prefixes=OWN_TOOL_PREFIXES, plain="custom")
        clean = dict(body)
        if clean.pop("container", None):
            stripped.append("container")
        if "tools" in body and len(kept) < len(tools):
            clean["tools"] = kept
            if not kept or _chooses_missing(clean, kept):
                clean.pop("tool_choice", None)
        return Screened(clean, tuple(stripped))

    def shortened(self, body: dict[str, Any], most_tokens: int) -> dict[str, Any]:
        """With thoughts that leave room for words: Anthropic refuses a request whose thoughts may be as long as all."""
        clean = lowered(body, ("max_tokens",), most_tokens)
        given = clean.get("thinking")
        thinking = given if isinstance(given, dict) else {}
        wanted = thinking.get("budget_tokens")
        if not isinstance(wanted, int) or wanted < clean["max_tokens"]:
            return clean
        if clean["max_tokens"] <= LEAST_THOUGHTS:
            return {name: value for name, value in clean.items() if name != "thinking"}
        return {**clean, "thinking": {**thinking, "budget_tokens": max(clean["max_tokens"] // 2, LEAST_THOUGHTS)}}

    def addressed(self, body: dict[str, Any], model: str) -> dict[str, Any]:
        """With the model; usage is told anyway."""
        return {**body, "model": model}

    def completion(self, document: dict[str, Any]) -> Completion:
        """All blocks."""
        return AnthropicWire().completion(document)

    def document(self, answer: Completion, asked: Asked) -> dict[str, Any]:
        """One message."""
        cached = answer.usage.cached_tokens or 0
        return {
            "id": answer.request_id or new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": str(asked.body.get("model") or answer.model),
            "content": _blocks(answer),
            "stop_reason": _FINISH.get(answer.finish, "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": max(shown_input(answer, asked.body) - cached, 0),
                "output_tokens": shown_output(answer),
                "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": 0,
            },
        }

    def events(self, answer: Completion, asked: Asked) -> Iterator[bytes]:
        """Block by block."""
        whole = self.document(answer, asked)
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        yield event({"type": "message_start", "message": begun}, "message_start")
        for place, block in enumerate(whole["content"]):
            yield from _block_events(place, block)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield event({"type": "message_delta", "delta": ended, "usage": whole["usage"]}, "message_delta")
        yield event({"type": "message_stop"}, "message_stop")

    def gatherer(self, asked: Asked) -> MessagesGatherer:  # noqa: ARG002 - every stream is alike
        """Blocks to a message."""
        return MessagesGatherer()

    def problem(self, refusal: Refusal) -> dict[str, Any]:
        """`{"type": "error", "error": {…}}`."""
        kind = _KINDS.get(refusal.status, "api_error" if refusal.status >= 500 else "invalid_request_error")  # noqa: PLR2004 - HTTP's border
        return {"type": "error", "error": {"type": kind, "message": refusal.message}}

    def broken_off(self, refusal: Refusal) -> bytes:
        """The same as an event."""
        return event(self.problem(refusal), "error")


class MessagesGatherer:
    """See `Gatherer`."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._message: dict[str, Any] = {"type": "message", "role": "assistant"}
        self._blocks: dict[int, dict[str, Any]] = {}
        self.is_whole = False

    def add(self, event: Event) -> bool:
        """One event; all of them are the agent's."""
        told = event.document
        kind = told.get("type")
        if kind == "message_start" and isinstance(told.get("message"), dict):
            self._message |= told["message"]
        elif kind == "content_block_start" and isinstance(told.get("content_block"), dict):
            self._blocks[told.get("index", 0)] = {**told["content_block"]}
        elif kind == "content_block_delta":
            _extend(self._blocks.setdefault(told.get("index", 0), {"type": "text", "text": ""}), told.get("delta"))
        elif kind == "message_delta":
            self._message |= {k: v for k, v in (told.get("delta") or {}).items() if k.startswith("stop_")}
            usage = {name: value for name, value in (told.get("usage") or {}).items() if value is not None}
            self._message["usage"] = {**(self._message.get("usage") or {}), **usage}
        elif kind == "message_stop":
            self.is_whole = True
        return True

    @property
    def document(self) -> dict[str, Any]:
        """As in one piece."""
        return {**self._message, "content": [_closed(block) for _, block in sorted(self._blocks.items())]}


def _extend(block: dict[str, Any], delta: object) -> None:
    if not isinstance(delta, dict):
        return
    for source, target in (("text", "text"), ("thinking", "thinking"), ("partial_json", "partial_json")):
        if isinstance(delta.get(source), str):
            block[target] = block.get(target, "") + delta[source]


def _closed(block: dict[str, Any]) -> dict[str, Any]:
    """A call's arguments come in pieces; what is no object stays the text that it was."""
    if "partial_json" not in block:
        return block
    text = block["partial_json"]
    rest = {name: value for name, value in block.items() if name != "partial_json"}
    try:
        return {**rest, "input": json.loads(text or "{}")}
    except ValueError:
        return {**rest, "input": text}


def _turn(row: dict[str, Any]) -> Iterator[Message]:
    content = row.get("content")
    if row.get("role") not in ("user", "assistant", "system"):
        raise Refusal(400, f"{row.get('role')!r} is no role of a message")
    if not isinstance(content, list):
        yield Message(row["role"], as_text(content))
        return
    said: list[Any] = []
    calls: list[ToolCall] = []
    for block in objects(content, "content"):
        kind = block.get("type")
        if kind == "tool_result":
            yield Message("tool", as_text(block.get("content")), tool_call_id=str(block.get("tool_use_id")))
        elif kind == "tool_use":
            calls.append(ToolCall(str(block.get("id")), str(block.get("name")), json.dumps(block.get("input"))))
        elif kind not in ("thinking", "redacted_thinking"):
            said.append(block)
    if said or calls:
        yield Message(row["role"], as_text(said), tool_calls=tuple(calls))


def _blocks(answer: Completion) -> list[dict[str, Any]]:
    said = answer.message
    blocks: list[dict[str, Any]] = [{"type": "text", "text": said.content}] if said.content else []
    for call in said.tool_calls:
        identity = call.id if call.id.startswith("toolu_") else f"toolu_{call.id}"
        blocks.append({"type": "tool_use", "id": identity, "name": call.name, "input": as_object(call.arguments)})
    return blocks


def _block_events(place: int, block: dict[str, Any]) -> Iterator[bytes]:
    empty: dict[str, Any]
    if block["type"] == "text":
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield event({"type": "content_block_start", "index": place, "content_block": empty}, "content_block_start")
    yield event({"type": "content_block_delta", "index": place, "delta": delta}, "content_block_delta")
    yield event({"type": "content_block_stop", "index": place}, "content_block_stop")


def _chooses_missing(body: Mapping[str, Any], kept: list[Any]) -> bool:
    choice = body.get("tool_choice")
    name = choice.get("name") if isinstance(choice, dict) else None
    return name is not None and name not in {tool.get("name") for tool in kept}
