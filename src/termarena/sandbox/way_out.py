"""How a sandbox reaches the network: through a proxy on the host, or through a recording."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from termarena.core.errors import SandboxError, SandboxFileError
from termarena.sandbox.fetches.trust import TRUST_FILES
from termarena.sandbox.proxy import Proxy

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from termarena.sandbox.contract import ExecResult
    from termarena.sandbox.proxy import Inside
    from termarena.sandbox.spec import Fetches, SandboxSpec

__all__ = ["through", "way_out"]


class _Connected(Protocol):
    @property
    def spec(self) -> SandboxSpec: ...

    def add_environment(self, env: Mapping[str, str], *, is_final: bool = False) -> None: ...

    def drop_final_environment(self) -> None: ...

    async def exec(self, argv: Sequence[str], *, stdin: bytes = b"", user: str | None = None) -> ExecResult: ...

    async def write(self, path: str, content: bytes, *, mode: int = 0o644, user: str | None = None) -> None: ...


@asynccontextmanager
async def way_out(
    box: _Connected,
    spec: SandboxSpec,
    listener: socket.socket,
    *,
    has_users: bool = True,
    inside: Inside | None = None,
    direct: Iterable[str] = (),
) -> AsyncIterator[None]:
    """Serve what the box asks of the listener on its loopback. With a recording, raises what `open_fetches` raises.

    `inside` and `direct` are for what is the box's own: see `Proxy`.
    """
    port = listener.getsockname()[1]
    if spec.fetches is None:
        async with Proxy(spec.network, inside=inside).serve(listener):
            box.add_environment(Proxy.environment(port, direct=direct))
            yield
        return
    from termarena.sandbox.fetches import open_fetches  # noqa: PLC0415 - only for who records

    async with open_fetches(spec.fetches, spec.network, inside=inside) as session, session.proxy.serve(listener):
        for path, content in session.files(has_users=has_users).items():
            await _lay(box, path, content)
        box.add_environment({**Proxy.environment(port, direct=direct), **session.environment}, is_final=True)
        yield


async def _lay(box: _Connected, path: str, content: bytes) -> None:
    """Write a file beside the devices; a container's own file systems are reached from within it only."""
    try:
        await box.write(path, content, user="root")
    except SandboxFileError:
        done = await box.exec(["/bin/sh", "-c", 'cat > "$0"', path], stdin=content, user="root")
        if done.exit_status != 0:
            raise


@asynccontextmanager
async def through(
    box: _Connected,
    fetches: Fetches,
    listener: socket.socket,
    *,
    has_users: bool = True,
    inside: Inside | None = None,
    direct: Iterable[str] = (),
) -> AsyncIterator[None]:
    """Let the commands that begin meanwhile reach a recording, by a listener of their own on the box's loopback.

    What runs in the box already keeps the way that it has. Raises what `open_fetches` raises.
    """
    spec = box.spec.model_copy(update={"fetches": fetches, "network": box.spec.network.without_gateway()})
    try:
        async with way_out(box, spec, listener, has_users=has_users, inside=inside, direct=direct):
            yield
    finally:
        box.drop_final_environment()
        with contextlib.suppress(SandboxError):
            await box.exec(["/bin/rm", "-f", *TRUST_FILES], user="root")
