"""A request handed on to an endpoint that speaks the agent's own interface, and its answer as it comes."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from termarena.broker.asking import paying
from termarena.broker.contract import Refusal
from termarena.broker.replies import Streamed, Whole
from termarena.broker.sse import EventReader
from termarena.models.errors import KeyRefused, ModelUnavailable, UnusableReply
from termarena.models.http import REPLY_BYTES, TOO_MANY, parsed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import httpx

    from termarena.broker.asking import Paying
    from termarena.broker.contract import Asked, Gatherer
    from termarena.broker.seats import Seat
    from termarena.models.run_models import Line

__all__ = ["relayed"]

OK: Final = 200
RETRYING: Final = ("retry-after", "retry-after-ms", "x-should-retry")
"""Of the endpoint's headers: what clients of the providers go by when they try again."""
_KEY: Final = frozenset({401, 403})
_GONE: Final = "the run's model broke off"
_STALLED: Final = "the run's model has stalled"


async def relayed(seat: Seat, line: Line, asked: Asked) -> Whole | Streamed:
    """The endpoint's own answer. Raises `Refusal` where there is none."""
    async with AsyncExitStack() as stack:
        under_way = await stack.enter_async_context(paying(seat, asked))
        await stack.enter_async_context(line.lane.place(under_way.expected.tokens))
        answer = await _sent(line, asked, under_way)
        stack.push_async_callback(answer.aclose)
        if answer.status_code != OK:
            return await _declined(line, answer, under_way)
        if asked.wants_stream:
            return Streamed(_events(line, answer, under_way, stack.pop_all()))
        return await _whole(line, answer, under_way)
    raise AssertionError("the block returns or raises")


async def _sent(line: Line, asked: Asked, under_way: Paying) -> httpx.Response:
    import httpx  # noqa: PLC0415 - an extra, and slow to import

    body = asked.dialect.addressed(asked.body, line.name.model)
    transport = line.transport
    request = transport.client.build_request(
        "POST", _url(line, asked), headers={**asked.headers, **line.headers}, content=json.dumps(body).encode()
    )
    request.headers["content-type"] = "application/json"
    try:
        async with asyncio.timeout(transport.patience.answer_s):
            return await transport.client.send(request, stream=True)
    except (httpx.HTTPError, TimeoutError) as error:
        problem = str(error) or type(error).__name__
        raise _failed(under_way, ModelUnavailable(line.name.url, problem), "does not answer") from error


def _url(line: Line, asked: Asked) -> str:
    if asked.dialect.name == "gemini":
        verb = "streamGenerateContent?alt=sse" if asked.wants_stream else "generateContent"
        return f"{line.name.url}/models/{line.name.model}:{verb}"
    ends = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}
    return line.name.url + ends[asked.dialect.name]


def _failed(under_way: Paying, error: ModelUnavailable, what: str, document: Any = None) -> Refusal:  # noqa: ANN401 - JSON
    under_way.seat.failure = error
    refusal = Refusal(503, f"the run's model {what}", kind="server_error")
    under_way.refuse(refusal, document)
    return refusal


async def _declined(line: Line, answer: httpx.Response, under_way: Paying) -> Whole:
    """What the provider says goes to the agent, but for words about the key."""
    status = answer.status_code
    document = parsed(await _read(line, answer, under_way))
    if status in _KEY:
        error = KeyRefused(line.name.url, "see the provider's account", variable=None)
        raise _failed(under_way, error, "does not take the run's key")
    if status == TOO_MANY or status >= 500:  # noqa: PLR2004 - HTTP's border
        under_way.seat.failure = ModelUnavailable(line.name.url, f"status {status}")
    under_way.refuse(Refusal(status, f"the run's model declined with status {status}"), document)
    return Whole(document, status, {name: answer.headers[name] for name in RETRYING if name in answer.headers})


async def _whole(line: Line, answer: httpx.Response, under_way: Paying) -> Whole:
    document = parsed(await _read(line, answer, under_way))
    if not isinstance(document, dict):
        raise _failed(under_way, ModelUnavailable(line.name.url, "the answer is no JSON object"), "talks nonsense")
    _settle(under_way, document)
    return Whole(document)


def _settle(under_way: Paying, document: dict[str, Any], *, problem: str | None = None) -> None:
    """Of an answer that broke off nobody knows what it cost: it counts as expected."""
    completion = None
    if problem is None:
        try:
            completion = under_way.asked.dialect.completion(document)
        except UnusableReply as error:
            problem = error.message
    under_way.settle(document, completion, problem=problem)


async def _read(line: Line, answer: httpx.Response, under_way: Paying) -> bytes:
    content = bytearray()
    try:
        async for block in _blocks(line, answer):
            content += block
            if len(content) > REPLY_BYTES:
                break
    except _Broken as error:
        raise _failed(under_way, ModelUnavailable(line.name.url, str(error)), "broke off its answer") from error
    if len(content) > REPLY_BYTES:
        raise _failed(under_way, ModelUnavailable(line.name.url, f"more than {REPLY_BYTES} bytes"), "talks without end")
    return bytes(content)


class _Broken(Exception):
    """The endpoint broke off or has stalled."""


async def _blocks(line: Line, answer: httpx.Response) -> AsyncIterator[bytes]:
    """What comes, as it comes. Raises `_Broken`."""
    import httpx  # noqa: PLC0415 - as above

    blocks = answer.aiter_bytes()
    while True:
        try:
            async with asyncio.timeout(line.transport.patience.stall_s):
                block = await anext(blocks, None)
        except TimeoutError as error:
            raise _Broken(_STALLED) from error
        except httpx.HTTPError as error:
            raise _Broken(_GONE) from error
        if block is None:
            return
        yield block


async def _events(
    line: Line, answer: httpx.Response, under_way: Paying, held: AsyncExitStack
) -> AsyncGenerator[bytes, None]:
    """The stream as the agent sees it; one that does not come to its end is ended with an error."""
    dialect = under_way.asked.dialect
    gatherer = dialect.gatherer(under_way.asked)
    async with held:
        problem = None
        try:
            async for block in _shown(line, answer, gatherer):
                yield block
            if not gatherer.is_whole:
                problem = _GONE
        except (_Broken, UnusableReply) as error:
            problem = str(error)
        if problem is not None:
            under_way.seat.failure = ModelUnavailable(line.name.url, problem)
            yield dialect.broken_off(Refusal(503, problem, kind="server_error"))
        _settle(under_way, gatherer.document, problem=problem)


async def _shown(line: Line, answer: httpx.Response, gatherer: Gatherer) -> AsyncIterator[bytes]:
    reader = EventReader()
    async for block in _blocks(line, answer):
        shown = b"".join(event.raw for event in reader.feed(block) if gatherer.add(event))
        if shown:
            yield shown
