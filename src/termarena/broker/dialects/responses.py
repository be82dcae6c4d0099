"""OpenAI's responses."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from termarena.broker.contract import Refusal, Screened
from termarena.broker.dialects.parts import as_text, lowered, merged, new_id, objects, shown_input, shown_output
from termarena.broker.screening import refuse_addresses, refuse_fields, without_kinds
from termarena.broker.sse import event
from termarena.models.contract import Completion, Message, Request, Sampling, TokenUsage, ToolCall, ToolSpec
from termarena.models.errors import UnusableReply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.broker.contract import Asked
    from termarena.broker.sse import Event
    from termarena.models.contract import Finish

__all__ = ["ResponsesDialect"]

OWN_TOOLS: Final = frozenset({"function", "custom", "local_shell", "apply_patch", "namespace", "tool_search"})
_FINISHED: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ONE_TEXT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})


class ResponsesDialect:
    """See `Dialect`."""

    name: Final = "responses"

    def read(self, body: Mapping[str, Any]) -> Request:
        """The items as turns; what the model thought is left out."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(given, "input")
        messages = [message for item in items if (message := _message(item)) is not None]
        if not messages:
            raise Refusal(400, "there is no input")
        if body.get("instructions"):
            messages.insert(0, Message("system", as_text(body["instructions"])))
        tools = tuple(_specs(objects(body.get("tools"), "tools")))
        sampling = Sampling(temperature=body.get("temperature"), max_tokens=body.get("max_output_tokens"))
        return Request(merged(messages), tools, sampling)

    def screen(self, body: Mapping[str, Any]) -> Screened:
        """Without tools of the provider; what it keeps on its side is refused."""
        refuse_fields(body, prompt="a stored prompt", conversation="a stored conversation", background="the background")
        refuse_addresses(body.get("input"))
        tools = objects(body.get("tools"), "tools")
        kept, stripped = _own(tools)
        if "mcp" in stripped:
            raise Refusal(400, "a remote MCP server cannot be used here")
        clean = dict(body)
        if stripped:
            clean["tools"] = kept
            if not kept or isinstance(body.get("tool_choice"), dict):
                clean.pop("tool_choice", None)
        return Screened(clean, tuple(stripped))

    def shortened(self, body: dict[str, Any], most_tokens: int) -> dict[str, Any]:
        """By whichever name the limit has."""
        return lowered(body, ("max_output_tokens",), most_tokens)

    def addressed(self, body: dict[str, Any], model: str) -> dict[str, Any]:
        """With the model; usage is told anyway."""
        return {**body, "model": model}

    def completion(self, document: dict[str, Any]) -> Completion:
        """The items of the output."""
        output = document.get("output")
        if not isinstance(output, list):
            raise UnusableReply("the answer is not what the interface promises: it has no output")
        items = [item for item in output if isinstance(item, dict)]
        calls = tuple(_called(item) for item in items if item.get("type") in _CALLS)
        texts = [as_text(item.get("content")) for item in items if item.get("type") == "message"]
        thoughts = [as_text(item.get("summary")) for item in items if item.get("type") == "reasoning"]
        return Completion(
            message=Message(
                "assistant", "\n".join(texts), tool_calls=calls, reasoning="\n".join(filter(None, thoughts)) or None
            ),
            finish=_finish(document, has_calls=bool(calls)),
            usage=_counted(document.get("usage")),
            model=document.get("model"),
            request_id=document.get("id"),
        )

    def document(self, answer: Completion, asked: Asked) -> dict[str, Any]:
        """One response."""
        read, written = shown_input(answer, asked.body), shown_output(answer)
        is_cut = answer.finish == "length"
        return {
            "id": answer.request_id or new_id("resp_"),
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if is_cut else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "model": str(asked.body.get("model") or answer.model),
            "output": _items(answer, asked),
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": answer.usage.cached_tokens or 0},
                "output_tokens": written,
                "output_tokens_details": {"reasoning_tokens": answer.usage.reasoning_tokens or 0},
                "total_tokens": read + written,
            },
        }

    def events(self, answer: Completion, asked: Asked) -> Iterator[bytes]:
        """Item by item, numbered."""
        whole = self.document(answer, asked)
        begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        told: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for place, item in enumerate(whole["output"]):
            told.extend(_item_events(place, item))
        end = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
        told.append({"type": end, "response": whole})
        for number, row in enumerate(told):
            yield event({**row, "sequence_number": number}, row["type"])

    def gatherer(self, asked: Asked) -> ResponsesGatherer:  # noqa: ARG002 - every stream is alike
        """The last event has everything."""
        return ResponsesGatherer()

    def problem(self, refusal: Refusal) -> dict[str, Any]:
        """`{"error": {…}}`."""
        return {"error": {"message": refusal.message, "type": refusal.kind, "code": refusal.kind, "param": None}}

    def broken_off(self, refusal: Refusal) -> bytes:
        """A response that failed."""
        error = {"code": "server_error", "message": refusal.message}
        failed = {"id": new_id("resp_"), "object": "response", "status": "failed", "error": error, "output": []}
        return event({"type": "response.failed", "response": failed}, "response.failed")


