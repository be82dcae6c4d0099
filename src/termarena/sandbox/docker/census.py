"""Who lives in a container, and ending some or all of them: through the kernel where we can, else by a shell inside."""

from __future__ import annotations

import asyncio
import secrets
import signal
from typing import TYPE_CHECKING, Final, Protocol

from termarena.core.errors import SandboxBroken
from termarena.sandbox.docker.local import Local, Seen, strike
from termarena.sandbox.docker.scripts import KILL, SCAN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Census", "Group", "InnerCensus", "LocalCensus"]

PASSES: Final = 200


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
        """Send SIGTERM once."""

    async def kill(self, group: Group) -> int:
        """End them at once, however they fork; how many there were."""


def _without_own(seen: list[Seen], *, has_keeper: bool) -> list[Seen]:
    # The kernel gives out rising numbers and begins again above 300: the first child of process 1 keeps the lowest.
    keeper = min((one.pid for one in seen if one.pid != 1), default=0) if has_keeper else 0
    return [one for one in seen if one.pid not in (1, keeper) and one.state not in ("Z", "X")]


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

    def __init__(self, local: Local, *, has_keeper: bool) -> None:
        """`has_keeper`: whether process 1 is an init whose first child is the container's command."""
        self._local = local
        self._has_keeper = has_keeper

    def _living(self) -> list[Seen]:
        return _without_own(self._local.processes(), has_keeper=self._has_keeper)

    async def living(self) -> list[Seen]:
        """See `Census`."""
        return await asyncio.to_thread(self._living)

    async def terminate(self, group: Group) -> None:
        """See `Census`."""
        await asyncio.to_thread(self._terminate, group)

    def _terminate(self, group: Group) -> None:
        # All at once: a shell that outlived its child by a moment would go on with its next command.
        targets = self._halt(group)
        for number in (signal.SIGTERM, signal.SIGCONT):
            strike(targets, number)

    async def kill(self, group: Group) -> int:
        """See `Census`."""
        return await asyncio.to_thread(self._kill, group)

    def _halt(self, group: Group) -> list[int]:
        """Stop them, until a look finds none that still runs: a stopped process cannot fork."""
        stopped: set[int] = set()
        for _ in range(PASSES):
            found = [one.host_pid for one in _members(self._living(), group)]
            fresh = [pid for pid in found if pid not in stopped]
            if not fresh:
                break
            strike(fresh, signal.SIGSTOP)
            stopped.update(fresh)
        return sorted(stopped)

    def _kill(self, group: Group) -> int:
        stopped = self._halt(group)
        for _ in range(PASSES):
            left = [one.host_pid for one in _members(self._living(), group)]
            if not left:
                break
            strike(left, signal.SIGKILL)
        return len(stopped)


class InnerCensus:
    """Through a shell of the container, run as root."""

    def __init__(self, box: str, run: Callable[[list[str], bytes], Awaitable[bytes]], *, has_keeper: bool) -> None:
        """`run` executes a command without the marks of an ordinary one and gives its output.

        Its second argument must occur in the output of one that worked.
        """
        self._box = box
        self._run = run
        self._has_keeper = has_keeper

    async def _all(self) -> list[Seen]:
        end = secrets.token_hex(8)
        text = await self._run(["/bin/sh", "-c", SCAN, "sh", end], end.encode())
        records = text.split(f"\n{end}\n".encode())[:-1]
        if not records:
            raise SandboxBroken(self._box, "its processes cannot be listed", hint="is /proc mounted in it?")
        return sorted((_parse(record) for record in records), key=lambda one: one.pid)

    async def living(self) -> list[Seen]:
        """See `Census`."""
        return _without_own(await self._all(), has_keeper=self._has_keeper)

    async def _strike(self, group: Group, how: str) -> int:
        keeper = 0
        if group.mark is None and self._has_keeper:
            keeper = min((one.pid for one in await self._all() if one.pid != 1), default=0)
        mark = "all" if group.mark is None else str(group.mark)
        answer = await self._run(["/bin/sh", "-c", KILL, "sh", mark, str(keeper), how], b"\n")
        return int(answer.strip() or b"0")

    async def terminate(self, group: Group) -> None:
        """See `Census`."""
        await self._strike(group, "TERM")

    async def kill(self, group: Group) -> int:
        """See `Census`."""
        return await self._strike(group, "KILL")


def _parse(record: bytes) -> Seen:
    numbers, _, words = record.partition(b"\n")
    pid, state, parent, session, uid, locked = numbers.decode().split()
    argv = words.removesuffix(b"\n").split(b"\0")
    return Seen(
        host_pid=0,
        pid=int(pid),
        parent=int(parent),
        session=int(session),
        uid=int(uid),
        state=state,
        locked_bytes=int(locked) if locked.isdecimal() else -1,
        argv=tuple(word.decode(errors="surrogateescape") for word in (argv[:-1] if len(argv) > 1 else argv)),
    )
