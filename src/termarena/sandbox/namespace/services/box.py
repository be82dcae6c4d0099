"""The main service of a compose file as a sandbox, with doors to the others."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from termarena.core.errors import SandboxBroken
from termarena.sandbox.namespace.box import NamespaceSandbox
from termarena.sandbox.way_out import through

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from termarena.sandbox.namespace.services.ground import Ground
    from termarena.sandbox.spec import Fetches

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

    _others: Mapping[str, NamespaceSandbox] = MappingProxyType({})
    _logs: Mapping[str, ServiceLog] = MappingProxyType({})
    _ground: Ground | None = None

    def join(self, others: Mapping[str, NamespaceSandbox], logs: Mapping[str, ServiceLog], ground: Ground) -> None:
        """Learn of the other services, and of the sandbox that holds what they share."""
        self._others, self._logs, self._ground = others, logs, ground

    @asynccontextmanager
    async def through(self, fetches: Fetches) -> AsyncIterator[None]:
        """See `NamespaceSandbox`; the other services are reached as ever."""
        names = {} if self._ground is None else self._ground.names
        async with through(self, fetches, await self.listen(), inside=self.reaching(names), direct=names):
            yield

    @property
    def services(self) -> tuple[str, ...]:
        """The names of the other services."""
        return tuple(sorted(self._others))

    def service(self, name: str) -> NamespaceSandbox:
        """Another service, to run commands in; raises `SandboxBroken` for a name that the file does not have."""
        if name not in self._others:
            raise SandboxBroken(self.id, f"has no service {name}; there is: {', '.join(self.services)}")
        return self._others[name]

    async def logs(self, name: str) -> bytes:
        """What a service wrote so far, both outputs in order; of much, the end."""
        self.service(name)
        return self._logs[name].content()

    async def freeze(self) -> None:
        """See the contract: every service."""
        await super().freeze()
        for other in self._others.values():
            with contextlib.suppress(SandboxBroken):
                await other.freeze()

    async def thaw(self) -> None:
        """See the contract: every service."""
        for other in self._others.values():
            with contextlib.suppress(SandboxBroken):
                await other.thaw()
        await super().thaw()

    async def stop(self) -> None:
        """See the contract: every service, and what they shared."""
        await super().stop()
        for other in self._others.values():
            await other.stop()
        if self._ground is not None:
            await self._ground.box.stop()
