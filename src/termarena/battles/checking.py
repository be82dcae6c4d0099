"""A preflight for whoever writes a white agent: what a referee will meet, tried one thing after the other.

No sandbox is behind it: the agent is told what a shell would have said.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, Role, SendMessageRequest

from termarena.battles.addresses import AddressPolicy, open_http
from termarena.battles.conversation import BROKEN, Conversation, Patience, fetch_card
from termarena.battles.replies import Gathering
from termarena.battles.shell_v1 import ACTIONS, PROTOCOL, Exec, Malformed, Submit, error_message, read_request
from termarena.core.errors import AgentError, TermArenaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.battles.shell_v1 import Request
    from termarena.core.records import Json

__all__ = ["Found", "check_white"]

INSTRUCTION: Final = "Write the digit 1 and a newline to the file /app/one.txt."
TURNS: Final = 12
AT_ONCE: Final = 4
_SHELL: Final[dict[str, Json]] = {"stderr": "", "truncated": False, "time_left_sec": 50.0}


@dataclass(frozen=True, slots=True)
class Found:
    """What one check came to. `noted` is no fault, and good to know."""

    name: str
    state: Literal["passed", "failed", "noted"]
    message: str


@dataclass(frozen=True, slots=True)
class _White:
    url: str
    policy: AddressPolicy
    headers: dict[str, str]
    patience_s: float

    def talk(self) -> Conversation:
        """A new context; nothing is tried again, so that nothing is hidden."""
        patience = Patience(first_contact_s=min(self.patience_s, 10.0), tries=1)
        return Conversation(self.url, self.policy, patience, headers=self.headers)


class _Failed(Exception):
    """Why a check does not pass."""


async def check_white(
    url: str, *, policy: AddressPolicy | None = None, key: str | None = None, patience_s: float = 60.0
) -> tuple[Found, ...]:
    """Every check, in order; after a card that cannot be used nothing else is tried.

    Raises `AddressRefused`. Each check has `patience_s`.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    white = _White(url, policy or AddressPolicy(), headers, patience_s)
    found = [await _tried("card", _card, white)]
    if found[0].state == "failed":
        return tuple(found)
    for name, check in _CHECKS.items():
        found.append(await _tried(name, check, white))
    return tuple(found)


async def _tried(name: str, check: Callable[[_White], Awaitable[Found]], white: _White) -> Found:
    try:
        async with asyncio.timeout(white.patience_s):
            return await check(white)
    except _Failed as error:
        return Found(name, "failed", str(error))
    except TimeoutError:
        return Found(name, "failed", f"no answer within {white.patience_s:g} s")
    except AgentError as error:
        return Found(name, "failed", error.message)
    except BROKEN as error:
        if isinstance(error, TermArenaError):
            raise
        return Found(name, "failed", f"{type(error).__name__}: {error}"[:300])


async def _card(white: _White) -> Found:
    async with white.talk() as talk:
        card = talk.card
    assert card is not None  # noqa: S101 - fetched
    missing = [name for name in ("name", "description", "version") if not getattr(card, name)]
    missing += [] if card.skills else ["skills"]
    if missing:
        raise _Failed(f"the card lacks {', '.join(missing)}")
    return Found("card", "passed", f"{card.name} {card.version}")


async def _versions(white: _White) -> Found:
    async with white.talk() as talk:
        card = talk.card
    assert card is not None  # noqa: S101 - fetched
    spoken = sorted({one.protocol_version or "0.3" for one in card.supported_interfaces})
    streams = "streams" if card.capabilities.streaming else "does not stream: a long turn has no sign of life"
    state: Literal["passed", "noted"] = "passed" if card.capabilities.streaming else "noted"
    return Found("versions", state, f"A2A {' and '.join(spoken)}; it {streams}")


async def _greeting(white: _White) -> Found:
    async with white.talk() as talk:
        reply = await talk.say("Hello")
    if reply.is_failure:
        return Found("greeting", "noted", f"it answers a plain message with {reply.state}")
    return Found("greeting", "passed", "a plain message has an answer")


