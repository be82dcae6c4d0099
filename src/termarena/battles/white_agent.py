"""`--agent a2a:URL`: an agent of somebody else, behind an A2A address, in an ordinary trial."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from termarena import __version__
from termarena.agents.contract import AgentReport, Usage
from termarena.battles.addresses import AddressPolicy
from termarena.battles.conversation import Conversation, Patience, origin_of
from termarena.battles.session import Session, SessionLimits
from termarena.battles.shell_v1 import Malformed, Submit, error_message, objects_in, read_request, usage_in
from termarena.core.errors import AgentAbsent, AgentGone, AgentUnreachable, UsageError
from termarena.core.trajectory import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from termarena.agents.contract import Brief, OwnEnd, Workspace
    from termarena.agents.registry import AgentFactory, AgentRequest
    from termarena.battles.replies import Reply
    from termarena.battles.session import Tally
    from termarena.core.records import Json

__all__ = ["WhiteAgent", "WhiteOptions", "make", "probe"]

KEY_VARIABLE: Final = "TERMARENA_WHITE_KEY"
NETWORKS_VARIABLE: Final = "TERMARENA_ALLOW_NETWORKS"
PROBE_S: Final = 30.0
"""For the card of an agent before a run: one that wakes up on demand takes its time."""
MOST_IN_A_ROW: Final = 3
"""Replies that cannot be read, before the work is taken as it stands."""


@dataclass(frozen=True, slots=True)
class WhiteOptions:
    """How an agent behind an address is talked to."""

    policy: AddressPolicy = field(default_factory=AddressPolicy)
    patience: Patience = field(default_factory=Patience)
    limits: SessionLimits = field(default_factory=SessionLimits)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request: a bearer token, mostly."""
    open_door: Callable[[Session], AbstractContextManager[Mapping[str, Json]]] | None = None
    """Another door to the session while it lasts; what it gives is told in the task message."""
    ended: Callable[[Brief, Tally], None] | None = None
    """Told at the end, whichever way it came."""


def make(request: AgentRequest) -> AgentFactory:
    """Raises `UsageError` for what is no address, `AddressRefused` for networks that are none.

    TERMARENA_WHITE_KEY is the agent's key, where it asks for one; TERMARENA_ALLOW_NETWORKS names private networks.
    """
    url = request.argument
    options = _options_of(url)
    return lambda: WhiteAgent(url, options)


async def probe(url: str) -> None:
    """Ask an agent for its card, once. Raises `AgentUnreachable`, `AddressRefused`, and what `make` raises."""
    options = _options_of(url)
    once = Patience(first_contact_s=0.0)
    try:
        async with (
            asyncio.timeout(PROBE_S),
            Conversation(url, options.policy, once, headers=dict(options.headers)),
        ):
            pass
    except TimeoutError as error:
        raise AgentUnreachable(url, f"its card did not come within {PROBE_S:g} s") from error


