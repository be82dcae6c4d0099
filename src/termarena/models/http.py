"""Models behind an HTTP interface: one request, its answer or a typed error, and patience with the ones that pass."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from termarena.core.errors import MissingExtra
from termarena.models.contract import Completion, Exchange, Message
from termarena.models.errors import ContextOverflow, KeyRefused, ModelRejected, ModelUnavailable, UnusableReply
from termarena.models.wire import Problem, is_overflow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import httpx

    from termarena.core.records import Json
    from termarena.models.contract import Request
    from termarena.models.lanes import Lane
    from termarena.models.names import Key, ModelName
    from termarena.models.wire import Wire

__all__ = [
    "OK",
    "Answer",
    "HttpModel",
    "Patience",
    "Transport",
    "TryAgain",
    "estimate_tokens",
    "persist",
    "require_httpx",
    "retry_after_s",
]

REPLY_BYTES: Final = 8 << 20
"""Of one answer; more than any model writes."""
CHARACTERS_PER_TOKEN: Final = 3
"""On the safe side: English has about four."""
OK: Final = 200
TOO_MANY: Final = 429
_PASSING: Final = frozenset({408, 409, 425, TOO_MANY})
_KEY: Final = frozenset({401, 403})
_PAGE: Final = re.compile(r"\s*<(?:!doctype html|html)\b", re.IGNORECASE)
_TITLE: Final = re.compile(r"<title>([^<]{1,120})</title>", re.IGNORECASE)
_OUT_OF_CREDIT: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an endpoint is waited for."""

    attempts: int = 6
    first_wait_s: float = 1.0
    """Before the second attempt; doubled for each further one, and a random part of it is waited."""
    longest_wait_s: float = 60.0
    connect_s: float = 10.0
    answer_s: float = 600.0
    """Until an answer begins: a model that thinks may need minutes."""
    stall_s: float = 60.0
    """Between two parts of one that has begun."""


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: Json
    """Parsed where it is JSON, else its beginning as text."""


class TryAgain(Exception):
    """Not an error yet: a turn of the loop."""

    def __init__(self, problem: str, *, after_s: float | None = None) -> None:
        """`after_s` is how long the provider asks to be left alone."""
        super().__init__(problem)
        self.after_s = after_s


async def persist(
    ask: Callable[[], Awaitable[Completion]], *, patience: Patience, timeout_s: float, where: str
) -> Completion:
    """Ask until an answer comes, with growing random waits, within the time; `where` is the endpoint, for people.

    Raises `ModelUnavailable` when that is in vain, and whatever `ask` raises but `TryAgain`.
    """
    began = time.monotonic()
    for attempt in range(1, patience.attempts + 1):
        try:
            completion = await ask()
        except TryAgain as again:
            wait_s = _wait_s(patience, attempt, again.after_s)
            is_late = time.monotonic() + wait_s > began + timeout_s
            if attempt == patience.attempts or is_late:
                problem = f"{again}, and the next try would be after the deadline" if is_late else str(again)
                raise ModelUnavailable(where, problem, attempts=attempt, hint=_DOWN) from again
            await asyncio.sleep(wait_s)
        else:
            return replace(completion, attempts=attempt, duration_s=time.monotonic() - began)
    raise AssertionError("the last attempt returns or raises")


def _wait_s(patience: Patience, attempt: int, after_s: float | None) -> float:
    longest = min(patience.first_wait_s * 2 ** (attempt - 1), patience.longest_wait_s)
    jitter = random.uniform(0, longest)  # noqa: S311 - to spread requests, not to hide anything
    return jitter if after_s is None else after_s + jitter / 4


def require_httpx() -> None:
    """Raises `MissingExtra`."""
    try:
        import_module("httpx")
    except ImportError as error:
        raise MissingExtra("httpx", extra="models", purpose="a model behind HTTP") from error


