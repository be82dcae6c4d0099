"""HTTP as a guest uses it: one request after the other, with pauses, as robots.txt and Retry-After ask.

httpx is an optional dependency, imported when the first request is made.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from termarena.core.errors import AddressRefused, FetchError, MissingExtra
from termarena.forge.retrieving.robots import AGENT, NOTHING, parse_robots
from termarena.forge.retrieving.robots import LARGEST_BYTES as LARGEST_ROBOTS_BYTES
from termarena.tasks.pull.contract import shown
from termarena.tasks.pull.web import asked_pause_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from termarena.core.addresses import AddressPolicy
    from termarena.forge.retrieving.robots import Robots

__all__ = ["Manners", "RobotsRefuse", "Visit", "Visitor", "open_visitor", "origin_of"]

TIMEOUT_S: Final = 60.0
MOST_REDIRECTS: Final = 5
LONGEST_ASKED_PAUSE_S: Final = 300.0
"""What a server may ask for with Retry-After before it is better to come back another day."""
_MOVED: Final = {301, 302, 303, 307, 308}
_AGAIN: Final = {408, 425, 429}
_TOLD: Final = {200, 401, 403, 404, 410, 451}
_BLOCK_BYTES: Final = 1 << 16


class RobotsRefuse(FetchError):
    """What robots.txt asks not to be fetched."""

    def __init__(self, url: str) -> None:
        """`url` is what was not asked for."""
        super().__init__(
            shown(url), "the server's robots.txt asks not to", hint="ask whoever runs the server for the files"
        )


class Visit(NamedTuple):
    """An answer that is one: 200 with its body, or a status that says that there is nothing for us."""

    status: int
    body: bytes
    url: str
    """After redirects."""


@dataclass(frozen=True, slots=True)
class Manners:
    """How a guest behaves."""

    pause_s: float = 1.0
    """Between two requests; robots.txt may ask for more."""
    tries: int = 5
    backoff_s: float = 1.0
    """Before the second try; twice as long before each further one, unless the server says how long."""


class _Again(Exception):
    """Not an error yet: a turn of the loop."""

    def __init__(self, problem: str, after_s: float | None = None) -> None:
        super().__init__(problem)
        self.after_s = after_s


@contextmanager
def open_visitor(policy: AddressPolicy, manners: Manners) -> Iterator[Visitor]:
    """A visitor for the length of a `with`. Raises `MissingExtra` when httpx is not installed."""
    try:
        import httpx  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise MissingExtra("httpx", extra="forge", purpose="fetching recordings") from error
    timeout = httpx.Timeout(TIMEOUT_S, connect=15.0)
    with httpx.Client(transport=_guarded(policy), timeout=timeout, follow_redirects=False, trust_env=False) as client:
        visitor = Visitor(client, manners)
        try:
            yield visitor
        finally:
            visitor.stopped.set()


@dataclass(slots=True)
class Visitor:
    """Asks one server after the other; not for several threads."""

    client: httpx.Client
    manners: Manners
    stopped: threading.Event = field(default_factory=threading.Event)
    """Ends whoever waits."""
    _robots: dict[str, Robots] = field(default_factory=dict)
    _last_s: float | None = None

    def get(self, url: str, *, limit_bytes: int) -> Visit:
        """The answer, redirects followed, each to where it may lead.

        Raises `FetchError` where none is to be had, it is too long or leads to where it may not, `RobotsRefuse`, and
        `AddressRefused` where `url` itself may not be asked.
        """
        asked = url
        for hop in range(MOST_REDIRECTS):
            try:
                found = self._hop(url, limit_bytes)
            except AddressRefused as error:
                if not hop:
                    raise
                raise FetchError(shown(asked), f"it leads to where it may not: {error.message}") from error
            if found.status not in _MOVED:
                return found
            url = _next_hop(url, found.url)
        raise FetchError(shown(url), f"more than {MOST_REDIRECTS} redirects")

    def _hop(self, url: str, limit_bytes: int) -> Visit:
        robots = self._robots_of(url)
        if not robots.allows(_path(url)):
            raise RobotsRefuse(url)
        return self._patiently(url, limit_bytes, robots.delay_s)

    def _robots_of(self, url: str) -> Robots:
        """A server without the file asks for nothing; of one that cannot say, everything is left alone (RFC 9309)."""
        origin = origin_of(url)
        if origin not in self._robots:
            where = origin + "/robots.txt"
            for _ in range(MOST_REDIRECTS):
                found = self._patiently(where, LARGEST_ROBOTS_BYTES, 0.0)
                if found.status not in _MOVED:
                    break
                where = _next_hop(where, found.url)
            self._robots[origin] = parse_robots(found.body) if found.status == HTTPStatus.OK else NOTHING
        return self._robots[origin]

    def _patiently(self, url: str, limit_bytes: int, delay_s: float) -> Visit:
        problem = _Again("stopped")
        for failed in range(self.manners.tries):
            self._pause(max(self.manners.pause_s, delay_s))
            try:
                return self._once(url, limit_bytes)
            except _Again as again:
                problem = again
            if failed + 1 == self.manners.tries or self.stopped.is_set():
                break
            if problem.after_s is not None and problem.after_s > LONGEST_ASKED_PAUSE_S:
                raise FetchError(shown(url), f"{problem}, and asks to come back in {problem.after_s:.0f} seconds")
            backoff_s = self.manners.backoff_s * 2**failed
            self.stopped.wait(backoff_s if problem.after_s is None else problem.after_s)
        raise FetchError(shown(url), f"{problem}, {self.manners.tries} times in a row", hint="try again later")

    def _pause(self, pause_s: float) -> None:
        now = time.monotonic()
        if self._last_s is not None and now - self._last_s < pause_s:
            self.stopped.wait(pause_s - (now - self._last_s))
        self._last_s = time.monotonic()

    def _once(self, url: str, limit_bytes: int) -> Visit:
        import httpx  # noqa: PLC0415 - see above

        headers = {"Accept-Encoding": "identity", "User-Agent": AGENT}
        try:
            with self.client.stream("GET", url, headers=headers) as answer:
                status = answer.status_code
                if status in _MOVED:
                    return Visit(status, b"", answer.headers.get("Location", ""))
                if status in _AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    after_s = asked_pause_s(answer.headers.get("Retry-After"))
                    raise _Again(f"it answered {status}", after_s)
                if status not in _TOLD:
                    raise FetchError(shown(url), f"it answered {status}")
                return Visit(status, self._body(answer, url, limit_bytes), url)
        except httpx.InvalidURL as error:
            raise FetchError(shown(url)[:200], f"it is no address: {error}") from error
        except httpx.TransportError as error:
            raise _Again(f"no whole answer ({str(error) or type(error).__name__})") from error

    @staticmethod
    def _body(answer: httpx.Response, url: str, limit_bytes: int) -> bytes:
        if answer.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
            raise FetchError(shown(url), "the answer is compressed, which was not asked for")
        body = b""
        for block in answer.iter_raw(_BLOCK_BYTES):
            body += block
            if len(body) > limit_bytes:
                raise FetchError(shown(url), f"it is longer than {limit_bytes} bytes")
        return body


def origin_of(url: str) -> str:
    """Scheme, host and port. Raises `FetchError` for what is no address of a web server."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise FetchError(shown(url)[:200], f"it is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise FetchError(shown(url)[:200], "only http and https are spoken here")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}"


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _next_hop(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
    except ValueError as error:
        raise FetchError(shown(url), f"it leads to what is no address: {error}") from error
    origin_of(target)
    if urlsplit(url).scheme == "https" and urlsplit(target).scheme == "http":
        raise FetchError(shown(url), f"it leads from https to {shown(target)[:80]}")
    return target


def _guarded(policy: AddressPolicy) -> Any:  # noqa: ANN401 - a class of httpx's, which is loaded when it is used
    """A transport that checks every address, and connects to the one that it checked."""
    import httpx  # noqa: PLC0415 - see above

    class Guarded(httpx.BaseTransport):
        def __init__(self) -> None:
            self._wire = httpx.HTTPTransport(trust_env=False)

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            url = request.url
            address = policy.literal(url.host) or policy.first_of(url.host, _addresses(url.host, url.port))
            request.extensions = {**request.extensions, "sni_hostname": url.host}
            request.url = url.copy_with(host=str(address))
            try:
                return self._wire.handle_request(request)
            finally:
                request.url = url

        def close(self) -> None:
            self._wire.close()

    def _addresses(host: str, port: int | None) -> list[str]:
        try:
            return [str(one[4][0]) for one in socket.getaddrinfo(host, port or 443, type=socket.SOCK_STREAM)]
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(f"{host} has no address: {error}") from error

    return Guarded()