def _options_of(url: str) -> WhiteOptions:
    if not origin_of(url)[1] or not url.startswith(("http://", "https://")):
        raise UsageError(f"'a2a:{url}' names no address", hint="write --agent a2a:http://127.0.0.1:9019")
    networks = [word for word in os.environ.get(NETWORKS_VARIABLE, "").split(",") if word]
    key = os.environ.get(KEY_VARIABLE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return WhiteOptions(policy=AddressPolicy.of(networks), headers=headers)


class WhiteAgent:
    """See `Agent` and `Metered`. Each `solve` is a conversation of its own: a new context, a new session."""

    version = __version__

    def __init__(self, url: str, options: WhiteOptions | None = None) -> None:
        """`url` is where its card is found."""
        self.name = f"a2a:{url}"
        self._url = url
        self._options = options or WhiteOptions()
        self.usage = Usage()
        self._was_there = False

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Raises `AgentUnreachable`, `AgentAbsent` where nobody was there from the first, `AddressRefused`, and what
        says that the sandbox is gone."""

        def told(direction: str, content: object) -> None:
            workspace.message(cast('Literal["sent", "received"]', direction), content)

        options = self._options
        # One that is not there is to be told apart from one that is slow: before the time is up.
        first_contact_s = min(options.patience.first_contact_s, brief.timeout_s / 2)
        patience = replace(options.patience, first_contact_s=first_contact_s)
        async with Session(workspace, brief, options.limits) as session:
            try:
                async with contextlib.AsyncExitStack() as life:
                    talk = Conversation(self._url, options.policy, patience, told, dict(options.headers))
                    white = await self._met(life, talk)
                    return await self._converse(white, session, workspace)
            finally:
                if options.ended is not None:
                    options.ended(brief, session.tally)

    async def _met(self, life: contextlib.AsyncExitStack, talk: Conversation) -> Conversation:
        """The conversation, begun. Before the first nothing is told of the task: who goes later may have reasons."""
        try:
            begun = await life.enter_async_context(talk)
        except AgentGone as error:
            if self._was_there:
                raise
            raise AgentAbsent(error.address, error.problem, hint=error.hint) from error
        self._was_there = True
        return begun

    async def _converse(self, white: Conversation, session: Session, workspace: Workspace) -> AgentReport:
        if self._options.open_door is None:
            return await self._turns(white, session, workspace, session.task_message())
        with self._options.open_door(session) as offered:
            return await self._turns(white, session, workspace, {**session.task_message(), **offered})

    async def _turns(
        self, white: Conversation, session: Session, workspace: Workspace, beginning: Mapping[str, Json]
    ) -> AgentReport:
        told: Mapping[str, Json] = beginning
        in_a_row = 0
        while not session.is_exhausted:
            reply = await self._answer(white, session, told)
            if reply is None:
                return self._report("submitted", session.submitted.result())
            request = read_request(reply.texts, reply.tables)
            self._note(reply, workspace)
            if reply.is_failure and isinstance(request, Malformed):
                raise AgentUnreachable(self._url, f"its task is {reply.state}: {_shown(reply)}")
            if isinstance(request, Submit):
                return self._report(request.end, request.output)
            if isinstance(request, Malformed):
                in_a_row += 1
                session.tally.parse_errors += 1
                session.tally.turns += 1
                if in_a_row >= MOST_IN_A_ROW or (in_a_row > 1 and request.code == "not_json"):
                    return self._report("parse_error", f"{request.problem}; it said: {request.text[:500]}")
                told = error_message(request)
                continue
            in_a_row = 0
            told = await session.do(request)
        return self._report("resource_limit", f"all {session.limits.max_turns} turns are used")

    async def _answer(self, white: Conversation, session: Session, told: Mapping[str, Json]) -> Reply | None:
        """The next reply, or None where the agent handed in through another door meanwhile."""
        asked = asyncio.ensure_future(white.say(json.dumps(told, ensure_ascii=False)))
        try:
            either: set[asyncio.Future[Any]] = {asked, session.submitted}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return None if session.submitted.done() else asked.result()
        finally:
            session.tally.transport_retries = white.retries
            if not asked.done():
                asked.cancel()
                await asyncio.wait({asked})
            if not asked.cancelled():
                asked.exception()  # seen: whoever ended this turn knows why

    def _note(self, reply: Reply, workspace: Workspace) -> None:
        tables = (*reply.tables, *(one for text in reply.texts for one in objects_in(text)))
        self.usage = usage_in(tables) or self.usage
        thought = next((str(one["thought"]) for one in tables if one.get("thought")), "")
        if thought:
            workspace.note(Step(message=thought[:20_000]))

    def _report(self, end: OwnEnd, message: str) -> AgentReport:
        return AgentReport(end=end, message=message[:20_000], usage=self.usage)


def _shown(reply: Reply) -> str:
    return " ".join(" ".join(reply.texts).split())[:300] or "it gave no reason"
