"""How a sandbox reaches the network: through a proxy on the host, or through a recording."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from termarena.sandbox.proxy import Proxy
from termarena.sandbox.spec import PROXY_PORT

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Mapping

    from termarena.sandbox.spec import SandboxSpec

__all__ = ["way_out"]


class _Connected(Protocol):
    def add_environment(self, env: Mapping[str, str], *, is_final: bool = False) -> None: ...

    async def write(self, path: str, content: bytes, *, mode: int = 0o644, user: str | None = None) -> None: ...


@asynccontextmanager
async def way_out(
    box: _Connected, spec: SandboxSpec, listener: socket.socket, *, has_users: bool = True
) -> AsyncIterator[None]:
    """Serve what the box asks of the listener on its loopback. With a recording, raises what `open_fetches` raises."""
    if spec.fetches is None:
        async with Proxy(spec.network).serve(listener):
            box.add_environment(Proxy.environment(PROXY_PORT))
            yield
        return
    from termarena.sandbox.fetches import open_fetches  # noqa: PLC0415 - only for who records

    async with open_fetches(spec.fetches, spec.network) as session, session.proxy.serve(listener):
        for path, content in session.files(has_users=has_users).items():
            await box.write(path, content, user="root")
        box.add_environment({**Proxy.environment(PROXY_PORT), **session.environment}, is_final=True)
        yield
