"""Google's generateContent."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, Final

from termarena.broker.contract import Refusal, Screened
from termarena.broker.dialects.parts import as_text, lowered, new_id, objects, shown_input, shown_output
from termarena.broker.screening import refuse_addresses, refuse_fields
from termarena.broker.sse import event
from termarena.models.contract import Message, Request, Sampling, ToolCall, ToolSpec
from termarena.models.google import GoogleWire
from termarena.models.wire import as_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.broker.contract import Asked
    from termarena.broker.sse import Event
    from termarena.models.contract import Completion

__all__ = ["GeminiDialect"]

OWN_TOOLS: Final = frozenset({"functionDeclarations", "function_declarations", "computerUse", "computer_use"})
_SETTINGS: Final = ("generation_config", "generationConfig")
_SEVERAL: Final = ("candidateCount", "candidate_count")
_FINISH: Final = {"length": "MAX_TOKENS", "refused": "SAFETY"}
_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}


class GeminiDialect:
    """See `Dialect`."""

    name: Final = "gemini"

    def read(self, body: Mapping[str, Any]) -> Request:
        """The turns; results of functions are turns of their own."""
        system = body.get("systemInstruction", body.get("system_instruction"))
        text = as_text(system.get("parts")) if isinstance(system, dict) else as_text(system)
        messages = [Message("system", text)] if text else []
        calls = _Calls()
        for row in objects(body.get("contents"), "contents"):
            messages.extend(calls.turn(row))
        if all(message.role == "system" for message in messages):
            raise Refusal(400, "there is no content")
        tools = tuple(
            ToolSpec(str(one.get("name")), str(one.get("description") or ""), _schema(one))
            for tool in objects(body.get("tools"), "tools")
            for one in objects(tool.get("functionDeclarations", tool.get("function_declarations")), "tools")
        )
        config = body.get("generationConfig") or {}
        sampling = Sampling(
            temperature=config.get("temperature"),
            max_tokens=config.get("maxOutputTokens"),
            seed=config.get("seed"),
            stop=tuple(config.get("stopSequences") or ()),
        )
        return Request(tuple(messages), tools, sampling)

    def screen(self, body: Mapping[str, Any]) -> Screened:
        """Without Google's search, its addresses, its code and further candidates; a remote MCP server is refused."""
        refuse_addresses([body.get(name) for name in ("contents", "systemInstruction", "system_instruction")])
        refuse_fields(body, cachedContent="a stored content", cached_content="a stored content")
        kept: list[dict[str, Any]] = []
        stripped: list[str] = []
        for tool in objects(body.get("tools"), "tools"):
            if "mcpServers" in tool or "mcp_servers" in tool:
                raise Refusal(400, "a remote MCP server cannot be used here")
            stripped.extend(name for name in tool if name not in OWN_TOOLS)
            own = {name: value for name, value in tool.items() if name in OWN_TOOLS}
            kept.extend([own] if own else [])
        clean = {**body, "tools": kept} if stripped else dict(body)
        if stripped and not kept:
            clean.pop("tools")
            clean.pop("toolConfig", None)
            clean.pop("tool_config", None)
        clean, several = _with_one_candidate(clean)
        return Screened(clean, (*stripped, *several))

    def shortened(self, body: dict[str, Any], most_tokens: int) -> dict[str, Any]:
        """In its settings; Google takes every name in two spellings, which become one."""
        known: dict[str, Any] = {}
        for name in _SETTINGS:
            settings = body.get(name)
            known.update(settings if isinstance(settings, dict) else {})
        spelled = known.pop("max_output_tokens", None)
        known.setdefault("maxOutputTokens", spelled)
        others = {name: value for name, value in body.items() if name != "generation_config"}
        return {**others, "generationConfig": lowered(known, ("maxOutputTokens",), most_tokens)}

    def addressed(self, body: dict[str, Any], model: str) -> dict[str, Any]:  # noqa: ARG002 - it stands in the path
        """As it is."""
        return body

    def completion(self, document: dict[str, Any]) -> Completion:
        """The first candidate."""
        return GoogleWire().completion(document)

    def document(self, answer: Completion, asked: Asked) -> dict[str, Any]:
        """One candidate."""
        said = answer.message
        parts: list[dict[str, Any]] = [{"text": said.content}] if said.content else []
        parts.extend(
            {"functionCall": {"id": call.id, "name": call.name, "args": as_object(call.arguments)}}
            for call in said.tool_calls
        )
        read, written = shown_input(answer, asked.body), shown_output(answer)
        candidate = {
            "index": 0,
            "content": {"role": "model", "parts": parts or [{"text": ""}]},
            "finishReason": _FINISH.get(answer.finish, "STOP"),
        }
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": read,
                "candidatesTokenCount": written,
                "totalTokenCount": read + written,
                "cachedContentTokenCount": answer.usage.cached_tokens or 0,
            },
            "modelVersion": answer.model or "",
            "responseId": answer.request_id or new_id(""),
        }

    def events(self, answer: Completion, asked: Asked) -> Iterator[bytes]:
        """The whole answer is one part of the stream: an event, or the only element of an array."""
        whole = self.document(answer, asked)
        yield event(whole) if asked.is_event_stream else json.dumps([whole]).encode()

    def gatherer(self, asked: Asked) -> GeminiGatherer:  # noqa: ARG002 - every stream is alike
        """Parts to a candidate."""
        return GeminiGatherer()

    def problem(self, refusal: Refusal) -> dict[str, Any]:
        """`{"error": {"code": …, "status": …}}`."""
        status = _STATUS.get(refusal.status, "INTERNAL")
        return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}

    def broken_off(self, refusal: Refusal) -> bytes:
        """The same as an event."""
        return event(self.problem(refusal))


