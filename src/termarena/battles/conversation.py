"""One conversation with an agent over A2A: its card, turns, retries, and the end of a turn that is given up."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError, AgentCardResolutionError
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, GetTaskRequest, Role, SendMessageRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToDict

from termarena.battles.addresses import LED_BY_ANSWER, AddressPolicy, TooMuchSaid, open_http
from termarena.battles.replies import Gathering
from termarena.battles.shell_v1 import Malformed, read_request
from termarena.core.errors import AddressRefused, AgentGone, AgentUnreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from a2a.client.client import Client
    from a2a.types import AgentCard, StreamResponse

    from termarena.battles.replies import Reply

__all__ = ["BROKEN", "Conversation", "Patience", "fetch_card", "origin_of", "unreachable"]

CANCEL_S: Final = 2.0
POLL_S: Final = 0.25
STREAM_END_S: Final = 0.2
OLD_CARD_PATH: Final = "/.well-known/agent.json"
# How a gateway answers for a server that is not there, or not yet.
GATEWAYS: Final = frozenset({502, 503, 504})
# What the SDK, protobuf and httpx raise for an answer that is none.
BROKEN: Final = (
    *(A2AError, JsonFormatError, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError),
    *(ValueError, KeyError, TypeError, AttributeError, RecursionError),
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long something that may come back is tried again."""

    first_contact_s: float = 30.0
    """How long an agent may take to be there at all."""
    tries: int = 4
    """Of one turn."""
    wait_s: float = 0.25
    """Before the second try; it doubles."""


