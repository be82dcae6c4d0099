"""The main service of a compose file as a sandbox, with doors to the others."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from termarena.sandbox.compositions import Beside
from termarena.sandbox.namespace.box import NamespaceSandbox
from termarena.sandbox.way_out import through

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Mapping

    from termarena.sandbox.namespace.holdings import Holdings
    from termarena.sandbox.namespace.services.ground import Ground
    from termarena.sandbox.spec import Fetches, SandboxSpec

__all__ = ["ServiceLog", "ServicesSandbox"]

LOG_BYTES: Final = 4 << 20
"""How much of a service's output is kept: its end."""
TAIL_CHARACTERS: Final = 4000


class ServiceLog:
    """What a service wrote, both outputs in the order in which they came."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        """Nothing yet."""
        self._kept = bytearray()

    def take(self, chunk: bytes) -> None:
        """More of it."""
        self._kept += chunk
        if len(self._kept) > 2 * LOG_BYTES:
            del self._kept[:-LOG_BYTES]

    def content(self) -> bytes:
        """Its end, up to the limit."""
        return bytes(self._kept[-LOG_BYTES:])

    def tail(self) -> str:
        """The last of it, for an error."""
        return self.content().decode(errors="replace")[-TAIL_CHARACTERS:].strip()


class ServicesSandbox(NamespaceSandbox):
    """See `termarena.sandbox.compositions.ComposedSandbox`."""

    _logs: Mapping[str, ServiceLog] = MappingProxyType({})
    _ground: Ground | None = None

    def __init__(self, sandbox_id: str, spec: SandboxSpec, control: socket.socket, held: Holdings) -> None:
        """Alone, until it has joined the others."""
        super().__init__(sandbox_id, spec, control, held)
        self._beside: Beside[NamespaceSandbox] = Beside(sandbox_id)

    def join(self, others: Mapping[str, NamespaceSandbox], logs: Mapping[str, ServiceLog], ground: Ground) -> None:
        """Learn of the other services, and of the sandbox that holds what they share."""
        self._beside, self._logs, self._ground = Beside(self.id, others), logs, ground

    @asynccontextmanager
    async def through(self, fetches: Fetches) -> AsyncIterator[None]:
        """See `NamespaceSandbox`; the other services are reached as ever."""
        names = {} if self._ground is None else self._ground.names
        inside = self.doors.reaching(names)
        async with through(self, fetches, await self.doors.listen(), inside=inside, direct=names):
            yield

    @property
    def services(self) -> tuple[str, ...]:
        """The names of the other services."""
        return self._beside.names

    def service(self, name: str) -> NamespaceSandbox:
        """Another service, to run commands in; raises `SandboxBroken` for a name that the file does not have."""
        return self._beside.find(name)

    async def logs(self, name: str) -> bytes:
        """What a service wrote so far, both outputs in order; of much, the end."""
        self.service(name)
        return self._logs[name].content()

    async def freeze(self) -> None:
        """See the contract: every service."""
        await super().freeze()
        await self._beside.freeze()

    async def thaw(self) -> None:
        """See the contract: every service."""
        await self._beside.thaw()
        await super().thaw()

    async def stop(self) -> None:
        """See the contract: every service, and what they shared."""
        await super().stop()
        for other in self._beside.boxes.values():
            await other.stop()
        if self._ground is not None:
            await self._ground.box.stop()