class GeminiGatherer:
    """See `Gatherer`."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._document: dict[str, Any] = {}
        self._parts: list[Any] = []
        self._finish: str | None = None

    def add(self, event: Event) -> bool:
        """One part of the answer."""
        told = event.document
        self._document |= {name: value for name, value in told.items() if name != "candidates"}
        for candidate in (told.get("candidates") or ())[:1]:
            self._finish = candidate.get("finishReason") or self._finish
            self._parts.extend((candidate.get("content") or {}).get("parts") or ())
        return True

    @property
    def is_whole(self) -> bool:
        """Whether it was said why the model ended."""
        return self._finish is not None or "promptFeedback" in self._document

    @property
    def document(self) -> dict[str, Any]:
        """As in one piece."""
        if not self._parts and self._finish is None:
            return {**self._document}
        content = {"role": "model", "parts": self._parts}
        return {**self._document, "candidates": [{"content": content, "finishReason": self._finish}]}


class _Calls:
    """Results name their function and not always their call: they belong to the calls of that name, in order."""

    def __init__(self) -> None:
        self._count = 0
        self._open: defaultdict[str, deque[str]] = defaultdict(deque)

    def turn(self, row: dict[str, Any]) -> Iterator[Message]:
        said: list[Any] = []
        calls: list[ToolCall] = []
        for part in objects(row.get("parts"), "parts"):
            call = part.get("functionCall", part.get("function_call"))
            result = part.get("functionResponse", part.get("function_response"))
            if isinstance(call, dict):
                calls.append(self._call(call))
            elif isinstance(result, dict):
                yield Message("tool", as_text(result.get("response")), tool_call_id=self._answered(result))
            elif not part.get("thought"):
                said.append(part)
        if said or calls:
            yield Message("assistant" if row.get("role") == "model" else "user", as_text(said), tool_calls=tuple(calls))

    def _call(self, call: dict[str, Any]) -> ToolCall:
        self._count += 1
        name, identity = str(call.get("name")), str(call.get("id") or f"call_{self._count}")
        self._open[name].append(identity)
        return ToolCall(identity, name, json.dumps(call.get("args") or {}))

    def _answered(self, result: dict[str, Any]) -> str:
        waiting = self._open[str(result.get("name"))]
        first = waiting.popleft() if waiting else "unknown"
        return str(result.get("id") or first)


def _with_one_candidate(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Without a wish for several, each of which would be as long as a reply may be; and what was wished for."""
    wished: list[str] = []
    for name in _SETTINGS:
        settings = body.get(name)
        if not isinstance(settings, dict):
            continue
        many = {key: settings[key] for key in _SEVERAL if settings.get(key) not in (None, 1)}
        wished.extend(f"{key}={value!r:.20}" for key, value in many.items())
        if many:
            body = {**body, name: {key: value for key, value in settings.items() if key not in many}}
    return body, wished


def _schema(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    found = declared.get("parametersJsonSchema", declared.get("parameters"))
    return found if isinstance(found, dict) else {"type": "object", "properties": {}}