class ResponsesGatherer:
    """See `Gatherer`."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._items: list[Any] = []
        self._document: dict[str, Any] = {}
        self.is_whole = False

    def add(self, event: Event) -> bool:
        """One event; all of them are the agent's."""
        told = event.document
        if isinstance(told.get("response"), dict):
            self._document = told["response"]
        if told.get("type") == "response.output_item.done":
            self._items.append(told.get("item"))
        self.is_whole = self.is_whole or told.get("type") in _FINISHED
        return True

    @property
    def document(self) -> dict[str, Any]:
        """The response; before its end, the items that are finished."""
        return {**self._document, "output": self._document.get("output") or self._items}


def _own(tools: list[dict[str, Any]]) -> tuple[list[Any], list[str]]:
    """The tools that are the agent's own, those within a namespace too, and the kinds of the others."""
    kept, stripped = without_kinds(tools, OWN_TOOLS)
    for place, tool in enumerate(kept):
        inner, others = _own(objects(tool.get("tools"), "tools")) if tool["type"] == "namespace" else ([], [])
        if others:
            kept[place] = {**tool, "tools": inner}
            stripped += others
    return kept, stripped


def _message(item: dict[str, Any]) -> Message | None:
    kind = item.get("type", "message")
    if kind in _CALLS:
        return Message("assistant", "", tool_calls=(_called(item),))
    if kind in _RESULTS:
        return Message("tool", as_text(item.get("output")), tool_call_id=str(item.get("call_id")))
    if kind != "message":
        return None
    role = {"developer": "system", "system": "system", "assistant": "assistant"}.get(str(item.get("role")), "user")
    return Message(role, as_text(item.get("content")))  # type: ignore[arg-type]  # one of three


def _called(item: Mapping[str, Any]) -> ToolCall:
    given = item.get("arguments") if item.get("type") == "function_call" else json.dumps({"input": item.get("input")})
    name = _joined(item.get("namespace"), str(item.get("name")))
    return ToolCall(str(item.get("call_id") or item.get("id")), name, as_text(given))


class _Offered(NamedTuple):
    """A tool, and the namespace that it stands in; a model of another interface knows both as one name."""

    tool: dict[str, Any]
    space: str | None

    @property
    def name(self) -> str:
        return _joined(self.space, str(self.tool["name"]))

    @property
    def is_free_form(self) -> bool:
        return self.tool.get("type") == "custom"

    @property
    def called_as(self) -> dict[str, Any]:
        """The fields of a call."""
        return {"name": self.tool["name"], **({"namespace": self.space} if self.space else {})}


def _joined(space: object, name: str) -> str:
    return f"{space}__{name}" if space else name


def _offered(tools: list[dict[str, Any]], space: str | None = None) -> Iterator[_Offered]:
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from _offered(objects(tool.get("tools"), "tools"), str(tool.get("name") or ""))
        elif tool.get("name"):
            yield _Offered(tool, space)


def _specs(tools: list[dict[str, Any]]) -> Iterator[ToolSpec]:
    for one in _offered(tools):
        schema = _ONE_TEXT if one.is_free_form else one.tool.get("parameters") or {}
        yield ToolSpec(one.name, str(one.tool.get("description") or ""), schema)


def _items(answer: Completion, asked: Asked) -> list[dict[str, Any]]:
    said = answer.message
    items: list[dict[str, Any]] = []
    if said.content:
        content = [{"type": "output_text", "text": said.content, "annotations": [], "logprobs": []}]
        items.append(_item("message", "msg_", role="assistant", content=content))
    offered = {one.name: one for one in _offered(objects(asked.body.get("tools"), "tools"))}
    for call in said.tool_calls:
        one = offered.get(call.name)
        named = {"call_id": call.id, **(one.called_as if one else {"name": call.name})}
        if one is not None and one.is_free_form:
            items.append(_item("custom_tool_call", "ctc_", **named, input=_only_text(call.arguments)))
        else:
            items.append(_item("function_call", "fc_", **named, arguments=call.arguments))
    return items


def _item(kind: str, prefix: str, **fields: object) -> dict[str, Any]:
    return {"type": kind, "id": new_id(prefix), "status": "completed", **fields}


def _only_text(arguments: str) -> str:
    """What a model without free-form tools says in the one argument that it was offered."""
    try:
        found = json.loads(arguments)
    except ValueError:
        return arguments
    return str(found["input"]) if isinstance(found, dict) and "input" in found else arguments


def _item_events(place: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    at = {"output_index": place, "item_id": item["id"]}
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {}
    yield {
        "type": "response.output_item.added",
        "output_index": place,
        "item": {**item, "status": "in_progress", **empty},
    }
    if item["type"] == "message":
        part = item["content"][0]
        yield {"type": "response.content_part.added", **at, "content_index": 0, "part": {**part, "text": ""}}
        yield {"type": "response.output_text.delta", **at, "content_index": 0, "delta": part["text"]}
        yield {"type": "response.output_text.done", **at, "content_index": 0, "text": part["text"]}
        yield {"type": "response.content_part.done", **at, "content_index": 0, "part": part}
    elif item["type"] == "function_call":
        yield {"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _finish(document: Mapping[str, Any], *, has_calls: bool) -> Finish:
    details = document.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason is not None:
        return "refused" if reason == "content_filter" else "length"
    if document.get("status") == "completed":
        return "tool_calls" if has_calls else "stop"
    return "unknown"


def _counted(usage: object) -> TokenUsage:
    if not isinstance(usage, dict):
        return TokenUsage()
    read, written = usage.get("input_tokens_details") or {}, usage.get("output_tokens_details") or {}
    return TokenUsage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=read.get("cached_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
    )
