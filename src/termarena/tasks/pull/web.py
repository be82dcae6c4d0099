"""HTTP as a pull needs it: patient, resumable, and careful about where a token goes.

httpx is an optional dependency, imported when the first request is made.
"""

from __future__ import annotations

import random
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

from termarena.core.errors import MissingExtra
from termarena.tasks.pull.contract import PullError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

    from termarena.tasks.pull.contract import Plan, Reporter

__all__ = ["Answer", "Web", "asked_pause_s", "open_web", "pause"]

Result = TypeVar("Result")

TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 15.0
TRIES = 5
# Without a network every try fails at once, and who waits wants to hear so.
TRIES_TO_CONNECT = 3
LONGEST_PAUSE_S = 30.0
# What a server may ask for with Retry-After before it is better to come back another day.
LONGEST_ASKED_PAUSE_S = 120.0
_REDIRECTS = 10
_AGAIN = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_MOVED = {301, 302, 303, 307, 308}
_BLOCK_BYTES = 1 << 16


def pause(seconds: float, stopped: threading.Event) -> None:
    """Wait before another try, unless everything is to stop."""
    stopped.wait(seconds)


class Answer(NamedTuple):
    """A whole answer, small enough to hold."""

    body: bytes
    headers: httpx.Headers
    url: str


class _TryAgain(Exception):
    """Not an error yet: a turn of the loop."""

    def __init__(self, problem: str, *, after_s: float | None = None, is_connection: bool = False) -> None:
        super().__init__(problem)
        self.after_s = after_s
        self.is_connection = is_connection


@contextmanager
def open_web(plan: Plan, *, token: str | None = None, token_origin: str = "") -> Iterator[Web]:
    """A client for one pull. `token` goes to `token_origin` and nowhere else, also after a redirect.

    Raises MissingExtra when httpx is not installed.
    """
    try:
        import httpx  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise MissingExtra("httpx", extra="fetch", purpose="fetching over HTTP") from error
    with httpx.Client(timeout=httpx.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S), follow_redirects=False) as client:
        web = Web(plan, client, token, token_origin)
        try:
            yield web
        finally:
            web.stopped.set()


