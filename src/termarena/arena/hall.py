"""The hall: a thread in which this server fights battles, and sees which agents are alive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy.exc import SQLAlchemyError
from starlette.routing import Router

from termarena.arena import battling
from termarena.arena.agentbeats_battle import CONTRACT, fight_by_report
from termarena.arena.contenders import Registry, look_again
from termarena.arena.sealing import Seal
from termarena.core.ending import cancel_once
from termarena.core.errors import (
    AddressRefused,
    AgentGone,
    AgentUnreachable,
    BattleRefused,
    SandboxError,
    TermArenaError,
)
from termarena.core.run_folder import RunFolder
from termarena.core.scrub import Scrubber

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp

    from termarena.arena.battle_views import BattleState
    from termarena.arena.battling import Claim
    from termarena.arena.config import ArenaConfig, BattleConfig
    from termarena.arena.database import Database
    from termarena.battles.referee import Referee

__all__ = ["Hall"]

_log: Final = logging.getLogger(__name__)
JOIN_S: Final = 60.0
TELL_INTERVAL_S: Final = 0.2
MOST_TOLD_AT_ONCE: Final = 500
LONGEST_WORDS: Final = 10_000


class McpDoor(NamedTuple):
    """Where agents come over MCP: an application, and the event loop that it lives on."""

    app: ASGIApp
    loop: asyncio.AbstractEventLoop


class Hall:
    """Fights what is queued, each battle as a run in the folder of runs. `problem` says why it does not."""

    def __init__(self, config: ArenaConfig, database: Database, *, hurry: Callable[[], None]) -> None:
        """Nothing begins before `start`; `hurry` is called when a run is there to be taken in."""
        self._config = config
        self._database = database
        self._hurry = hurry
        self.name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        """Of this server, in leases."""
        self.seal = Seal(config.runs)
        """What opens the keys of agents."""
        self.mcp: McpDoor | None = None
        """None while no battle is fought here."""
        self._fought: dict[str, _Fought] = {}
        self._fights: dict[str, asyncio.Task[Mapping[str, Any]]] = {}
        self._cancelled: dict[str, str] = {}
        """Battles that are being ended, each with who asked for it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._wake: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="arena-hall", daemon=True)
        self.problem = ""

    def start(self) -> None:
        """Begin, where battles are to be fought here."""
        if self._config.battles is not None:
            self._thread.start()

    def stop(self) -> None:
        """End every battle, with its sandboxes; they become `infra_error`."""
        loop, main = self._loop, self._main
        if loop is not None and main is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it ended meanwhile
                loop.call_soon_threadsafe(main.cancel)
            self._thread.join(JOIN_S)

    def look(self) -> None:
        """See at once whether there is something to fight."""
        if self._loop is not None and self._wake is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._wake.set)

    def folder_of(self, slug: str) -> RunFolder | None:
        """The run of a battle that is being fought here; None for any other."""
        found = self._fought.get(slug)
        return None if found is None else found.folder

    def scrubber_of(self, slug: str) -> Scrubber | None:
        """What takes the secrets of such a battle out of what is shown of it."""
        found = self._fought.get(slug)
        return None if found is None else found.scrubber

    def _run(self) -> None:
        assert self._config.battles is not None  # noqa: S101 - started
        try:
            asyncio.run(self._live(self._config.battles))
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - the thread's boundary: pages go on, and say so
            self.problem = f"no battle is fought here: {type(error).__name__}"
            _log.warning("no battle is fought here", exc_info=error)

    async def _live(self, config: BattleConfig) -> None:
        self._loop, self._main, self._wake = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
        referee = config.make_referee()
        tasks = [asyncio.create_task(work(config)) for work in (self._give_up_abandoned, self._see, self._heed)]
        tasks += [asyncio.create_task(self._fight_on(config, referee)) for _ in range(config.at_once)]
        async with referee.doors.life():
            self.mcp = McpDoor(Router(referee.doors.routes(self._config.url)), self._loop)
            try:
                await asyncio.gather(*tasks)
            finally:
                self.mcp = None
                for task in tasks:
                    cancel_once(task)
                await asyncio.wait(tasks)
                await referee.aclose()

    async def _give_up_abandoned(self, config: BattleConfig) -> None:
        """Battles that were left by their servers; a database that is gone, or full, is asked again."""
        while True:
            try:
                await asyncio.to_thread(battling.give_up_abandoned, self._database)
            except SQLAlchemyError as error:
                self.problem = "the database does not answer"
                _log.warning("battles wait for the database: %s", type(error).__name__)
            else:
                self.problem = ""
            await asyncio.sleep(config.lease_s / 4)

    async def _see(self, config: BattleConfig) -> None:
        """Who is alive; it takes long where many do not answer."""
        while True:
            with contextlib.suppress(SQLAlchemyError):  # it is asked again
                await look_again(Registry(self._database, config.policy, self.seal))
            await asyncio.sleep(config.liveness_interval_s)

    async def _heed(self, config: BattleConfig) -> None:
        """End what was cancelled, here or at another server."""
        while True:
            with contextlib.suppress(SQLAlchemyError):  # it is asked again
                if self._fights:
                    for slug, by in (
                        await asyncio.to_thread(battling.to_be_cancelled, self._database, self.name)
                    ).items():
                        self._cancel(slug, by)
            await asyncio.sleep(config.poll_interval_s)

    def _cancel(self, slug: str, by: str) -> None:
        if slug in self._fights and slug not in self._cancelled:
            self._cancelled[slug] = by
            cancel_once(self._fights[slug])

    async def _fight_on(self, config: BattleConfig, referee: Referee) -> None:
        assert self._wake is not None  # noqa: S101 - made before
        while True:
            self._wake.clear()
            claimed = None
            with contextlib.suppress(SQLAlchemyError):  # it is asked again
                claimed = await asyncio.to_thread(
                    battling.claim, self._database, self.name, lease_s=config.lease_s, has_referee=True
                )
            if claimed is not None:
                await self._fight(claimed, config, referee)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(config.poll_interval_s):
                    await self._wake.wait()

    async def _fight(self, claimed: Claim, config: BattleConfig, referee: Referee) -> None:
        teller = _Teller(self._database, claimed.slug)
        fought = asyncio.create_task(self._carry_out(claimed, config, referee, teller))
        self._fights[claimed.slug] = fought
        leasing = asyncio.create_task(self._keep(claimed, config))
        telling = asyncio.create_task(teller.go_on())
        try:
            await asyncio.wait({fought, leasing}, return_when=asyncio.FIRST_COMPLETED)
            if fought.done():
                leasing.cancel()  # renewed once more before the end is written, by whoever waits longest
                await teller.flush()
                await self._end(claimed, config, fought, teller.scrubber)
        except asyncio.CancelledError:
            cancel_once(fought)
            await asyncio.wait({fought})
            await asyncio.shield(self._end(claimed, config, fought, teller.scrubber))
            raise
        finally:
            for task in (fought, leasing, telling):
                cancel_once(task)
            await asyncio.wait({fought, leasing, telling})
            for held in (self._fought, self._fights, self._cancelled):
                held.pop(claimed.slug, None)
            self._hurry()

    async def _carry_out(
        self, claimed: Claim, config: BattleConfig, referee: Referee, teller: _Teller
    ) -> Mapping[str, Any]:
        from termarena.battles.asking import Asked, ask_for_battle  # noqa: PLC0415 - an extra
        from termarena.battles.orders import Order, with_config  # noqa: PLC0415 - as above

        keys = {role: await asyncio.to_thread(self.seal.open, key) for role, key in claimed.sealed_keys.items()}
        claimed = replace(claimed, keys=keys)
        teller.scrubber = Scrubber.from_environment(
            {**os.environ, **{f"{role.upper()}_KEY": key for role, key in keys.items()}}
        )
        if claimed.about.get("contract") == CONTRACT:
            return await fight_by_report(claimed, self._database, config, self._config.url, teller.say)
        if claimed.green_url is None:
            folder = RunFolder(self._config.runs / f"battle_{claimed.name}")
            self._fought[claimed.slug] = _Fought(folder, teller.scrubber)
            order = Order(claimed.white_url, battle_id=claimed.name, white_key=keys.get("white"))
            return await referee.fight(with_config(order, claimed.config), teller.say)
        asked = Asked(claimed.green_url, claimed.white_url, dict(claimed.config), keys.get("green"))
        return await ask_for_battle(asked, teller.say, policy=config.policy)

    async def _keep(self, claimed: Claim, config: BattleConfig) -> None:
        """Renew the lease; returns when it is lost, or could not be renewed for as long as it lasts."""
        renewed_at = time.monotonic()
        while time.monotonic() - renewed_at < config.lease_s:
            await asyncio.sleep(config.lease_s / 4)
            with contextlib.suppress(SQLAlchemyError):
                if not await asyncio.to_thread(
                    battling.renew, self._database, claimed, self.name, lease_s=config.lease_s
                ):
                    return
                renewed_at = time.monotonic()
                self._hurry()

    async def _end(
        self, claimed: Claim, config: BattleConfig, fought: asyncio.Task[Mapping[str, Any]], scrubber: Scrubber
    ) -> None:
        """Write down what it came to; a database that is gone has as long as the lease lasts."""
        state, message, result = _told(fought, self._cancelled.get(claimed.slug))
        message, result = scrubber.scrub(message), _sayable(result, scrubber)
        deadline = time.monotonic() + config.lease_s
        while True:
            try:
                await asyncio.to_thread(
                    battling.end, self._database, claimed, self.name, state, message=message, result=result
                )
            except SQLAlchemyError:
                if time.monotonic() > deadline:
                    return
                await asyncio.sleep(config.poll_interval_s)
            else:
                return