@dataclass(slots=True)
class Conversation:
    """As an `async with`. Raises `AgentUnreachable`, `AddressRefused`.

    `told` gets every message as it goes over the wire: `sent` or `received`, and its content.
    """

    url: str
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    patience: Patience = field(default_factory=Patience)
    told: Callable[[str, object], None] = lambda _direction, _content: None
    headers: dict[str, str] = field(default_factory=dict)
    retries: int = 0
    """How often something was tried again."""
    is_told: bool = False
    """Whether a turn may have reached the agent; one that found no connection has not, unless an answer led there."""
    context_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    card: AgentCard | None = None
    _life: AsyncExitStack = field(default_factory=AsyncExitStack)
    _client: Client | None = None
    _waiting_task: str | None = None
    _under_way: str | None = None

    async def __aenter__(self) -> Self:
        """Fetch the card and choose how to talk; an agent that is not there yet has time to come."""
        try:
            http = await self._life.enter_async_context(open_http(self.policy, headers=self.headers))
            self.card = await self._first_contact(http)
            factory = ClientFactory(ClientConfig(httpx_client=http, streaming=True))
            self._client = factory.create(self.card)
        except BaseException as error:
            await self._life.aclose()
            if isinstance(error, BROKEN) and not isinstance(error, AddressRefused | AgentUnreachable):
                raise unreachable(self.url, f"its card cannot be used: {_words(error)}", error) from error
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the turn that is under way, on their side too, and hang up."""
        await asyncio.shield(self._give_up())
        await self._life.aclose()

    async def _first_contact(self, http: httpx.AsyncClient) -> AgentCard:
        deadline = asyncio.get_running_loop().time() + self.patience.first_contact_s
        wait_s = self.patience.wait_s
        while True:
            try:
                return await fetch_card(http, self.url)
            except (AgentCardResolutionError, httpx.HTTPError) as error:
                if asyncio.get_running_loop().time() + wait_s > deadline:
                    raise unreachable(self.url, f"its card cannot be had: {_words(error)}", error) from error
            self.retries += 1
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, 5.0)

    async def say(self, text: str) -> Reply:
        """Send a turn and wait for its answer, as long as that takes; faults on the way are tried again."""
        wait_s = self.patience.wait_s
        for left in reversed(range(self.patience.tries)):
            gathering = Gathering()
            try:
                reply = await self._turn(text, gathering)
            except AddressRefused:
                raise
            except BROKEN as error:
                trouble = unreachable(self.url, _words(error), error)
                self.is_told |= not isinstance(trouble, AgentGone) or _is_led(error)
                if not left or isinstance(error.__cause__ or error, TooMuchSaid):
                    raise trouble from error
            else:
                self.is_told = True
                if not reply.is_failure or reply.state in ("rejected", "auth_required"):
                    self._waiting_task = reply.task_id
                    return reply
                if not left:
                    return reply
            self.retries += 1
            await asyncio.sleep(wait_s)
            wait_s *= 2
        raise AssertionError("a turn has a last try")

    async def _turn(self, text: str, gathering: Gathering) -> Reply:
        assert self._client is not None  # noqa: S101 - entered
        message = new_text_message(text, context_id=self.context_id, task_id=self._waiting_task, role=Role.ROLE_USER)
        self.told("sent", MessageToDict(message))
        try:
            await self._gather(self._client.send_message(SendMessageRequest(message=message)), gathering)
        except BROKEN:
            # The agent may be at work on it all the same: ask before it is told twice.
            if gathering.task_id is None or not await self._follow(gathering):
                raise
        if gathering.task_id is None and not gathering.is_message:
            raise A2AClientError("it ended its answer before there was one")
        if not gathering.has_ended and not _holds_request(gathering.reply()):
            await self._follow(gathering)
        self._under_way = None if gathering.has_ended else gathering.task_id
        return gathering.reply()

    async def _gather(self, events: AsyncIterator[StreamResponse], gathering: Gathering) -> None:
        """Everything up to the end of the answer, and then the end of the stream, if that comes soon: a connection
        that was read to its end can be used again."""
        async for event in events:
            self.told("received", MessageToDict(event))
            gathering.add(event)
            self._under_way = None if gathering.has_ended else gathering.task_id
            if gathering.has_ended:
                break
        with contextlib.suppress(TimeoutError, *BROKEN):
            async with asyncio.timeout(STREAM_END_S):
                await anext(events, None)

    async def _follow(self, gathering: Gathering) -> bool:
        """Ask for a task until it has ended; False if it cannot be asked for."""
        assert self._client is not None  # noqa: S101 - entered
        while not gathering.has_ended:
            try:
                task = await self._client.get_task(GetTaskRequest(id=gathering.task_id))
            except BROKEN:
                return False
            gathering.add_task(task)
            if not gathering.has_ended:
                await asyncio.sleep(POLL_S)
        self.told("received", MessageToDict(task))
        return True

    async def _give_up(self) -> None:
        """Tell the agent that nobody waits for its turn any more; a short word, whatever it answers."""
        if self._under_way is None or self._client is None:
            return
        with contextlib.suppress(*BROKEN, TimeoutError, AddressRefused):
            async with asyncio.timeout(CANCEL_S):
                await self._client.cancel_task(CancelTaskRequest(id=self._under_way))


async def fetch_card(http: httpx.AsyncClient, url: str) -> AgentCard:
    """An agent's card, from either well-known place, with addresses of the origin that was asked.

    A card that names another origin (a container's own, a wildcard) is followed to the address that is known to work.
    """
    base = url.rstrip("/")
    resolver = A2ACardResolver(http, base)
    try:
        card = await resolver.get_agent_card()
    except A2AClientError as error:
        if _status_for_absent(error):  # whichever path is asked
            raise
        card = await resolver.get_agent_card(relative_card_path=OLD_CARD_PATH)
    for interface in card.supported_interfaces:
        if origin_of(interface.url) != origin_of(base):
            interface.url = base
    return card


def unreachable(url: str, problem: str, cause: BaseException, *, hint: str | None = None) -> AgentUnreachable:
    """What to raise for what was raised: `AgentGone` where there was no connection at all, or where a gateway answered
    for its card. `hint`: else a white's."""
    if status := _status_for_absent(cause):
        return AgentGone(url, f"its card is answered with status {status}, as for one that is not there", hint=hint)
    below = _no_connection(cause)
    if below is None:
        return AgentUnreachable(url, problem, hint=hint)
    return AgentGone(url, f"nobody is there: {_words(below)}", hint=hint)


def _status_for_absent(cause: BaseException) -> int | None:
    """The status of a card that a gateway answered for; None where that is not what happened."""
    status = cause.status_code if isinstance(cause, AgentCardResolutionError) else None
    return status if status in GATEWAYS else None


def _no_connection(cause: BaseException) -> httpx.RequestError | None:
    """That there was none, where that is at the bottom of it."""
    below: BaseException | None = cause
    while below is not None and not isinstance(below, httpx.ConnectError | httpx.ConnectTimeout):
        below = below.__cause__
    return below


def _is_led(cause: BaseException) -> bool:
    """Whether the agent was there, and its answer led to where nobody is."""
    below = _no_connection(cause)
    return below is not None and LED_BY_ANSWER in below.request.extensions


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address; empty for one that cannot be read."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return ("", "", None)
    usual = {"http": 80, "https": 443}.get(parsed.scheme)
    return (parsed.scheme, parsed.host, parsed.port or usual)


def _holds_request(reply: Reply) -> bool:
    """Some agents answer while they say that they are still at work."""
    return not isinstance(read_request(reply.texts, reply.tables), Malformed)


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:400] or type(error).__name__
