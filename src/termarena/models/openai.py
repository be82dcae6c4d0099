"""The chat interface of OpenAI, which most servers speak."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from termarena.models.contract import Completion, Message, TokenUsage, ToolCall
from termarena.models.errors import UnusableReply
from termarena.models.wire import Problem, Reply, problem_in, read_reply, values_in

if TYPE_CHECKING:
    from termarena.core.records import Json
    from termarena.models.contract import Finish, Request

__all__ = ["OpenAiWire"]

_FINISH: dict[str | None, Finish] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refused",
}


class _Function(Reply):
    name: str = ""
    arguments: str | dict[str, Any] | None = ""
    """A text by the book; some servers send the object itself."""


class _Call(Reply):
    id: str | None = None
    function: _Function


class _Message(Reply):
    content: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[_Call, ...] | None = None


class _Choice(Reply):
    message: _Message
    finish_reason: str | None = None


class _PromptDetails(Reply):
    cached_tokens: int | None = None


class _OutputDetails(Reply):
    reasoning_tokens: int | None = None


class _Usage(Reply):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _OutputDetails | None = None
    cost: float | None = None
    """OpenRouter's, in dollars."""


class _Answer(Reply):
    id: str | None = None
    model: str | None = None
    choices: tuple[_Choice, ...]
    usage: _Usage | None = None


class OpenAiWire:
    """See `Wire`."""

    def path(self, model: str) -> str:  # noqa: ARG002 - the model stands in the body
        """Of the chat."""
        return "/chat/completions"

    def headers(self, key: str | None) -> dict[str, str]:
        """The key, where there is one."""
        return {"Authorization": f"Bearer {key}"} if key else {}

    def body(self, model: str, request: Request) -> dict[str, Json]:
        """The request."""
        body: dict[str, Json] = {"model": model, "messages": [_message(message) for message in request.messages]}
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.parameters),
                    },
                }
                for tool in request.tools
            ]
        sampling = request.sampling
        chosen: dict[str, Json] = {
            "temperature": sampling.temperature,
            # What replaced max_tokens; the new name is the only one that OpenAI's reasoning models take.
            "max_completion_tokens": sampling.max_tokens,
            "seed": sampling.seed,
            "stop": [*sampling.stop] or None,
        }
        return body | {name: value for name, value in chosen.items() if value is not None}

    def completion(self, document: dict[str, Any]) -> Completion:
        """The first choice."""
        answer: _Answer = read_reply(_Answer, document)
        if not answer.choices:
            raise UnusableReply("the answer has no choice in it")
        choice = answer.choices[0]
        said = choice.message
        calls = tuple(_call(call, place) for place, call in enumerate(said.tool_calls or (), 1))
        finish = "refused" if said.refusal else _FINISH.get(choice.finish_reason, "unknown")
        return Completion(
            message=Message(
                "assistant",
                said.content or said.refusal or "",
                tool_calls=calls,
                reasoning=said.reasoning_content or said.reasoning,
            ),
            finish=finish,
            usage=_usage(answer.usage),
            cost_usd=answer.usage.cost if answer.usage else None,
            cost_source="provider" if answer.usage and answer.usage.cost is not None else None,
            model=answer.model,
            request_id=answer.id,
        )

    def problem(self, document: Json) -> Problem | None:
        """`{"error": {"message": …}}`, and what others make of it."""
        error = document.get("error") if isinstance(document, dict) else None
        return Problem(message=error) if isinstance(error, str) else problem_in(document)

    def listing(self) -> str:
        """The list."""
        return "/models"

    def listed(self, document: Json) -> tuple[str, ...] | None:
        """The ids."""
        return values_in(document, "data", "id")


def _message(message: Message) -> dict[str, Json]:
    sent: dict[str, Json] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        sent["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    return sent


def _call(call: _Call, place: int) -> ToolCall:
    given = call.function.arguments
    text = given if isinstance(given, str) else json.dumps(given or {})
    return ToolCall(id=call.id or f"call_{place}", name=call.function.name, arguments=text)


def _usage(usage: _Usage | None) -> TokenUsage:
    if usage is None:
        return TokenUsage()
    prompt, output = usage.prompt_tokens_details, usage.completion_tokens_details
    return TokenUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=prompt.cached_tokens if prompt else None,
        reasoning_tokens=output.reasoning_tokens if output else None,
    )