class _Fought(NamedTuple):
    """A battle that is fought here: its run, and what takes its secrets out of it."""

    folder: RunFolder
    scrubber: Scrubber


def _told(
    fought: asyncio.Task[Mapping[str, Any]], cancelled_by: str | None
) -> tuple[BattleState, str, Mapping[str, Any] | None]:
    """Which state follows from how it ended, and in which words."""
    if fought.cancelled():
        by = f"cancelled by {cancelled_by}"
        return ("cancelled", by, None) if cancelled_by else ("infra_error", "the server was stopped", None)
    error = fought.exception()
    if error is None:
        return _judged(fought.result())
    if isinstance(error, AgentGone):
        return "infra_error", error.message, None
    if isinstance(error, BattleRefused | AgentUnreachable | AddressRefused):
        return "failed", f"{error.message}{f' ({error.hint})' if error.hint else ''}", None
    if isinstance(error, TermArenaError) and not isinstance(error, SandboxError):
        return "failed", error.message, None
    _log.warning("a battle broke", exc_info=error)
    return "infra_error", f"{type(error).__name__}: {error}"[:1000], None


def _judged(result: Mapping[str, Any]) -> tuple[BattleState, str, Mapping[str, Any]]:
    """Of a battle that came to a result; one of our own that was stopped, since nobody was there any more, or in which
    nothing could be scored, has not measured what was asked for."""
    from termarena.battles.results import summary_text  # noqa: PLC0415 - an extra

    if not {"battle_id", "score", "max_score", "unscored"} <= result.keys():
        return "finished", str(result.get("message", "")), result
    if result["unscored"] and (result["unscored"] == result["max_score"] or result.get("stopped")):
        return "infra_error", f"{summary_text(result)}: {_first_fault(result)}", result
    return "finished", summary_text(result), result


