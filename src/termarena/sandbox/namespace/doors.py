"""Ways into a namespace sandbox that only the harness takes: sockets on its loopback, its namespaces, its mounts."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from termarena.core.errors import SandboxFileError
from termarena.sandbox.namespace.answers import raise_refusal
from termarena.sandbox.proxy import RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.namespace.channel import Channel
    from termarena.sandbox.proxy import Inside

__all__ = ["Doors"]


class Doors:
    """Of one sandbox; everything raises `SandboxBroken` once that has ended."""

    def __init__(self, channel: Channel) -> None:
        """Asks its process 1."""
        self._channel = channel

    async def listen(self, port: int = 0) -> socket.socket:
        """A listening socket on the sandbox's own loopback, for the harness to accept from."""
        received = await self._channel.ask({"op": "listen", "port": port})
        raise_refusal(received.message, "listen on", f"port {port}")
        return socket.socket(fileno=received.fds[0])

    async def connect(self, port: int, address: str = "127.0.0.1") -> socket.socket:
        """A connection to a service on the sandbox's loopback; raises `SandboxFileError` when nothing listens."""
        received = await self._channel.ask({"op": "connect", "port": port, "address": address})
        raise_refusal(received.message, "connect to", f"port {port}")
        return socket.socket(fileno=received.fds[0])

    def reaching(self, names: Mapping[str, str]) -> Inside:
        """What connects to these names of its own addresses, for a proxy that is asked for one of them."""

        async def inside(host: str, port: int) -> socket.socket | None:
            try:
                return await self.connect(port, names[host]) if host in names else None
            except SandboxFileError as error:
                raise RefusedError(502, f"{host}:{port} does not answer") from error

        return inside

    async def namespaces(self) -> tuple[int, ...]:
        """Descriptors of its user and its network namespace, for other sandboxes to join; the caller closes them."""
        received = await self._channel.ask({"op": "namespaces"})
        raise_refusal(received.message, "join", "its namespaces")
        return tuple(received.fds)

    async def tree(self, path: str) -> int:
        """A descriptor of a mounted folder or file of it, for another sandbox to mount once; the caller closes it."""
        received = await self._channel.ask({"op": "tree", "path": path})
        raise_refusal(received.message, "lend", path)
        return received.fds[0]