async def _dry_run(white: _White) -> Found:
    async with white.talk() as talk:
        began = time.monotonic()
        request = await _asked(talk, _task())
        first_s = time.monotonic() - began
        for turn in range(1, TURNS + 1):
            if isinstance(request, Submit):
                return Found("dry run", "passed", f"done after {turn - 1} requests; the first came in {first_s:.1f} s")
            request = await _asked(talk, _answer_to(request, turn))
    return Found("dry run", "noted", f"still at work after {TURNS} requests; the first came in {first_s:.1f} s")


async def _timeout(white: _White) -> Found:
    async with white.talk() as talk:
        request = await _asked(talk, _task())
        if isinstance(request, Submit):
            return Found("timeout", "noted", "it ran no command")
        late = {"kind": "exec_result", "exit_code": 124, "stdout": "partial", "timed_out": True, "turn": 1, **_SHELL}
        await _asked(talk, late)
    return Found("timeout", "passed", "a command that was stopped (124) does not confuse it")


async def _hint(white: _White) -> Found:
    async with white.talk() as talk:
        await _asked(talk, _task())
        hint = {**error_message(Malformed("not_json", "the reply holds no JSON object")), "turn": 1}
        await _asked(talk, hint)
    return Found("hint", "passed", "told that its reply could not be read, it asks for something that can")


async def _cancel(white: _White) -> Found:
    gathering = Gathering()
    async with open_http(white.policy, headers=white.headers) as http:
        client = ClientFactory(ClientConfig(httpx_client=http)).create(await fetch_card(http, white.url))
        message = new_text_message(json.dumps(_task()), role=Role.ROLE_USER)
        async for event in client.send_message(SendMessageRequest(message=message)):
            gathering.add(event)
            if gathering.task_id is not None or gathering.is_message:
                break
        if gathering.is_message or gathering.has_ended or gathering.task_id is None:
            return Found("cancel", "noted", "it answered at once: there was nothing to cancel")
        try:
            await client.cancel_task(CancelTaskRequest(id=gathering.task_id))
        except BROKEN as error:
            return Found("cancel", "noted", f"a turn cannot be cancelled: {error}"[:300])
    return Found("cancel", "passed", "a turn that nobody waits for any more can be cancelled")


async def _at_once(white: _White) -> Found:
    async def one() -> None:
        async with white.talk() as talk:
            request = await _asked(talk, _task())
            if not isinstance(request, Submit):
                await _asked(talk, _answer_to(request, 1))

    ends = await asyncio.gather(*(one() for _ in range(AT_ONCE)), return_exceptions=True)
    broken = [end for end in ends if isinstance(end, BaseException)]
    if broken:
        said = f"{len(broken)} of {AT_ONCE} conversations at once failed: {broken[0]}"
        return Found("at once", "noted", f"{said}; leave --max-parallel at 1"[:400])
    return Found("at once", "passed", f"{AT_ONCE} conversations at once")


_CHECKS: Final[dict[str, Callable[[_White], Awaitable[Found]]]] = {
    "versions": _versions,
    "greeting": _greeting,
    "dry run": _dry_run,
    "timeout": _timeout,
    "hint": _hint,
    "cancel": _cancel,
    "at once": _at_once,
}


async def _asked(talk: Conversation, told: dict[str, Json]) -> Request:
    """What the agent asks for next. Raises `_Failed` for a reply that is no request."""
    reply = await talk.say(json.dumps(told))
    request = read_request(reply.texts, reply.tables)
    if isinstance(request, Malformed):
        said = " ".join(" ".join(reply.texts).split())[:200]
        raise _Failed(f"{request.problem} (its task is {reply.state}; it said: {said or 'nothing'})")
    return request


def _task() -> dict[str, Json]:
    return {
        "kind": "task",
        "protocol": PROTOCOL,
        "instruction": INSTRUCTION,
        "task_id": "preflight",
        "cwd": "/app",
        "deadline_sec": 60.0,
        "max_turns": TURNS,
        "actions": list(ACTIONS),
    }


def _answer_to(request: Request, turn: int) -> dict[str, Json]:
    """What an obliging sandbox would say."""
    if isinstance(request, Exec):
        return {"kind": "exec_result", "exit_code": 0, "stdout": "", "timed_out": False, "turn": turn, **_SHELL}
    return {"kind": "error", "code": "file_error", "message": "no such file", "turn": turn}
