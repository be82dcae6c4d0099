"""Who lives in a container, and ending some or all of them: through the kernel where we can, else by a shell inside."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from typing import TYPE_CHECKING, Final, Protocol

from termarena.core.errors import SandboxBroken
from termarena.sandbox.docker.local import Local, Seen, strike, wait_for_end
from termarena.sandbox.docker.scripts import KILL, SCAN, SCANNED, STRUCK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Census", "Group", "InnerCensus", "LocalCensus"]

KILL_TIMEOUT_S: Final = 60.0
"""How long processes may take to be gone before their sandbox counts as broken: some give back much memory first."""
HALT_TIMEOUT_S: Final = 15.0
LOOK_AGAIN_MS: Final = 50
UNKILLED: Final = "its processes could not be ended"


class Group(Protocol):
    """Which processes: those with a mark, their descendants and their session; or all."""

    @property
    def mark(self) -> int | None:
        """The soft limit that marks them; None for all."""

    @property
    def leader(self) -> int:
        """The number inside of the process that began it."""


class Everyone:
    """All but process 1 and the keeper."""

    mark: int | None = None
    leader: int = 0


class Census(Protocol):
    """What both ways can do."""

    async def living(self) -> list[Seen]:
        """Every process but process 1 and the container's own command; zombies are not among the living."""

    async def terminate(self, group: Group) -> None:
        """Send SIGTERM once. Raises `SandboxBroken`."""

    async def kill(self, group: Group) -> int:
        """End them at once, however they fork; how many there were. Raises `SandboxBroken` when one may be left."""

    async def condemn(self, group: Group) -> None:
        """Of a frozen container: see to it that they do not run again, where that can be done from outside."""


def _keeper(seen: list[Seen]) -> int:
    """The number of the container's own command, the first child of an init; 0 while there is none.

    An engine lets commands in as soon as the init runs, so that the keeper need not have the lowest number. But a
    command has a session of its own, and nothing that it leaves behind can enter that of process 1.
    """
    return min((one.pid for one in seen if one.parent == 1 and one.session == 1), default=0)


def _without_own(seen: list[Seen], *, has_keeper: bool) -> list[Seen]:
    own = (1, _keeper(seen)) if has_keeper else (1,)
    return [one for one in seen if one.pid not in own]


def _living(seen: list[Seen]) -> list[Seen]:
    return [one for one in seen if one.is_living]


def _members(seen: list[Seen], group: Group) -> list[Seen]:
    if group.mark is None:
        return seen
    inside = {one.pid for one in seen if group.mark == one.locked_bytes or group.leader in (one.pid, one.session)}
    size = -1
    while size != len(inside):
        size = len(inside)
        inside |= {one.pid for one in seen if one.parent in inside}
    return [one for one in seen if one.pid in inside]


class LocalCensus:
    """Through this machine's `/proc`."""

    def __init__(self, box: str, local: Local, *, has_keeper: bool) -> None:
        """`has_keeper`: whether process 1 is an init whose first child is the container's command."""
        self._box = box
        self._local = local
        self._has_keeper = has_keeper

    async def living(self) -> list[Seen]:
        """See `Census`."""
        return _living(_without_own(await asyncio.to_thread(self._local.processes), has_keeper=self._has_keeper))

    async def terminate(self, group: Group) -> None:
        """See `Census`."""
        await asyncio.to_thread(self._terminate, group)

    def _terminate(self, group: Group) -> None:
        # All at once: a shell that outlived its child by a moment would go on with its next command.
        targets, _ = self._halt(group)
        for number in (signal.SIGTERM, signal.SIGCONT):
            strike(targets, number)

    async def kill(self, group: Group) -> int:
        """See `Census`."""
        return await asyncio.to_thread(self._kill, group)

    def _halt(self, group: Group) -> tuple[list[int], bool]:
        """Stop them, until a look finds none that still runs: a stopped process cannot fork.

        Who has been stopped, and whether that is all of them: not when processes kept ending under every look.
        """
        stopped: set[int] = set()
        known: set[int] = set()
        give_up = time.monotonic() + HALT_TIMEOUT_S
        while time.monotonic() < give_up:
            sighting = self._local.look(known)
            if self._has_keeper and not _keeper(sighting.seen):
                if self._local.is_ending():
                    return [], True
                continue
            members = _members(_without_own(sighting.seen, has_keeper=self._has_keeper), group)
            fresh = [one for one in members if one.host_pid not in stopped]
            # One that has just ended may have left a child that came too late for the list.
            if not fresh and sighting.is_whole:
                return sorted(stopped), True
            targets = [one.host_pid for one in _living(fresh)]
            strike(targets, signal.SIGSTOP)
            stopped.update(targets)
        return sorted(stopped), False

    def _kill(self, group: Group) -> int:
        killed: set[int] = set()
        give_up = time.monotonic() + KILL_TIMEOUT_S
        while time.monotonic() < give_up:
            stopped, are_all = self._halt(group)
            if are_all and not stopped:
                return len(killed)
            strike(stopped, signal.SIGKILL)
            killed.update(stopped)
            for pid in stopped[:1]:
                wait_for_end(pid, timeout_ms=LOOK_AGAIN_MS)
        raise SandboxBroken(self._box, UNKILLED)

    async def condemn(self, group: Group) -> None:
        """See `Census`: with cgroups of version 1 a signal waits for the thaw."""
        seen = await asyncio.to_thread(self._local.processes)
        members = _members(_without_own(seen, has_keeper=self._has_keeper), group)
        strike([one.host_pid for one in members], signal.SIGKILL)