def _first_fault(result: Mapping[str, Any]) -> str:
    """Whatever stands there: a referee elsewhere may use the same words for something else."""
    rows = result.get("rows")
    told = [row.get("message") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return next((str(one) for one in (result.get("stopped"), *told) if one), "nothing was tried")


def _sayable(result: Mapping[str, Any] | None, scrubber: Scrubber) -> Mapping[str, Any] | None:
    """A result without secrets: another referee's may hold the key that it was sent."""
    try:
        clean = scrubber.scrub_json(None if result is None else dict(result))
    except RecursionError:
        return {"left_out": "it was nested too deeply to be kept"}
    return clean if isinstance(clean, dict) else None


class _Teller:
    """Writes what is said into the database, some at a time, without the secrets that `scrubber` knows."""

    def __init__(self, database: Database, slug: str) -> None:
        self._database = database
        self._slug = slug
        self._waiting: list[str] = []
        self._turn = asyncio.Lock()
        self.scrubber = Scrubber()

    def say(self, text: str) -> None:
        self._waiting.append(self.scrubber.scrub(text))

    async def go_on(self) -> None:
        while True:
            await asyncio.sleep(TELL_INTERVAL_S)
            await self.flush()

    async def flush(self) -> None:
        """What the database does not take now is told the next time."""
        async with self._turn:
            some = self._waiting[:MOST_TOLD_AT_ONCE]
            if not some:
                return
            with contextlib.suppress(SQLAlchemyError, TermArenaError):
                told = [{"text": text[:LONGEST_WORDS]} for text in some]
                await asyncio.to_thread(battling.tell, self._database, self._slug, told)
                del self._waiting[: len(some)]