def estimate_tokens(request: Request) -> int:
    """About how many tokens a request has."""
    return sum(len(message.content) + 16 for message in request.messages) // CHARACTERS_PER_TOKEN + 1


@dataclass(frozen=True, slots=True)
class Transport:
    """Connections to endpoints, shared by the models of a run."""

    client: httpx.AsyncClient
    patience: Patience

    @classmethod
    def open(cls, patience: Patience) -> Transport:
        """Raises `MissingExtra`."""
        require_httpx()
        import httpx  # noqa: PLC0415 - an extra, and slow to import

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        timeout = httpx.Timeout(patience.answer_s, connect=patience.connect_s, pool=None)
        return cls(httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False), patience)

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: Json = None) -> Answer:
        """What came back. Raises `TryAgain`, and `UnusableReply` for an answer without end."""
        import httpx  # noqa: PLC0415 - as above

        try:
            request = self.client.build_request(method, url, headers=dict(headers), json=body)
            async with asyncio.timeout(self.patience.answer_s):
                answer = await self.client.send(request, stream=True)
            try:
                return Answer(answer.status_code, answer.headers, parsed(await self._read(answer)))
            finally:
                await answer.aclose()
        except httpx.ConnectError as error:
            raise TryAgain(f"no connection ({error})") from error
        except (httpx.TimeoutException, TimeoutError) as error:
            raise TryAgain(f"no answer in time ({type(error).__name__})") from error
        except httpx.HTTPError as error:
            raise TryAgain(f"the connection broke ({str(error) or type(error).__name__})") from error

    async def _read(self, answer: httpx.Response) -> bytes:
        parts: list[bytes] = []
        size = 0
        blocks = answer.aiter_bytes()
        while True:
            async with asyncio.timeout(self.patience.stall_s):
                block = await anext(blocks, None)
            if block is None:
                return b"".join(parts)
            size += len(block)
            if size > REPLY_BYTES:
                raise UnusableReply(f"the answer is larger than {REPLY_BYTES} bytes")
            parts.append(block)