class InnerCensus:
    """Through a shell of the container, run as root."""

    def __init__(self, box: str, run: Callable[[list[str], bytes], Awaitable[bytes]], *, has_keeper: bool) -> None:
        """`run` executes a command without the marks of an ordinary one and gives its output.

        Its second argument must occur in the output of one that worked.
        """
        self._box = box
        self._run = run
        self._has_keeper = has_keeper
        self._alone = asyncio.Lock()

    async def _all(self) -> list[Seen]:
        end = secrets.token_hex(8)
        last = f"{end} {SCANNED}".encode()
        text = await self._run(["/bin/sh", "-c", SCAN, "sh", end], last)
        records = text.split(f"\n{end}\n".encode())[:-1]
        if not records or last not in text:
            raise SandboxBroken(self._box, "its processes cannot be listed", hint="is /proc mounted in it?")
        return sorted((_parse(record) for record in records), key=lambda one: one.pid)

    async def living(self) -> list[Seen]:
        """See `Census`."""
        return _living(_without_own(await self._all(), has_keeper=self._has_keeper))

    async def _find_keeper(self) -> int:
        give_up = time.monotonic() + KILL_TIMEOUT_S
        while not (keeper := _keeper(await self._all())):
            if time.monotonic() > give_up:
                raise SandboxBroken(self._box, "its own command cannot be found")
        return keeper

    async def _strike(self, group: Group, how: str) -> tuple[int, bool]:
        """How many there were, and whether all of them were met."""
        keeper = await self._find_keeper() if group.mark is None and self._has_keeper else 0
        mark = "all" if group.mark is None else str(group.mark)
        answer = await self._run(["/bin/sh", "-c", KILL, "sh", mark, str(keeper), how], STRUCK.encode())
        count, *rest = answer.decode(errors="replace").split() or [""]
        if not count.isdecimal() or rest[-1:] != [STRUCK]:
            raise SandboxBroken(self._box, UNKILLED, hint="is /proc mounted in it?")
        return int(count), rest == [STRUCK]

    async def terminate(self, group: Group) -> None:
        """See `Census`."""
        await self._strike(group, "TERM")

    async def kill(self, group: Group) -> int:
        """See `Census`."""
        total = 0
        give_up = time.monotonic() + KILL_TIMEOUT_S
        # Two shells that end everyone would stop each other.
        async with self._alone if group.mark is None else contextlib.nullcontext():
            while time.monotonic() < give_up:
                count, are_all = await self._strike(group, "KILL")
                total += count
                if are_all:
                    return total
        raise SandboxBroken(self._box, UNKILLED)

    async def condemn(self, group: Group) -> None:
        """See `Census`: no shell runs in it."""


def _parse(record: bytes) -> Seen:
    numbers, _, words = record.partition(b"\n")
    pid, state, parent, session, uid, locked, threads = numbers.decode().split()
    argv = words.removesuffix(b"\n").split(b"\0")
    return Seen(
        host_pid=0,
        pid=int(pid),
        parent=int(parent),
        session=int(session),
        uid=int(uid),
        state=state,
        locked_bytes=int(locked) if locked.isdecimal() else -1,
        threads=int(threads),
        argv=tuple(word.decode(errors="surrogateescape") for word in (argv[:-1] if len(argv) > 1 else argv)),
    )
