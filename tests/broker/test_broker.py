"""A real broker, real clients and upstreams on loopback: who is let in, what goes on, what it costs, what is kept."""

from __future__ import annotations

import asyncio
import gc
import json
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from broker.conftest import KEY, a_desk
from broker.test_dialects import ANSWER, CONVERSATIONS, DIALECTS, _asked
from support.model_bench import IMPATIENT, QUICK
from support.model_server import ModelServer, Turn, declined, said
from termarena.broker import Broker
from termarena.models import ModelLimits
from termarena.models.errors import KeyRefused, ModelUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/any:generateContent",
}
STREAMS = {**PATHS, "gemini": "/v1beta/models/any:streamGenerateContent?alt=sse"}
DEEP = b'{"metadata": ' + b'{"a": ' * 300 + b"1" + b"}" * 301
"""More than the record could hold: it would be answered, and not be told."""
HELLO: dict[str, Any] = {"model": "x", "messages": [{"role": "user", "content": "hello"}]}
WORDS = {"chat": "openai:toy@{url}", "messages": "anthropic:toy@{url}", "gemini": "google:toy@{url}"}


def _streamed(name: str, **how: bool) -> Turn:
    stream = b"".join(DIALECTS[name].events(ANSWER, _asked(name, stream_options={"include_usage": True})))
    return Turn(stream, headers={"Content-Type": "text/event-stream"}, **how)


# Who is let in, and where.


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "x-goog-api-key", None])
async def test_the_token_of_a_trial_opens_its_own_seat(scripted: str, header: str | None) -> None:
    async with a_desk(scripted) as desk:
        token = desk.seat.token
        headers = {header: f"Bearer {token}" if header == "Authorization" else token} if header else {}
        query = {} if header else {"key": token}
        answer = await desk.client.post(PATHS["chat"], json=HELLO, headers=headers, params=query)
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "shell"


