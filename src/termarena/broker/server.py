"""The broker of one run: an HTTP server on this machine's loopback, in the harness's own event loop."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self

from termarena.broker.app import BrokerApp
from termarena.broker.seats import AT_ONCE, Seat, Seats, native_dialects
from termarena.core.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from termarena.broker.contract import Exchanged
    from termarena.models import RunModels

__all__ = ["Broker", "require_server"]

QUEUE: Final = 1024
"""Connections that wait to be taken: as many trials may start at once."""
CONNECTIONS: Final = 4096
"""At once, of all trials and strangers; fewer where this process may not open twice as many files."""
HEAD_S: Final = 30.0
"""For whoever has connected, or has begun another request, to come to the end of its headers."""
FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"


def require_server() -> None:
    """Raises `MissingExtra`."""
    try:
        import_module("uvicorn")
    except ImportError as error:
        raise MissingExtra("uvicorn", extra="broker", purpose="the model broker") from error


class Broker:
    """Answers whoever has the token of a seat; as an `async with` it ends with everything under way.

    It listens on 127.0.0.1 only, at a port that the system chooses unless one is named.
    """

    def __init__(self, models: RunModels, *, port: int = 0, connections: int = CONNECTIONS) -> None:
        """`models` hold the keys, the run's budget and the ways out, and are closed by whoever made them.

        `connections` may be open at once; one more is answered with 503 and closed.
        """
        self._models = models
        self._port = port
        self._connections = min(connections, _files_at_once() // 2)
        self._seats = Seats()
        self._app = BrokerApp(self._seats)
        self._server: Any = None
        self._serving: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    async def __aenter__(self) -> Self:
        """Serve. Raises `MissingExtra`, and OSError for a port that is taken."""
        require_server()
        listener = self._listener = _listening(self._port)
        self._server = _made_server(self._app, self._connections)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        await self.aclose()

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`."""
        if self._listener is None:
            raise RuntimeError("the broker does not serve")
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    @property
    def strangers(self) -> int:
        """How many requests came without a token of ours."""
        return self._app.strangers

    def seat(
        self,
        word: str,
        record: Callable[[Exchanged], None],
        *,
        at_once: int = AT_ONCE,
        longest_reply: int | None = None,
    ) -> Seat:
        """A seat for one trial with the model of this word; `record` is told every exchange as it ends.

        `at_once` is how many requests may be under way; more are told to wait. `longest_reply` is how many tokens a
        request may ask for; one that asks for more, or does not say, asks for so many.
        Raises what `RunModels.check` raises.
        """
        line = self._models.line(word)
        model, natives = self._models.open(word), native_dialects(line)
        seat = Seat(Seats.new_token(), model, line, record, natives, at_once=at_once, longest_reply=longest_reply)
        self._seats.add(seat)
        return seat

    def leave(self, seat: Seat) -> None:
        """The trial is over: its token is worth nothing any more."""
        self._seats.remove(seat)

    async def aclose(self) -> None:
        """End it, with every connection."""
        if self._serving is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            await asyncio.gather(self._serving, return_exceptions=True)
            await _end(self._server.server_state)
            self._serving = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None


async def _end(state: Any) -> None:  # noqa: ANN401 - uvicorn is an extra
    """End what is under way: which of it uvicorn has ended depends on the version of Python."""
    for connection in tuple(state.connections):
        connection.transport.abort()  # first: who reads nothing is not waited for
    under_way = tuple(state.tasks)
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)


def _listening(port: int) -> socket.socket:
    """A socket on loopback. Raises OSError."""
    # asyncio switches Nagle's algorithm off only for a socket that names its protocol; with it an answer takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(QUEUE)
    except OSError:
        listener.close()
        raise
    return listener


def _files_at_once() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit


class _Patience:
    """Closes a connection on which a request that is awaited, or has begun, does not come to the end of its headers."""

    def __init__(self, door: Any) -> None:  # noqa: ANN401 - uvicorn is an extra
        """`door` is the connection as uvicorn holds it."""
        self._door = door
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """See whether a request is being answered, or else count the time until one is."""
        if self._is_answering():
            self.end()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEAD_S, self._lose)

    def end(self) -> None:
        """Count no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_answering(self) -> bool:
        cycle = self._door.cycle
        return cycle is not None and not cycle.response_complete

    def _lose(self) -> None:
        if not self._is_answering():
            self._door.transport.close()


def _door(connections: int) -> Any:  # noqa: ANN401 - uvicorn is an extra
    """What takes uvicorn's connections: so many of them, and none that only waits."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol  # noqa: PLC0415 - an extra, and slow to import

    protocol: Any = AutoHTTPProtocol

    class Door(protocol):  # type: ignore[misc] # which of two classes it is depends on what is installed
        def connection_made(self, transport: asyncio.Transport) -> None:
            """Take one, unless there are too many."""
            super().connection_made(transport)
            self.patience = _Patience(self)
            if len(self.connections) > connections:
                transport.write(FULL)
                transport.close()
            else:
                self.patience.look()

        def data_received(self, data: bytes) -> None:
            """A part of a request, on a connection that was used before or not."""
            super().data_received(data)
            self.patience.look()

        def connection_lost(self, exc: Exception | None) -> None:
            """Forget it at once: a sandbox can open and close thousands in the time that one is waited for."""
            self.patience.end()
            super().connection_lost(exc)

    return Door


def _made_server(app: BrokerApp, connections: int) -> Any:  # noqa: ANN401 - uvicorn is an extra
    import uvicorn  # noqa: PLC0415 - an extra, and slow to import

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals are the run's."""
            yield

    return Server(
        uvicorn.Config(
            app,
            http=_door(connections),
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=600,
            timeout_graceful_shutdown=1,
        )
    )
