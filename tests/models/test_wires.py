"""The interfaces of Anthropic and Google: what is sent, what is understood, and what their refusals mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.model_server import ModelServer, Turn
from termarena.models import Message, Request, RunModels, Sampling, TokenUsage, ToolCall, ToolSpec
from termarena.models.errors import ContextOverflow, KeyRefused, ModelRejected, UnusableReply
from termarena.models.http import Patience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK = Patience(attempts=2, first_wait_s=0.001, answer_s=60)
SHELL = ToolSpec(
    "EXECUTE",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "additionalProperties": False},
)
TALK = Request(
    (
        Message("system", "Be brief."),
        Message("user", "List it."),
        Message(
            "assistant", "", tool_calls=(ToolCall("a", "EXECUTE", '{"command": "ls"}'), ToolCall("b", "EXECUTE", "{ha"))
        ),
        Message("tool", "one.txt", tool_call_id="a"),
        Message("tool", "no JSON", tool_call_id="b"),
        Message("user", "Go on."),
    ),
    (SHELL,),
    Sampling(0.5, 300, stop=("END",)),
)


@pytest.fixture
async def models() -> AsyncIterator[RunModels]:
    made = RunModels(patience=QUICK, environ={"ANTHROPIC_API_KEY": "ant-key-123", "GEMINI_API_KEY": "gem-key-123"})
    yield made
    await made.aclose()


def claude(**answer: Any) -> Turn:  # noqa: ANN401 - JSON
    usage = {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 5}
    return Turn({"id": "msg_1", "model": "claude-x", "stop_reason": "end_turn", "usage": usage, **answer})


async def test_anthropic_sends_turns_and_reads_blocks_and_the_cache(models: RunModels) -> None:
    content = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "EXECUTE", "input": {"command": "ls"}},
    ]
    with ModelServer(claude(content=content, stop_reason="tool_use")) as server:
        answer = await models.open(f"anthropic:claude-x@{server.url}").complete(TALK, timeout_s=60)
    sent = server.requests[0]
    assert "x-api-key: ant-key-123" in server.heads[0]
    assert "anthropic-version: 2023-06-01" in server.heads[0]
    assert (sent["max_tokens"], sent["temperature"], sent["stop_sequences"]) == (300, 0.5, ["END"])
    assert sent["system"][0]["text"] == "Be brief."
    assert [turn["role"] for turn in sent["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent["messages"][2]["content"]] == ["tool_result", "tool_result", "text"]
    assert sent["messages"][1]["content"][1]["input"] == {"unreadable": "{ha"}
    assert sent["messages"][2]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert sent["tools"][0]["input_schema"]["properties"] == {"command": {"type": "string"}}
    assert (answer.message.content, answer.message.reasoning, answer.finish) == ("I look.", "Hm.", "tool_calls")
    assert answer.message.tool_calls == (ToolCall("t1", "EXECUTE", '{"command": "ls"}'),)
    assert answer.usage == TokenUsage(95, 7, cached_tokens=80, cache_write_tokens=5)


def gemini(*parts: dict[str, Any], finish: str = "STOP") -> Turn:
    usage = {"promptTokenCount": 50, "candidatesTokenCount": 6, "thoughtsTokenCount": 4, "cachedContentTokenCount": 20}
    candidate = {"content": {"role": "model", "parts": [*parts]}, "finishReason": finish}
    return Turn({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x", "responseId": "r1"})


async def test_google_sends_contents_and_reads_parts(models: RunModels) -> None:
    call = {"functionCall": {"name": "EXECUTE", "args": {"command": "ls"}}}
    with ModelServer(gemini({"text": "Hm.", "thought": True}, {"text": "I look."}, call)) as server:
        answer = await models.open(f"google:gemini-x@{server.url}").complete(TALK, timeout_s=60)
    sent = server.requests[0]
    assert server.heads[0].startswith("POST /v1/models/gemini-x:generateContent ")
    assert "x-goog-api-key: gem-key-123" in server.heads[0]
    assert [turn["role"] for turn in sent["contents"]] == ["user", "model", "user"]
    assert sent["contents"][2]["parts"][0] == {
        "functionResponse": {"name": "EXECUTE", "response": {"result": "one.txt"}}
    }
    assert "additionalProperties" not in str(sent["tools"])
    assert sent["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 300, "stopSequences": ["END"]}
    assert (answer.message.content, answer.message.reasoning, answer.finish) == ("I look.", "Hm.", "tool_calls")
    assert answer.message.tool_calls[0].arguments == '{"command": "ls"}'
    assert answer.usage == TokenUsage(50, 10, cached_tokens=20, reasoning_tokens=4)


@pytest.mark.parametrize(
    ("word", "turn", "finish"),
    [
        ("anthropic:m", claude(content=[], stop_reason="refusal"), "refused"),
        ("anthropic:m", claude(content=[{"type": "text", "text": "x"}], stop_reason="max_tokens"), "length"),
        ("google:m", gemini(finish="SAFETY"), "refused"),
        ("google:m", Turn({"promptFeedback": {"blockReason": "OTHER"}}), "refused"),
        ("google:m", gemini({"text": "x"}, finish="MAX_TOKENS"), "length"),
    ],
)
async def test_how_an_answer_ended(models: RunModels, word: str, turn: Turn, finish: str) -> None:
    with ModelServer(turn) as server:
        assert (await models.open(f"{word}@{server.url}").complete(TALK, timeout_s=60)).finish == finish


def error(status: int, **problem: object) -> Turn:
    return Turn({"type": "error", "error": problem}, status=status)


@pytest.mark.parametrize(
    ("word", "turn", "kind"),
    [
        ("anthropic:m", error(401, type="authentication_error", message="invalid x-api-key"), KeyRefused),
        ("anthropic:m", error(404, type="not_found_error", message="model: m"), ModelRejected),
        (
            "anthropic:m",
            error(400, type="invalid_request_error", message="prompt is too long: 9 tokens > 8"),
            ContextOverflow,
        ),
        ("anthropic:m", Turn({"id": "x"}), UnusableReply),
        (
            "google:m",
            error(400, code=400, message="API key not valid", details=[{"reason": "API_KEY_INVALID"}]),
            KeyRefused,
        ),
        ("google:m", error(400, code=400, message="The input token count (9) exceeds the maximum"), ContextOverflow),
        ("google:m", error(404, code=404, message="models/m is not found"), ModelRejected),
        ("google:m", Turn({"candidates": []}), UnusableReply),
    ],
)
async def test_what_a_refusal_means(models: RunModels, word: str, turn: Turn, kind: type[Exception]) -> None:
    with ModelServer(turn) as server:
        with pytest.raises(kind):
            await models.open(f"{word}@{server.url}").complete(TALK, timeout_s=60)
        assert len(server.requests) == 1


async def test_an_overloaded_anthropic_is_asked_again(models: RunModels) -> None:
    fine = claude(content=[{"type": "text", "text": "Hi."}])
    with ModelServer(error(529, type="overloaded_error", message="Overloaded"), fine) as server:
        answer = await models.open(f"anthropic:m@{server.url}").complete(TALK, timeout_s=60)
    assert (answer.message.content, answer.attempts) == ("Hi.", 2)


@pytest.mark.parametrize("provider", ["anthropic", "google"])
async def test_their_lists_of_models_are_read(models: RunModels, provider: str) -> None:
    with ModelServer(models=("big", "small")) as server:
        await models.probe(f"{provider}:small@{server.url}")
        with pytest.raises(ModelRejected, match="there is: big, small"):
            await models.probe(f"{provider}:medium@{server.url}")