class HttpModel:
    """See `Model`; without budget and prices."""

    def __init__(self, name: ModelName, wire: Wire, transport: Transport, *, key: Key, lane: Lane) -> None:
        """`lane` is shared with whoever uses the same endpoint and key."""
        self.name = name.word
        self.context_tokens: int | None = None
        self._model = name.model
        self._may_be_any = name.provider.serves_any_name
        self._url = name.url
        self._wire = wire
        self._transport = transport
        self._key = key
        self._lane = lane

    @property
    def headers(self) -> dict[str, str]:
        """What goes with every request; the key is in it."""
        return self._wire.headers(self._key.value)

    @property
    def lane(self) -> Lane:
        """Shared with whoever uses the same endpoint and key."""
        return self._lane

    async def complete(
        self, request: Request, *, timeout_s: float, observe: Callable[[Exchange], None] | None = None
    ) -> Completion:
        """See the contract."""
        return await persist(
            lambda: self._ask(request, observe or _nobody),
            patience=self._transport.patience,
            timeout_s=timeout_s,
            where=self._url,
        )

    async def _ask(self, request: Request, observe: Callable[[Exchange], None]) -> Completion:
        """One attempt. Raises `TryAgain` for what may pass."""
        body = self._wire.body(self._model, request)
        url = self._url + self._wire.path(self._model)
        estimate = estimate_tokens(request)
        async with self._lane.place(estimate):
            began = time.monotonic()
            status: int | None = None
            response: Json = None
            try:
                headers = self._wire.headers(self._key.value)
                answer = await self._transport.send("POST", url, headers=headers, body=body)
                status, response = answer.status, answer.content
            except (TryAgain, UnusableReply) as error:
                response = f"[{error}]"
                raise
            finally:
                observe(Exchange(url, body, status, response, time.monotonic() - began))
        completion = self._understood(answer)
        used = completion.usage
        total = None if used.input_tokens is None else used.input_tokens + (used.output_tokens or 0)
        self._lane.settle(estimated=estimate, used=total)
        return completion

    def _understood(self, answer: Answer) -> Completion:
        status, headers, response = answer
        problem = self._wire.problem(response)
        if status == OK and problem is None:
            if not isinstance(response, dict):
                raise TryAgain(f"the answer is no JSON object: {str(response)[:120]!r}")
            return self._wire.completion(response)
        told = problem or Problem(message=_in_words(response))
        if status == OK and isinstance(told.code, int):  # a gateway that hands on what it got
            status = told.code
        return self._declined(status, headers, told)

    def _declined(self, status: int, headers: Mapping[str, str], problem: Problem) -> Completion:
        """What the refusal means; returns only where it was the model's provider that refused to speak."""
        if problem.code == "content_filter":
            return Completion(Message("assistant", problem.text), "refused")
        if status in _KEY or problem.code in _KEY:
            raise KeyRefused(self._url, problem.text, variable=self._key.variable)
        if problem.code in _OUT_OF_CREDIT or problem.type in _OUT_OF_CREDIT:
            raise ModelRejected(self._url, problem.text, status=status)
        if status in _PASSING or status >= 500 or status == OK:  # noqa: PLR2004 - HTTP's border
            self._pass(status, headers, problem)
        if is_overflow(problem):
            raise ContextOverflow(problem.text)
        raise ModelRejected(self._url, problem.text, status=status)

    def _pass(self, status: int, headers: Mapping[str, str], problem: Problem) -> NoReturn:
        after_s = retry_after_s(headers.get("retry-after"))
        if status == TOO_MANY and after_s is not None:
            self._lane.close_for(after_s)
        raise TryAgain(f"status {status}: {problem.text}", after_s=after_s)

    async def probe(self) -> None:
        """Look whether a model server is there, takes the key and has the model; costs nothing.

        Raises `ModelUnavailable`, `KeyRefused`, `ModelRejected`.
        """
        url = self._url + self._wire.listing()
        try:
            answer = await self._transport.send("GET", url, headers=self._wire.headers(self._key.value))
        except (TryAgain, UnusableReply) as error:
            raise ModelUnavailable(self._url, str(error), hint=_DOWN) from error
        status, response = answer.status, answer.content
        problem = self._wire.problem(response)
        if status in _KEY or (problem is not None and problem.code in _KEY):
            raise KeyRefused(self._url, problem.text if problem else str(status), variable=self._key.variable)
        names = self._wire.listed(response) if status == OK else None
        if names is None and (status == OK or _is_page(response)):  # others have no list, and say so in JSON or a line
            told = "" if status == OK else f" (status {status}, {_in_words(response)})"
            raise ModelUnavailable(self._url, f"what answers there is no model server{told}", hint=_DOWN)
        if names and not self._may_be_any and not any(self._model in (name, name.partition(":")[0]) for name in names):
            known = ", ".join(sorted(names)[:20])
            raise ModelRejected(self._url, f"it has no model {self._model}; there is: {known}", status=404)


_DOWN: Final = "look whether the server runs and the address is right; the trial can be tried again"


def _nobody(_: Exchange) -> None:
    return None


def _is_page(content: Json) -> bool:
    return isinstance(content, str) and _PAGE.match(content) is not None


def _in_words(content: Json) -> str:
    """An answer that is none of the interface's, for people: of a page its title only."""
    if not _is_page(content):
        return str(content)[:400]
    title = _TITLE.search(str(content))
    return f"a page of HTML{f': {title[1].strip()}' if title else ''}"


def parsed(content: bytes) -> Json:
    """An answer's body: JSON where it is, else text."""
    try:
        value: Json = json.loads(content)
    except (ValueError, RecursionError):
        return content[:4000].decode("utf-8", "replace")
    return value


def retry_after_s(value: str | None) -> float | None:
    """Of the header: seconds, or a date."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
