"""One container of ours, as the harness follows its life."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, ImageError, SandboxBroken
from termarena.sandbox.contract import Usage
from termarena.sandbox.docker.census import Everyone, InnerCensus, LocalCensus
from termarena.sandbox.docker.execs import Commands
from termarena.sandbox.docker.files import Files
from termarena.sandbox.docker.local import Seen, find_local
from termarena.sandbox.docker.near import NearFiles
from termarena.sandbox.docker.overlay import find_overlay
from termarena.sandbox.docker.pauses import Pauses
from termarena.sandbox.docker.scripts import KEEPER

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from termarena.sandbox.docker.census import Census, Group
    from termarena.sandbox.docker.hub import Hub
    from termarena.sandbox.docker.local import Local, Sighting
    from termarena.sandbox.docker.overlay import Overlay
    from termarena.sandbox.docker.snapshots import LayerSnapshot, SavedSnapshot

__all__ = ["Container", "from_top"]

STOP_TIMEOUT_S: Final = 30.0
GONE: Final = (404, 409)
AT_ONCE_API: Final = "/v1.41"
"""Docker 20.10: the first that tells a container's use without measuring over a second."""
REFUSED: Final = 400
SETTLE_S: Final = 2.0
LOOK_AGAIN_S: Final = 0.02
LOOKS: Final = 4
PAUSE_TRIES: Final = 8
"""With cgroups of version 1 a container that forks without end can outrun an engine's attempt to freeze it."""
ROOM: Final = 16
"""Processes beyond the limit that a shell of ours may need when the container is full."""