async def test_strangers_and_trials_that_are_over_get_nothing(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        assert (await desk.client.post(PATHS["chat"], json=HELLO)).status_code == 401
        assert (await desk.post(PATHS["chat"], HELLO, token=KEY)).status_code == 401
        assert (await desk.post(PATHS["chat"], HELLO)).status_code == 200
        desk.broker.leave(desk.seat)
        assert (await desk.post(PATHS["chat"], HELLO)).status_code == 401
        assert desk.broker.strangers == 3
        assert len(desk.kept) == 1


@pytest.mark.parametrize(
    "path", ["/", "/v1/files", "/v1/embeddings", "/v1/responses/resp_1", "/v1/../v1/files", "/admin"]
)
async def test_a_path_that_is_not_on_the_list_is_refused_and_told(scripted: str, path: str) -> None:
    async with a_desk(scripted) as desk:
        answer = await desk.post(path, HELLO)
        assert answer.status_code == 404
        assert [(one.status, one.problem) for one in desk.kept] == [(404, desk.seat.refused[0])]


async def test_it_listens_on_loopback_only(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        assert desk.broker.address.startswith("127.0.0.1:")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"top_p": NaN}', DEEP])
async def test_a_body_that_is_none_is_refused(scripted: str, content: bytes) -> None:
    async with a_desk(scripted) as desk:
        headers = {"x-api-key": desk.seat.token}
        answer = await desk.client.post(PATHS["messages"], content=content, headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert desk.kept[0].status == 400


# Any interface, any model.


@pytest.mark.parametrize("name", PATHS)
async def test_every_interface_speaks_with_any_model(scripted: str, name: str) -> None:
    first = {"contents": CONVERSATIONS["gemini"]["contents"][:1]} if name == "gemini" else None
    body = first or {**CONVERSATIONS[name], "messages": HELLO["messages"], "input": "hello"}
    async with a_desk(scripted) as desk:
        whole = await desk.post(PATHS[name], body)
        streamed = await desk.post(STREAMS[name], {**body, "stream": True})
        assert (whole.status_code, streamed.status_code) == (200, 200)
        assert streamed.headers["content-type"] == "text/event-stream"
        for exchange in desk.kept:
            assert exchange.completion is not None
            assert exchange.completion.message.content == "I look."
        assert desk.seat.model.meter.input_tokens == 200
        assert "I look." in whole.text
        assert "I look." in streamed.text


async def test_a_turn_behind_the_first_gets_the_next_reply(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        for name, path in PATHS.items():
            answer = await desk.post(path, CONVERSATIONS[name])
            assert "Done." in answer.text


async def test_tokens_are_counted_without_asking(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        counted = await desk.post("/v1/messages/count_tokens", CONVERSATIONS["messages"])
        assert counted.json()["input_tokens"] > 0
        counted = await desk.post("/v1/responses/input_tokens", CONVERSATIONS["responses"])
        assert counted.json()["input_tokens"] > 0
        counted = await desk.post("/v1beta/models/any:countTokens", CONVERSATIONS["gemini"])
        assert counted.json()["totalTokens"] > 0
        assert desk.seat.model.meter.answers == 0


async def test_the_runs_model_is_the_only_one_there_is(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        for path in ("/v1/models", "/v1beta/models"):
            told = (await desk.client.get(path, headers={"x-api-key": desk.seat.token})).json()
            [one] = told.get("data", told.get("models"))
            shown = await desk.client.get(f"{path}/another", headers={"x-api-key": desk.seat.token})
            assert shown.json() == one
        head = {"x-api-key": desk.seat.token, "anthropic-version": "2023-06-01"}
        told = (await desk.client.get("/v1/models", headers=head)).json()
        assert (told["data"][0]["type"], told["has_more"]) == ("model", False)
        told = (await desk.client.get("/v1/models", headers={"x-goog-api-key": desk.seat.token})).json()
        assert told["models"][0]["name"].startswith("models/")


# Handed on as it is.


async def test_a_request_goes_on_with_the_real_key_and_the_runs_model() -> None:
    with ModelServer(said("hello")) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            body = {**HELLO, "temperature": 0.5, "tools": [{"type": "web_search_preview"}]}
            answer = await desk.post(PATHS["chat"], body)
            assert answer.json()["choices"][0]["message"]["content"] == "hello"
            assert server.requests == [{"model": "toy", "messages": HELLO["messages"], "temperature": 0.5}]
            assert f"authorization: Bearer {KEY}".lower() in server.heads[0].lower()
            assert desk.seat.token not in server.heads[0]
            exchange = desk.kept[0]
            assert exchange.stripped == ("web_search_preview",)
            assert KEY not in repr(exchange)
            assert KEY not in answer.text + str(answer.headers)
            assert desk.seat.model.meter.input_tokens == 100


async def test_headers_of_the_interface_go_on_and_the_agents_other_ones_do_not() -> None:
    betas = "interleaved-thinking-2025-05-14, web-fetch-2025-09-10,mcp-client-2025-04-04"
    head = {"anthropic-version": "2023-06-01", "anthropic-beta": betas, "x-forwarded-for": "1.2.3.4", "cookie": "a=b"}
    with ModelServer(Turn(DIALECTS["messages"].document(ANSWER, _asked("messages")))) as server:
        async with a_desk(f"anthropic:toy@{server.url}") as desk:
            answer = await desk.client.post(
                PATHS["messages"],
                json={**HELLO, "max_tokens": 9, "metadata": {"user_id": "u"}},
                headers={**head, "x-api-key": desk.seat.token},
            )
            assert answer.status_code == 200
            told = server.heads[0].lower()
            assert "anthropic-version: 2023-06-01" in told
            assert "anthropic-beta: interleaved-thinking-2025-05-14\r" in told
            assert "x-forwarded-for" not in told
            assert "cookie" not in told
            assert server.requests[0]["metadata"] == {"user_id": "u"}
            assert desk.kept[0].stripped == ("web-fetch-2025-09-10", "mcp-client-2025-04-04")


@pytest.mark.parametrize(
    ("more", "stripped"),
    [
        ({"service_tier": "priority"}, ("service_tier",)),
        ({"service_tier": 1, "speed": "fast"}, ("service_tier", "speed")),
        ({"serviceTier": "priority"}, ("serviceTier",)),
        ({"service_tier": "auto"}, ()),
        ({"service_tier": None}, ()),
    ],
)
async def test_answers_at_another_price_than_the_budgets_are_not_asked_for(
    more: dict[str, Any], stripped: tuple[str, ...]
) -> None:
    with ModelServer(said("hello")) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            assert (await desk.post(PATHS["chat"], {**HELLO, **more})).status_code == 200
            assert desk.kept[0].stripped == stripped
            assert {*more} - {*server.requests[0]} == {*stripped}


@pytest.mark.parametrize(
    ("path", "asked", "wanted"),
    [
        ("chat", {}, {"max_completion_tokens": 50}),
        ("chat", {"max_tokens": 900}, {"max_tokens": 50}),
        ("chat", {"max_tokens": 7}, {"max_tokens": 7}),
        ("chat", {"max_tokens": -1, "max_completion_tokens": 9}, {"max_tokens": 50, "max_completion_tokens": 9}),
        ("messages", {"max_tokens": 4096}, {"max_completion_tokens": 50}),
    ],
)
async def test_a_reply_may_be_no_longer_than_the_run_allows(
    path: str, asked: dict[str, Any], wanted: dict[str, Any]
) -> None:
    with ModelServer(said("hello")) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            desk.seat.longest_reply = 50
            assert (await desk.post(PATHS[path], {**HELLO, **asked})).status_code == 200
            sent = {name: value for name, value in server.requests[0].items() if name.startswith("max_")}
            assert sent == wanted


@pytest.mark.parametrize("name", WORDS)
async def test_a_stream_is_handed_on_and_put_together(name: str) -> None:
    with ModelServer(_streamed(name)) as server:
        async with a_desk(WORDS[name].format(url=server.url)) as desk:
            body = {**CONVERSATIONS[name], **({} if name == "gemini" else {"stream": True})}
            answer = await desk.post(STREAMS[name], body)
            assert answer.status_code == 200
            completion = desk.kept[0].completion
            assert completion is not None
            assert completion.message.content == ANSWER.message.content
            assert completion.message.tool_calls[0].name == "shell"
            meter = desk.seat.model.meter
            assert (meter.input_tokens, meter.output_tokens, meter.cached_tokens) == (120, 30, 20)


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("how", ["stalls", "hangs_up"])
async def test_a_stream_that_stalls_or_breaks_off_ends_with_an_error(name: str, how: str) -> None:
    limits, patience = ModelLimits(trial_tokens=10**6), IMPATIENT if how == "stalls" else QUICK
    with ModelServer(_streamed(name, **{how: True})) as server:
        async with a_desk(WORDS[name].format(url=server.url), limits=limits, patience=patience) as desk:
            body = {**CONVERSATIONS[name], **({} if name == "gemini" else {"stream": True})}
            answer = await desk.post(STREAMS[name], body)
            assert '"error"' in answer.text.rpartition("data:")[2]
            assert desk.kept[0].problem in ("the run's model has stalled", "the run's model broke off")
            assert isinstance(desk.seat.failure, ModelUnavailable)
            assert desk.seat.model.meter.answers == 1
            assert desk.seat.model.budget.spent_tokens > 0


@pytest.mark.parametrize("turn", [said("x"), Turn(b"<html>", headers={"Content-Type": "text/html"})])
@pytest.mark.parametrize("how", ["stalls", "hangs_up", "is whole"])
async def test_an_answer_in_one_piece_that_is_none(turn: Turn, how: str) -> None:
    broken = Turn(turn.body, headers=turn.headers, stalls=how == "stalls", hangs_up=how == "hangs_up")
    with ModelServer(broken) as server:
        async with a_desk(f"openai:toy@{server.url}", patience=IMPATIENT if broken.stalls else QUICK) as desk:
            answer = await desk.post(PATHS["chat"], HELLO)
            is_good = how == "is whole" and not isinstance(turn.body, bytes)
            assert answer.status_code == (200 if is_good else 503)
            assert (desk.seat.failure is None) == is_good


async def test_an_endpoint_that_is_down() -> None:
    with ModelServer(said("x")) as server:
        word = f"openai:toy@{server.url}"
    async with a_desk(word) as desk:
        answer = await desk.post(PATHS["chat"], HELLO)
        assert answer.status_code == 503
        assert isinstance(desk.seat.failure, ModelUnavailable)
        assert desk.seat.model.meter.answers == 0


async def test_words_of_the_provider_about_the_key_reach_nobody() -> None:
    with ModelServer(declined(401, f"Incorrect API key provided: {KEY}")) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            answer = await desk.post(PATHS["chat"], HELLO)
            assert answer.status_code == 503
            assert KEY not in answer.text
            assert KEY not in repr(desk.kept)
            assert isinstance(desk.seat.failure, KeyRefused)


async def test_a_refusal_of_the_provider_is_the_agents_to_read() -> None:
    turns = declined(429, "slow down", headers={"Retry-After": "7", "Set-Cookie": "a"}), said("well then")
    with ModelServer(*turns) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            first = await desk.post(PATHS["chat"], HELLO)
            assert (first.status_code, first.headers["retry-after"]) == (429, "7")
            assert "set-cookie" not in first.headers
            assert "slow down" in first.text
            assert desk.seat.failure is not None
            assert (await desk.post(PATHS["chat"], HELLO)).status_code == 200
            assert desk.seat.failure is None


async def test_another_interface_than_the_endpoints_is_translated() -> None:
    with ModelServer(said("hello", calls=[("shell", {"command": "ls"})])) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            answer = (await desk.post(PATHS["messages"], CONVERSATIONS["messages"])).json()
            assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
            assert answer["stop_reason"] == "tool_use"
            roles = [message["role"] for message in server.requests[0]["messages"]]
            assert roles == ["system", "user", "assistant", "tool"]


# What it costs.


async def test_a_budget_that_is_spent_ends_the_asking(scripted: str) -> None:
    async with a_desk(scripted, limits=ModelLimits(trial_tokens=1200)) as desk:
        assert (await desk.post(PATHS["chat"], HELLO)).status_code == 200
        assert not desk.seat.spent.is_set()
        answer = await desk.post(PATHS["chat"], CONVERSATIONS["chat"])
        assert answer.status_code == 403
        assert "budget of 1200 tokens is spent" in answer.text
        assert desk.seat.spent.is_set()
        assert desk.seat.model.meter.answers == 1
        assert [one.status for one in desk.kept] == [200, 403]


async def test_requests_side_by_side_do_not_spend_the_same_budget() -> None:
    with ModelServer(said("x")) as server:
        limits = ModelLimits(trial_tokens=2500)
        async with a_desk(f"openai:toy@{server.url}", limits=limits) as desk:
            answers = await asyncio.gather(*(desk.post(PATHS["chat"], HELLO) for _ in range(8)))
            assert sorted({answer.status_code for answer in answers}) == [200, 403]
            assert desk.seat.model.budget.spent_tokens <= 2500


async def test_who_hangs_up_pays_for_what_was_asked() -> None:
    with ModelServer(_streamed("chat", stalls=True)) as server:
        limits = ModelLimits(trial_tokens=10**6)
        async with a_desk(f"openai:toy@{server.url}", limits=limits) as desk:
            headers = {"Authorization": f"Bearer {desk.seat.token}"}
            async with desk.client.stream(
                "POST", PATHS["chat"], json={**HELLO, "stream": True}, headers=headers
            ) as answer:
                assert answer.status_code == 200
            async with asyncio.timeout(60):
                while not desk.kept:  # noqa: ASYNC110 - the broker's own end of it is not told to the client
                    await asyncio.sleep(0.01)
            assert desk.seat.model.budget.spent_tokens > 0
            assert desk.seat.under_way == 0


@pytest.mark.parametrize("name", ["max_tokens", "max_output_tokens"])
async def test_an_answer_of_less_than_nothing_gives_no_budget_back(name: str) -> None:
    with ModelServer(_streamed("chat", stalls=True)) as server:
        async with a_desk(f"openai:toy@{server.url}", limits=ModelLimits(trial_tokens=10**6)) as desk:
            headers = {"Authorization": f"Bearer {desk.seat.token}"}
            body = {**HELLO, "stream": True, name: -(10**9)}
            async with desk.client.stream("POST", PATHS["chat"], json=body, headers=headers) as answer:
                assert answer.status_code == 200
            async with asyncio.timeout(60):
                while not desk.kept:  # noqa: ASYNC110 - the broker's own end of it is not told to the client
                    await asyncio.sleep(0.01)
            assert desk.seat.model.budget.spent_tokens > 0


async def test_bodies_that_do_not_come_to_their_end_take_the_places_of_requests(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        host, port = desk.broker.address.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {PATHS['chat']} HTTP/1.1\r\nHost: x\r\nx-api-key: {desk.seat.token}\r\nContent-Length: 9\r\n\r\n"
        writer.write(head.encode() + b"{")
        async with asyncio.timeout(60):
            while not desk.seat.under_way:  # noqa: ASYNC110 - nothing tells that the head was read
                await asyncio.sleep(0.01)
        writer.close()


async def test_a_conversation_that_is_stored_elsewhere_is_not_answered_without_it(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        answer = await desk.post(PATHS["responses"], {"input": "go on", "previous_response_id": "resp_1"})
        assert (answer.status_code, desk.seat.model.meter.answers) == (400, 0)


async def test_more_requests_at_once_than_any_agent_needs_are_told_to_wait() -> None:
    with ModelServer(_streamed("chat", stalls=True)) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            desk.seat.under_way = 64
            assert (await desk.post(PATHS["chat"], HELLO)).status_code == 429


@asynccontextmanager
async def _connected(address: str, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many connections that ask nothing."""
    host, port = address.split(":")
    pairs = [await asyncio.open_connection(host, int(port)) for _ in range(count)]
    try:
        yield [reader for reader, _ in pairs]
    finally:
        for _, writer in pairs:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_more_connections_than_there_are_places_are_turned_away_and_the_others_stay(
    scripted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.conftest.Broker", lambda models: Broker(models, connections=20))
    async with a_desk(scripted) as desk, asyncio.timeout(60):
        assert (await desk.post(PATHS["chat"], HELLO)).status_code == 200  # its connection stays open
        async with _connected(desk.broker.address, 40) as idle:
            turned_away = [await reader.read() for reader in idle[19:]]
            assert [answer[:13] for answer in turned_away] == [b"HTTP/1.1 503 "] * 21
            assert (await desk.post(PATHS["chat"], HELLO)).status_code == 200
        async with httpx.AsyncClient(base_url=f"http://{desk.broker.address}") as late:
            head = {"Authorization": f"Bearer {desk.seat.token}"}
            while (await late.get("/v1/models", headers=head)).status_code == 503:  # noqa: ASYNC110 - until they are gone
                await asyncio.sleep(0.01)


async def test_a_connection_that_asks_nothing_is_closed(scripted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.broker.server.HEAD_S", 0.05)
    async with a_desk(scripted) as desk, asyncio.timeout(60), _connected(desk.broker.address, 1) as [reader]:
        assert await reader.read() == b""


async def test_half_a_request_on_a_connection_that_was_used_before_has_a_limit(
    scripted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_desk(scripted) as desk, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*desk.broker.address.split(":"))
        head = f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {desk.seat.token}\r\n".encode()
        for _ in range(2):  # a second one is served as well
            writer.write(head + b"\r\n")
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            length = next(
                int(line[15:]) for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length")
            )
            assert desk.broker.strangers == 0
            await reader.readexactly(length)
        monkeypatch.setattr("termarena.broker.server.HEAD_S", 0.05)
        writer.write(head)
        assert await reader.read() == b""
        writer.close()


async def test_a_connection_that_was_closed_is_not_remembered(scripted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.broker.server.HEAD_S", 600)
    async with a_desk(scripted) as desk, asyncio.timeout(60):
        before = _doors()
        async with _connected(desk.broker.address, 30):
            assert (await desk.post(PATHS["chat"], HELLO)).status_code == 200  # all of them were taken before it
            assert _doors() == before + 31
        while _doors() > before + 1:  # noqa: ASYNC110 - until it has seen that they are closed
            await asyncio.sleep(0.01)


def _doors() -> int:
    gc.collect()
    return sum(type(one).__name__ == "Door" for one in gc.get_objects())


async def test_two_seats_have_accounts_of_their_own(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        other = desk.broker.seat(scripted, lambda _: None)
        assert (await desk.post(PATHS["chat"], HELLO, token=other.token)).status_code == 200
        assert (desk.seat.model.meter.answers, other.model.meter.answers) == (0, 1)


async def test_a_seat_that_is_closed_asks_nothing_and_keeps_nothing(scripted: str) -> None:
    async with a_desk(scripted) as desk:
        desk.seat.close()
        assert (await desk.post(PATHS["chat"], HELLO)).status_code == 401
        assert (desk.kept, desk.seat.model.meter.answers) == ([], 0)


async def test_the_end_of_a_broker_ends_what_is_under_way() -> None:
    with ModelServer(_streamed("chat", stalls=True)) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            asking = asyncio.create_task(desk.post(PATHS["chat"], {**HELLO, "stream": True}))
            async with asyncio.timeout(60):
                while not server.requests:  # noqa: ASYNC110 - it is counted in another thread
                    await asyncio.sleep(0.01)
            await desk.broker.aclose()
            assert desk.seat.under_way == 0
            done = await asyncio.gather(asking, return_exceptions=True)
            assert isinstance(done[0], httpx.HTTPError)


def test_a_token_looks_like_a_key_and_is_scrubbed_as_one() -> None:
    from termarena.broker.seats import Seats  # noqa: PLC0415 - one test's
    from termarena.core.scrub import Scrubber  # noqa: PLC0415 - as above

    token = Seats.new_token()
    assert token not in Scrubber({}).scrub(json.dumps({"key": token}))
