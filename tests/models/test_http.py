"""Models behind HTTP: what is sent, what is understood, and what an endpoint that misbehaves comes to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from support.model_bench import IMPATIENT, QUICK
from support.model_server import ModelServer, Turn, declined, said
from termarena.models import Message, ModelLimits, Request, RunModels, Sampling, TokenUsage, ToolSpec
from termarena.models.errors import (
    BudgetSpent,
    ContextOverflow,
    KeyRefused,
    ModelRejected,
    ModelUnavailable,
    UnusableReply,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from termarena.models import Completion, Exchange

HELLO = Request((Message("system", "Be brief."), Message("user", "Say hello.")))
SHELL = ToolSpec("EXECUTE", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})


@pytest.fixture
async def models() -> AsyncIterator[RunModels]:
    made = RunModels(patience=QUICK, environ={"OPENAI_API_KEY": "sk-test-of-the-key"})
    yield made
    await made.aclose()


async def ask(
    models: RunModels,
    server: ModelServer,
    request: Request = HELLO,
    observe: Callable[[Exchange], None] | None = None,
) -> Completion:
    return await models.open(f"openai:toy@{server.url}").complete(request, timeout_s=60, observe=observe)


async def test_an_answer_with_its_usage_and_the_exchange_as_it_was(models: RunModels) -> None:
    seen: list[Exchange] = []
    with ModelServer(said("Hello."), key="sk-test-of-the-key") as server:
        answer = await ask(models, server, Request(HELLO.messages, (SHELL,), Sampling(0.0, 50)), observe=seen.append)
    assert (answer.message.content, answer.finish, answer.model) == ("Hello.", "stop", "toy-1")
    assert answer.usage == TokenUsage(100, 10, 40)
    assert (answer.cost_usd, answer.cost_source, answer.attempts) == (None, None, 1)
    sent = server.requests[0]
    assert sent["messages"][1] == {"role": "user", "content": "Say hello."}
    assert (sent["temperature"], sent["max_completion_tokens"]) == (0.0, 50)
    assert sent["tools"][0]["function"]["name"] == "EXECUTE"
    assert [exchange.status for exchange in seen] == [200]
    assert seen[0].request == sent
    assert "sk-test-of-the-key" not in repr(seen)


async def test_what_a_server_does_not_count_is_unknown(models: RunModels) -> None:
    turn = said("Hi.")
    turn.body["usage"] = {"prompt_tokens": 5, "completion_tokens": 1}
    with ModelServer(turn) as server:
        assert (await ask(models, server)).usage == TokenUsage(5, 1, None)
    del turn.body["usage"]
    with ModelServer(turn) as server:
        assert (await ask(models, server)).usage == TokenUsage()


async def test_parallel_tool_calls_and_half_a_tool_call_arrive_as_they_were_written(models: RunModels) -> None:
    calls = [("EXECUTE", {"command": "ls"}), ("EXECUTE", '{"command": "echo')]
    with ModelServer(said(None, calls=calls)) as server:
        answer = await ask(models, server)
    assert [call.arguments for call in answer.message.tool_calls] == ['{"command": "ls"}', '{"command": "echo']
    assert answer.finish == "tool_calls"


async def test_a_storm_of_429_is_waited_out_as_the_server_asks(models: RunModels) -> None:
    storm = declined(429, "slow down", headers={"Retry-After": "0.01"})
    with ModelServer(storm, storm, said("at last")) as server:
        answer = await ask(models, server)
    assert (answer.message.content, answer.attempts) == ("at last", 3)


async def test_a_storm_that_does_not_end_is_an_unavailable_model(models: RunModels) -> None:
    with ModelServer(declined(429, "slow down")) as server, pytest.raises(ModelUnavailable) as raised:
        await ask(models, server)
    assert raised.value.attempts == 3
    assert "status 429: slow down" in raised.value.message


async def test_a_wait_beyond_the_deadline_is_not_begun(models: RunModels) -> None:
    with ModelServer(declined(503, "later", headers={"Retry-After": "3600"})) as server:
        with pytest.raises(ModelUnavailable, match="after the deadline"):
            await ask(models, server)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "turn",
    [
        declined(500, "oops"),
        Turn(b"<html>Bad gateway</html>", status=502),
        Turn(b'{"choices": [{"mess'),
        Turn(b"<html>Welcome</html>"),
        Turn({"choices": []}, hangs_up=True),
        Turn({"choices": []}, stalls=True),
        Turn({"error": {"message": "upstream is busy", "code": 503}}),
    ],
    ids=["500", "502-html", "truncated-json", "200-html", "hangs-up", "stalls", "200-with-an-error"],
)
async def test_what_may_pass_is_tried_again(turn: Turn) -> None:
    models = RunModels(patience=IMPATIENT if turn.stalls else QUICK, environ={})
    with ModelServer(turn, said("fine")) as server:
        answer = await ask(models, server)
    await models.aclose()
    assert (answer.message.content, answer.attempts) == ("fine", 2)


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (declined(401, "bad key"), KeyRefused),
        (declined(403, "not yours"), KeyRefused),
        (declined(404, "no such model"), ModelRejected),
        (declined(400, "unknown parameter: seed"), ModelRejected),
        (declined(429, "pay first", code="insufficient_quota"), ModelRejected),
        (declined(400, "This model's maximum context length is 4096 tokens"), ContextOverflow),
        (declined(400, "exceeds the available context size (4096 tokens)"), ContextOverflow),
        (declined(400, "too long", code="context_length_exceeded"), ContextOverflow),
        (Turn({"choices": []}), UnusableReply),
        (Turn({"hello": "I am no model"}), UnusableReply),
        (Turn({"choices": [{"message": {"content": 5}}]}), UnusableReply),
        (Turn(b'"' + b"x" * (10 << 20) + b'"'), UnusableReply),
    ],
)
async def test_what_does_not_pass_is_asked_once_and_told(models: RunModels, turn: Turn, kind: type[Exception]) -> None:
    with ModelServer(turn) as server:
        with pytest.raises(kind):
            await ask(models, server)
        assert len(server.requests) == 1


async def test_a_refused_key_names_its_variable(models: RunModels) -> None:
    with ModelServer(said("no"), key="another") as server, pytest.raises(KeyRefused) as raised:
        await ask(models, server)
    assert raised.value.variable == "OPENAI_API_KEY"
    assert "sk-test" not in str(raised.value)


@pytest.mark.parametrize(
    "turn",
    [
        said("", refusal="I will not.", finish="stop"),
        said("", finish="content_filter"),
        declined(400, "filtered", code="content_filter"),
    ],
)
async def test_a_refusal_is_an_answer(models: RunModels, turn: Turn) -> None:
    with ModelServer(turn) as server:
        assert (await ask(models, server)).finish == "refused"


async def test_an_endpoint_that_is_down_is_named(models: RunModels) -> None:
    with ModelServer() as server:
        url = server.url
    with pytest.raises(ModelUnavailable, match=r"no connection"):
        await models.open(f"openai:toy@{url}").complete(HELLO, timeout_s=60)
    for provider in ("openai", "llamacpp"):
        with pytest.raises(ModelUnavailable, match=r"no connection"):
            await models.probe(f"{provider}:toy@{url}")


async def test_the_probe_knows_the_key_the_model_and_what_is_no_model_server(models: RunModels) -> None:
    with ModelServer(models=("toy", "llama3:8b")) as server:
        await models.probe(f"openai:toy@{server.url}")
        await models.probe(f"ollama:llama3@{server.url}")
        await models.probe(f"llamacpp:whatever@{server.url}")
        with pytest.raises(ModelRejected, match=r"no model tyo; there is: llama3:8b, toy"):
            await models.probe(f"openai:tyo@{server.url}")
        assert server.requests == []
    with ModelServer(key="another") as server, pytest.raises(KeyRefused):
        await models.probe(f"openai:toy@{server.url}")


async def test_a_web_server_is_no_model_server_and_its_pages_are_told_by_their_titles(models: RunModels) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as web:  # it answers 501 to everything, with a page
        threading.Thread(target=web.serve_forever, daemon=True).start()
        word = f"openai:toy@http://127.0.0.1:{web.server_port}/v1"
        with pytest.raises(ModelUnavailable, match=r"no model server \(status 501, a page of HTML: Error response\)"):
            await models.probe(word)
        with pytest.raises(ModelUnavailable, match=r"does not answer: status 501: a page of HTML: Error response"):
            await models.open(word).complete(HELLO, timeout_s=60)
        web.shutdown()


async def test_never_more_requests_at_once_than_allowed() -> None:
    models = RunModels(ModelLimits(requests_at_once=2), patience=QUICK, environ={})
    with ModelServer(said("yes")) as server:
        await asyncio.gather(*(ask(models, server) for _ in range(12)))
        assert len(server.requests) == 12
        assert server.most_at_once <= 2
    await models.aclose()


async def test_a_budget_stops_before_the_request_that_would_exceed_it() -> None:
    models = RunModels(ModelLimits(trial_tokens=2500), patience=QUICK, environ={})
    with ModelServer(said("yes")) as server:
        model = models.open(f"openai:toy@{server.url}")
        answers = [await model.complete(HELLO, timeout_s=60) for _ in range(14)]
        with pytest.raises(BudgetSpent, match="the trial's budget of 2500 tokens is spent"):
            await model.complete(HELLO, timeout_s=60)
        assert len(server.requests) == len(answers)
        assert model.meter.input_tokens == 1400
    await models.aclose()


def test_importing_the_room_loads_no_http() -> None:
    code = "import sys, termarena.models, termarena.agents; print('httpx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert done.stdout == "False\n"