class Container:
    """It has been created; `attend` begins to follow it."""

    def __init__(self, hub: Hub, container_id: str, name: str, *, allow_local: bool, has_layers: bool = False) -> None:
        """`name` is the sandbox's; without `allow_local` everything goes through the engine, as to a far machine.

        `has_layers`: the engine's change layers can be read from here.
        """
        self.id = container_id
        self.name = name
        self.hub = hub
        self.engine = hub.engine
        self.local: Local | None = None
        self.overlay: Overlay | None = None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.exits: dict[str, asyncio.Future[int]] = {}
        self.oom_kills = 0
        self.oom_word = asyncio.Event()
        self.health_word = asyncio.Event()
        self.commands = Commands(self)
        self.pauses = Pauses(self.engine, container_id, name)
        self.files: Files = Files(self.engine, container_id, name, pauses=self.pauses)
        self.census: Census = InnerCensus(name, self._run_inside, has_keeper=True)
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._allow_local = allow_local
        self._has_layers = has_layers
        self._pids_limit = 0
        self._own_processes = 2
        self._has_quota = False
        self._has_checks = False
        self._is_paused = False
        self._used = Usage()
        hub.listen(container_id, self._hear)

    async def attend(self) -> None:
        """It has been started: find it among this machine's processes, if it is there. Raises `SandboxBroken`."""
        try:
            told = (await self.engine.call("GET", f"/containers/{self.id}/json")).json()
        except EngineError as error:
            raise SandboxBroken(self.name, error.problem) from error
        if not told["State"]["Running"]:
            self.end(f"its container ended at once: {told['State'].get('Error') or told['State'].get('ExitCode')}")
            raise SandboxBroken(self.name, self.ended.result())
        has_keeper = bool(told["HostConfig"].get("Init"))
        self._own_processes = 2 if has_keeper else 1
        self._pids_limit = int(told["HostConfig"].get("PidsLimit") or 0)
        self._has_quota = "size" in (told["HostConfig"].get("StorageOpt") or {})
        self._has_checks = bool(told["Config"].get("Healthcheck"))
        self.local = find_local(self.id, int(told["State"]["Pid"])) if self._allow_local else None
        if self.local is not None:
            self.census = LocalCensus(self.name, self.local, has_keeper=has_keeper)
            self.overlay = find_overlay(told) if self._has_layers else None
            if self.local.has_plain_ids:
                self.files = NearFiles(self.engine, self.id, self.name, pauses=self.pauses, local=self.local)
        else:
            self.census = InnerCensus(self.name, self._run_inside, has_keeper=has_keeper)

    async def fill(self, layer: LayerSnapshot | SavedSnapshot) -> None:
        """It has not been started: lay a snapshot's changes into it. Raises `ImageError`, `SandboxBroken`."""
        try:
            told = (await self.engine.call("GET", f"/containers/{self.id}/json")).json()
        except EngineError as error:
            raise SandboxBroken(self.name, error.problem) from error
        overlay = find_overlay(told)
        if overlay is None:
            raise ImageError(f"snapshot of {layer.taken_in}", "cannot be laid into a container of this engine")
        try:
            await asyncio.to_thread(_fill, overlay, layer)
        except (OSError, ValueError) as error:
            raise ImageError(f"snapshot of {layer.taken_in}", f"cannot be laid into a container: {error}") from error

    def _hear(self, event: dict[str, Any]) -> None:
        action = str(event.get("Action", ""))
        attributes = event.get("Actor", {}).get("Attributes", {})
        if action == "exec_die":
            told = self.exits.get(str(attributes.get("execID")))
            if told is not None and not told.done():
                told.set_result(int(attributes.get("exitCode", 255)))
        elif action == "oom":
            self.oom_kills += 1
            self.oom_word.set()
        elif action.startswith("health_status"):
            self.health_word.set()
        elif action == "die":
            self.health_word.set()
            self.end(f"its container ended with status {attributes.get('exitCode', 'unknown')}")
        elif action == "engine-gone":
            self.end("its engine does not answer any more")

    def end(self, reason: str) -> None:
        """Remember why it ended; the first reason counts."""
        if not self.ended.done():
            self.ended.set_result(reason)
            self._thawed.set()

    async def _run_inside(self, command: list[str], expected: bytes) -> bytes:
        try:
            found = await self.commands.plain(command)
            if expected in found or not self._pids_limit:
                return found
        except SandboxBroken:
            if self.ended.done() or not self._pids_limit:
                raise
        # A container full of processes has no room for a shell either.
        await self._set_pids_limit(self._pids_limit + ROOM)
        try:
            return await self.commands.plain(command)
        finally:
            await self._set_pids_limit(self._pids_limit)

    async def _set_pids_limit(self, limit: int) -> None:
        with contextlib.suppress(EngineError):
            await self.engine.call("POST", f"/containers/{self.id}/update", json={"PidsLimit": limit})

    @property
    def is_frozen(self) -> bool:
        """From the moment on at which `freeze` was asked for."""
        return not self._thawed.is_set()

    async def until_thawed(self) -> None:
        """Wait for as long as whoever froze it likes; its end counts too."""
        await self._thawed.wait()

    async def freeze(self) -> None:
        """Let nothing in it run, nor begin; the engine pauses it only if something does. Raises `SandboxBroken`."""
        if self.is_frozen:
            return
        self._thawed.clear()
        try:
            async with self.pauses.alone():
                if not await self._is_still():
                    await self._pause()
                    self._is_paused = True
        except BaseException:
            self._thawed.set()
            raise

    async def _is_still(self) -> bool:
        """Whether only our idle command is in it and nobody but us starts another: seen from outside, in one look."""
        if self.local is None or self._has_checks:
            return False
        sighting = await asyncio.to_thread(_look_at, self.local)
        others = [one for one in sighting.seen[self._own_processes :] if one.is_living]
        if others or not sighting.is_whole or not self._are_idle(sighting.seen):
            return False
        return not await asyncio.to_thread(self.local.has_hidden, sighting.seen)

    async def _pause(self) -> None:
        for left in reversed(range(PAUSE_TRIES)):
            try:
                await self._ask_to("pause")
            except SandboxBroken:
                if left == 0 or self.ended.done():
                    raise
            else:
                return

    async def thaw(self) -> None:
        """Let it go on; raises `SandboxBroken`."""
        if self.is_frozen:
            if self._is_paused:
                await self._ask_to("unpause")
                self._is_paused = False
            self._thawed.set()

    async def terminate(self, group: Group) -> None:
        """SIGTERM, once. Raises `SandboxBroken`."""
        async with self._touching():
            await self.census.terminate(group)

    async def kill(self, group: Group) -> bool:
        """End them; False while it is frozen: they are to be killed again after the thaw. Raises `SandboxBroken`."""
        async with self._touching():
            if self.is_frozen:
                await self.census.condemn(group)
                return False
            try:
                await self.census.kill(group)
            except SandboxBroken:
                if not self.is_frozen:
                    raise
                return False
            return True

    def _touching(self) -> AbstractAsyncContextManager[None]:
        """While processes are signalled: no pause may come in between. A shell inside sees to that itself."""
        return self.pauses.unpaused() if self.local is not None else contextlib.nullcontext()

    async def _ask_to(self, action: str) -> None:
        try:
            await self.engine.call("POST", f"/containers/{self.id}/{action}")
        except EngineError as error:
            raise SandboxBroken(self.name, error.problem) from error

    async def living(self) -> list[Seen]:
        """Its processes; from afar, those of a frozen container are numbered as the engine's machine does."""
        if self.is_frozen and self.local is None:
            seen = (await self._seen_by_engine())[self._own_processes :]
            return [one for one in seen if one.is_living]
        return await self.census.living()

    async def _seen_by_engine(self) -> list[Seen]:
        """Every process, process 1 first, as the engine's machine numbers and shows them."""
        query = {"ps_args": "-o pid,ppid,sid,uid,stat,args"}
        try:
            told = (await self.engine.call("GET", f"/containers/{self.id}/top", query=query)).json()
        except EngineError as error:
            raise SandboxBroken(self.name, error.problem) from error
        return from_top(told)

    async def kill_all(self) -> int:
        """End every process; a frozen one does not run again before that. How many there were."""
        if not self.is_frozen:
            async with self._touching():
                return await self.census.kill(Everyone())
        if self.local is None:
            await self.thaw()
            return await self.census.kill(Everyone())
        frozen = len(await self.census.living())
        await self.census.condemn(Everyone())
        await self.thaw()
        async with self._touching():
            await self.census.kill(Everyone())
        return frozen

    async def quiet(self) -> None:
        """Every other process has been ended: hold one that is not our idle command, since it would end the container.

        Such is the process of an image's entrypoint, or of a compose service, that does its own work.
        """
        if not await self._is_idle():
            await self.freeze()

    async def _is_idle(self) -> bool:
        """Whether its first process is our idle command."""
        return self._are_idle(self.local.processes() if self.local is not None else await self._seen_by_engine())

    def _are_idle(self, seen: list[Seen]) -> bool:
        own = seen[1 : self._own_processes]
        return bool(own) and all(" ".join(one.argv) == f"/bin/sh -c {KEEPER}" for one in own)

    async def settle(self) -> None:
        """Wait until the image's entrypoint has come to our idle command; not long, since it may never want to.

        Raises `SandboxBroken` when the container ends instead.
        """
        give_up = time.monotonic() + SETTLE_S
        while time.monotonic() < give_up and not await self._is_idle():
            await asyncio.wait({self.ended}, timeout=LOOK_AGAIN_S)
            if self.ended.done():
                raise SandboxBroken(self.name, self.ended.result())

    async def usage(self) -> Usage:
        """What it has used; of one that has ended, what was known last."""
        if self.local is not None:
            self._take(self.local.usage(has_quota=self._has_quota))
        elif not self.ended.done():
            with contextlib.suppress(EngineError):
                self._take(_from_stats(await self._stats(), oom_kills=self.oom_kills))
        return self._used

    async def _stats(self) -> dict[str, Any]:
        """What the engine counts; one that cannot tell at once measures for a second or two."""
        asked = ("GET", f"/containers/{self.id}/stats")
        query = {"stream": False, "one-shot": True}
        try:
            answer = await self.engine.call(*asked, query=query, api=AT_ONCE_API)
        except EngineError as error:
            if error.status != REFUSED:
                raise
            answer = await self.engine.call(*asked, query=query)
        told: dict[str, Any] = answer.json()
        return told

    def _take(self, found: Usage) -> None:
        """Keep what is known already: the counters go with the container."""
        news = {name: value for name, value in asdict(found).items() if value is not None}
        self._used = replace(self._used, **news)

    async def stop(self) -> None:
        """Kill and remove it, without waiting for anything to obey; safe to call again."""
        if self.local is not None:
            await self.usage()
        self.end("it has been stopped")
        try:
            await asyncio.wait_for(self._remove(), STOP_TIMEOUT_S)
        except TimeoutError as error:
            raise SandboxBroken(self.name, f"could not be removed within {STOP_TIMEOUT_S:g} s") from error
        finally:
            self.hub.forget(self.id)
            await self.commands.close()

    async def _remove(self) -> None:
        try:
            await self.engine.call("DELETE", f"/containers/{self.id}", query={"force": True, "v": True})
        except EngineError as error:
            if error.status not in GONE:
                raise SandboxBroken(self.name, f"could not be removed: {error.problem}") from error