@dataclass(frozen=True, slots=True)
class Web:
    """Requests for one pull, from any thread; `stopped` ends those that wait."""

    plan: Plan
    client: httpx.Client
    token: str | None = field(repr=False)
    token_origin: str
    stopped: threading.Event = field(default_factory=threading.Event)

    def get(self, url: str, *, limit_bytes: int) -> Answer:
        """The whole answer. Raises PullError, also for one that is longer than the limit."""

        def once() -> Answer:
            with self._answer(url, {}) as answer:
                body = b""
                for block in answer.iter_raw(_BLOCK_BYTES):
                    body += block
                    if len(body) > limit_bytes:
                        raise PullError(self.plan, "broken", f"{shown(url)} is longer than {limit_bytes} bytes")
                return Answer(body, answer.headers, str(answer.url))

        return self._patiently(once, lambda: 0)

    def download(self, url: str, part: Path, *, report: Reporter, size_bytes: int | None, is_checked: bool) -> None:
        """Download into `part`, going on from what it holds, and report every byte that is there.

        `is_checked` says that the caller knows a digest; without one, an old part is continued only if the server
        vouches (by ETag) that it is still the same file. Raises PullError; the part stays for another time.
        """
        tag = part.with_name(part.name + ".etag")

        def once() -> None:
            have = _size(part)
            etag = tag.read_text() if tag.exists() else ""
            if size_bytes is not None and have == size_bytes:
                return
            if have and not etag and not is_checked:
                have = _drop(part, report)
            wanted = {"Range": f"bytes={have}-"} if have else {}
            if have and etag:
                wanted["If-Range"] = etag
            with self._answer(url, wanted) as answer:
                if not _continues(answer, have):
                    have = _drop(part, report)
                    if answer.status_code != HTTPStatus.OK:
                        raise _TryAgain("the server could not go on from where it stopped")
                _note_etag(tag, answer.headers.get("ETag", ""))
                if size_bytes is None and answer.headers.get("Content-Length", "").isdigit():
                    report.expect(have + int(answer.headers["Content-Length"]))
                self._write(answer, part, report)

        report.advance(size_bytes=_size(part))
        self._patiently(once, lambda: _size(part))

    def _write(self, answer: httpx.Response, part: Path, report: Reporter) -> None:
        with part.open("ab") as file:
            for block in answer.iter_raw(_BLOCK_BYTES):
                if self.stopped.is_set():
                    raise PullError(self.plan, "network", "stopped")
                file.write(block)
                report.advance(size_bytes=len(block))

    def _patiently(self, once: Callable[[], Result], done: Callable[[], int]) -> Result:
        """Try until it works or has failed too often in a row; a try after which more is `done` is a new start."""
        failed, before = 0, done()
        while True:
            try:
                return once()
            except _TryAgain as problem:
                now = done()
                failed = 1 if now > before else failed + 1
                before = now
                tries = TRIES_TO_CONNECT if problem.is_connection else TRIES
                if failed >= tries or self.stopped.is_set():
                    raise PullError(self.plan, "network", f"{problem}, {failed} times in a row") from problem
                if problem.after_s is not None and problem.after_s > LONGEST_ASKED_PAUSE_S:
                    raise PullError(
                        self.plan, "network", f"{problem}, and asks to come back in {problem.after_s:.0f} seconds"
                    ) from problem
                longest = min(LONGEST_PAUSE_S, 0.5 * 2**failed)
                pause(problem.after_s or random.uniform(longest / 2, longest), self.stopped)  # noqa: S311 - jitter

    @contextmanager
    def _answer(self, url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """The streamed answer, redirects followed by hand: only http and https, never from https to http."""
        import httpx  # noqa: PLC0415 - see above

        try:
            for _ in range(_REDIRECTS):
                with self.client.stream("GET", url, headers=headers | self._own_headers(url)) as answer:
                    if answer.status_code not in _MOVED:
                        self._check(answer)
                        yield answer
                        return
                    url = self._next_hop(url, answer.headers.get("Location", ""))
        except httpx.TransportError as error:
            refused = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            what = str(error) or type(error).__name__
            raise _TryAgain(f"no connection to {urlsplit(url).hostname} ({what})", is_connection=refused) from error
        except httpx.InvalidURL as error:
            raise PullError(self.plan, "not-found", f"{shown(url)} is no address: {error}") from error
        raise PullError(self.plan, "broken", f"more than {_REDIRECTS} redirects")

    def _own_headers(self, url: str) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity", "User-Agent": "termarena"}
        if self.token and _origin(url) == _origin(self.token_origin):
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def _next_hop(self, url: str, location: str) -> str:
        try:
            target = urljoin(url, location)
            scheme = urlsplit(target).scheme if urlsplit(target).port != 0 else ""
        except ValueError:
            target = scheme = ""
        if scheme not in ("http", "https") or (urlsplit(url).scheme == "https" and scheme == "http"):
            raise PullError(self.plan, "unsafe", f"{shown(url)} redirects to {shown(target)[:80] or 'nowhere'}")
        return target

    def _check(self, answer: httpx.Response) -> None:
        status = answer.status_code
        address = shown(str(answer.url))
        if status in _AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _TryAgain(f"{address} answered {status}", after_s=asked_pause_s(answer.headers.get("Retry-After")))
        # The hub says 401 for what does not exist, too, and tells the two apart in a header of its own.
        code = answer.headers.get("X-Error-Code", "")
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE) or code in ("RepoNotFound", "RevisionNotFound"):
            raise PullError(self.plan, "not-found", f"{address} answered {status}{f' ({code})' if code else ''}")
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise PullError(self.plan, "unauthorised", f"{address} answered {status}{f' ({code})' if code else ''}")
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
            raise PullError(self.plan, "broken", f"{address} answered {status}")


def _continues(answer: httpx.Response, have: int) -> bool:
    """Whether the body goes on right after the `have` bytes that are there."""
    if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
        return str(answer.headers.get("Content-Range", "")).startswith(f"bytes {have}-")
    return answer.status_code == HTTPStatus.OK and have == 0


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _drop(part: Path, report: Reporter) -> int:
    report.advance(size_bytes=-_size(part))
    part.unlink(missing_ok=True)
    return 0


def _note_etag(tag: Path, etag: str) -> None:
    """Keep a strong ETag; a weak one does not vouch for the bytes."""
    if etag.startswith('"'):
        tag.write_text(etag)
    else:
        tag.unlink(missing_ok=True)


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def asked_pause_s(header: str | None) -> float | None:
    """What Retry-After asks for: seconds, or a date."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
