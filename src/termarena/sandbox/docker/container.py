"""One container of ours, as the harness follows its life."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import EngineError, SandboxBroken
from termarena.sandbox.docker.census import InnerCensus, LocalCensus
from termarena.sandbox.docker.execs import Commands
from termarena.sandbox.docker.files import Files
from termarena.sandbox.docker.local import find_local

if TYPE_CHECKING:
    from termarena.sandbox.docker.census import Census
    from termarena.sandbox.docker.hub import Hub
    from termarena.sandbox.docker.local import Local

__all__ = ["Container"]

STOP_TIMEOUT_S: Final = 30.0
GONE: Final = (404, 409)
ROOM: Final = 16
"""Processes beyond the limit that a shell of ours may need when the container is full."""


class Container:
    """It has been created; `attend` begins to follow it."""

    def __init__(self, hub: Hub, container_id: str, name: str, *, allow_local: bool) -> None:
        """`name` is the sandbox's; without `allow_local` everything goes through the engine, as to a far machine."""
        self.id = container_id
        self.name = name
        self.hub = hub
        self.engine = hub.engine
        self.local: Local | None = None
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.exits: dict[str, asyncio.Future[int]] = {}
        self.oom_kills = 0
        self.oom_word = asyncio.Event()
        self.health_word = asyncio.Event()
        self.commands = Commands(self)
        self.files = Files(self.engine, container_id, name)
        self.pauses = self.files.pauses
        self.census: Census = InnerCensus(name, self._run_inside, has_keeper=True)
        self._allow_local = allow_local
        self._pids_limit = 0
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
        self._pids_limit = int(told["HostConfig"].get("PidsLimit") or 0)
        self.local = find_local(self.id, int(told["State"]["Pid"])) if self._allow_local else None
        if self.local is not None:
            self.census = LocalCensus(self.name, self.local, has_keeper=has_keeper)
        else:
            self.census = InnerCensus(self.name, self._run_inside, has_keeper=has_keeper)

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

    async def stop(self) -> None:
        """Kill and remove it, without waiting for anything to obey; safe to call again."""
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