def _look_at(local: Local) -> Sighting:
    """Whole, unless processes of this machine kept ending under every look."""
    known: set[int] = set()
    sighting = local.look(known)
    for _ in range(LOOKS - 1):
        if sighting.is_whole:
            break
        sighting = local.look(known)
    return sighting


def _fill(overlay: Overlay, layer: LayerSnapshot | SavedSnapshot) -> None:
    with layer.open() as archive:
        overlay.fill(archive)
    if layer.entries is None:
        layer.entries = overlay.changes()


def from_top(told: dict[str, Any]) -> list[Seen]:
    """What an engine tells of a container's processes, process 1 first; none, as null, of one that is just ending."""
    return sorted((_from_ps(row) for row in told["Processes"] or ()), key=lambda one: one.pid)


def _from_ps(row: list[str]) -> Seen:
    """A line of `ps` on the engine's machine: the columns that `_seen_by_engine` asks for."""
    pid, parent, session, uid, state, words = row
    threads = 2 if "l" in state else 1  # its letter for a process of several
    return Seen(0, int(pid), int(parent), int(session), int(uid), state[:1], -1, threads, tuple(words.split()))


def _from_stats(told: dict[str, Any], *, oom_kills: int) -> Usage:
    """What an engine tells of a container's use; it counts no refused processes and no disk."""
    cpu = told.get("cpu_stats") or {}
    throttling = cpu.get("throttling_data") or {}
    total = (cpu.get("cpu_usage") or {}).get("total_usage")
    throttled = throttling.get("throttled_time")
    return Usage(
        cpu_s=None if total is None else total / 1e9,
        memory_peak_bytes=(told.get("memory_stats") or {}).get("max_usage"),
        oom_kills=oom_kills,
        cpu_throttled_s=None if throttled is None else throttled / 1e9,
        cpu_throttled_periods=throttling.get("throttled_periods"),
    )
