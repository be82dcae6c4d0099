"""Retrieving from an asciinema server: its lists into an index, then each recording's page and transcript.

The original recording is asked for only where a licence allows it: a server tells none, so whoever retrieves has to.
"""

from __future__ import annotations

import re
import time
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from termarena.core.errors import FetchError, UsageError
from termarena.forge.retrieving.index import FILE, FeedState, Index
from termarena.forge.retrieving.pages import Shown, parse_listing, parse_recording_page
from termarena.forge.retrieving.retrieved import Retrieved
from termarena.forge.retrieving.shelf import Origin, Shelf, digest_of, place_name
from termarena.forge.retrieving.visiting import RobotsRefuse, origin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.forge.retrieving.index import Entry, State
    from termarena.forge.retrieving.retrieved import Blocked
    from termarena.forge.retrieving.visiting import Visitor

__all__ = ["FEEDS", "Feed", "Mode", "ServerPlan", "retrieve_from_server"]

Feed = Literal["public", "recent", "featured", "popular"]
Mode = Literal["incremental", "repair", "refresh"]
FEEDS: Final[dict[Feed, str]] = {
    "public": "/explore/public",
    "recent": "/explore/recordings/recent",
    "featured": "/explore/recordings/featured",
    "popular": "/explore/recordings/popular",
}
DEFAULT_FEEDS: Final[tuple[Feed, ...]] = ("recent", "featured", "popular")
"""On servers of today `public` is another name of `recent`."""
STALE_PAGES: Final = 3
"""So many pages in a row without anything that this list did not show before: it has ended, or goes in circles."""
LARGEST_PAGE_BYTES: Final = 4 << 20
LARGEST_RECORDING_BYTES: Final = 64 << 20
_ONE: Final = re.compile(r"/a/([A-Za-z0-9]{1,64})/?")


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """What is to be retrieved, and how."""

    address: str
    """Of the server, or of the page of one recording."""
    mode: Mode = "incremental"
    feeds: tuple[Feed, ...] = DEFAULT_FEEDS
    licence: str | None = None
    """What every recording there is under, as whoever retrieves them knows; it allows their original files."""
    most_pages: int | None = None
    """Of each list."""
    most_recordings: int | None = None


class _Unwanted(Exception):
    """A recording that is left out, and how that is written down.

    With `stays`, what was retrieved of it earlier is kept: a server may ask for a login today and not tomorrow.
    """

    def __init__(self, state: State, why: str, *, stays: bool = False) -> None:
        super().__init__(why)
        self.state = state
        self.stays = stays


def retrieve_from_server(
    plan: ServerPlan, recordings: Path, visitor: Visitor, blocked: Blocked, on_step: Callable[[Retrieved, int], None]
) -> Retrieved:
    """Bring a server's recordings below `recordings`; `on_step` gets what is done and how many are to be fetched.

    One recording or list that fails stops no other one. Raises `UsageError` for an address that is none,
    `AddressRefused`.
    """
    origin = origin_of(plan.address)
    shelf = Shelf(recordings / place_name(origin.partition("://")[2]))
    with closing(Index(shelf.folder / FILE)) as index:
        errand = _Errand(plan, origin, shelf, index, visitor, blocked, Retrieved(str(shelf.folder)), on_step)
        errand.run()
        return errand.done


@dataclass(frozen=True, slots=True)
class _Errand:
    plan: ServerPlan
    origin: str
    shelf: Shelf
    index: Index
    visitor: Visitor
    blocked: Blocked
    done: Retrieved
    on_step: Callable[[Retrieved, int], None]

    def run(self) -> None:
        wanted = list(self._wanted())
        if self.plan.most_recordings is not None:
            wanted = wanted[: self.plan.most_recordings]
        for entry in wanted:
            self._take(entry)
            self.on_step(self.done, len(wanted))

    def _wanted(self) -> Iterator[Entry]:
        path = urlsplit(self.plan.address).path
        if one := _ONE.fullmatch(path):
            self.index.note(one[1], "listed")
            yield from (entry for entry in self.index.entries("listed") if entry.id == one[1])
            return
        if path not in ("", "/"):
            hint = "give the server, https://HOST, or the page of one recording, https://HOST/a/ID"
            raise UsageError(f"{self.plan.address} is neither a server nor a recording", hint=hint)
        if self.plan.mode == "repair":
            yield from self._broken()
            return
        for feed in self.plan.feeds:
            self._list(feed)
        if self.plan.mode == "refresh":
            yield from (entry for entry in self.index.entries() if entry.state != "blocked")
        else:
            yield from self.index.entries("listed", "failed")

    def _broken(self) -> Iterator[Entry]:
        """Everything that is not whole; also what lies on the shelf and in no index."""
        known = {entry.id for entry in self.index.entries()}
        for name in self.shelf.names():
            if name not in known and _ONE.fullmatch(f"/a/{name}"):
                self.index.note(name, "listed")
        for entry in self.index.entries("listed", "failed", "missing", "fetched"):
            if entry.state != "fetched" or self.shelf.get(entry.id) is None:
                yield entry

    # Lists.

    def _list(self, feed: Feed) -> None:
        """Read a list to its end, or to where it is known; a page that cannot be had ends it for today."""
        if self.plan.mode == "refresh":
            self.index.forget_feed(feed)
        state = self.index.feed(feed)
        is_again = state.is_done
        page = 1 if is_again else state.next_page
        stale = 0
        for number in range(page, page + (self.plan.most_pages or 1_000_000)):
            try:
                fresh, has_next = self._page(feed, number)
            except FetchError as error:
                self.done.problems.append(f"{feed}, page {number}: {error.message}")
                return
            stale = 0 if fresh else stale + 1
            is_known = is_again and stale
            if not has_next or is_known or stale >= STALE_PAGES:
                self.index.add(feed, (), FeedState(1, is_done=True))
                return
            if self._has_enough():
                return

    def _has_enough(self) -> bool:
        most = self.plan.most_recordings
        is_counted = most is not None and self.plan.mode == "incremental"
        return is_counted and len(self.index.entries("listed", "failed")) >= (most or 0)

    def _page(self, feed: Feed, number: int) -> tuple[int, bool]:
        """Take in one page; until the list's end, or what is known, was seen, it counts as read up to here."""
        url = f"{self.origin}{FEEDS[feed]}" + (f"?page={number}" if number > 1 else "")
        visit = self.visitor.get(url, limit_bytes=LARGEST_PAGE_BYTES)
        if visit.status != HTTPStatus.OK:
            raise FetchError(url, f"it answered {visit.status}")
        listing = parse_listing(visit.body, visit.url)
        fresh = self.index.add(feed, listing.recordings, FeedState(number + 1))
        self.done.pages += 1
        self.done.listed += fresh
        if listing.odd:
            self.done.problems.append(f"{feed}, page {number}: {listing.odd} entries that lead to no recording")
        self.on_step(self.done, 0)
        return fresh, listing.has_next and bool(listing.recordings)

    # Recordings.

    def _take(self, entry: Entry) -> None:
        address = f"{self.origin}/a/{entry.id}"
        before = self.shelf.get(entry.id)
        if before is not None and self.plan.mode != "refresh":  # an earlier call was ended before it noted this
            self.index.note(entry.id, "fetched")
            self.done.count("known")
            return
        try:
            self._fetch(entry, address)
        except _Unwanted as unwanted:
            self._leave_out(entry, address, unwanted, was_there=before is not None)
        except RobotsRefuse as error:
            self._note(entry, "refused", error.message)
        except FetchError as error:
            self._note(entry, "failed", f"{address}: {error.message}")
        else:
            self._note(entry, "fetched")

    def _note(self, entry: Entry, state: State, problem: str = "") -> None:
        self.index.note(entry.id, state, problem)
        self.done.count(state, problem)

    def _leave_out(self, entry: Entry, address: str, unwanted: _Unwanted, *, was_there: bool) -> None:
        self.index.note(entry.id, unwanted.state, str(unwanted))
        self.done.count(unwanted.state)
        if unwanted.stays:
            kept = "; what was retrieved earlier is kept" if was_there else ""
            self.done.problems.append(f"{address}: {unwanted}{kept}")
        elif unwanted.state in ("gone", "blocked", "refused") and self.shelf.remove(entry.id) and was_there:
            self.done.withdrawn.append(address)

    def _fetch(self, entry: Entry, address: str) -> None:
        if self.blocked.is_blocked_source(address):
            raise _Unwanted("blocked", "it was taken down here")
        page = self._get(address)
        shown = parse_recording_page(page)
        if not shown.is_public:
            raise _Unwanted("refused", "it is not public")
        file, content = self._content(address, shown)
        digest = digest_of(content)
        if self.blocked.is_blocked(digest):
            raise _Unwanted("blocked", "it was taken down here")
        self.shelf.put(entry.id, self._origin(entry, shown, address, file, digest), {file: content})

    def _get(self, url: str, *, limit_bytes: int = LARGEST_PAGE_BYTES) -> bytes:
        visit = self.visitor.get(url, limit_bytes=limit_bytes)
        if visit.status == HTTPStatus.OK:
            return visit.body
        if visit.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise _Unwanted("gone", f"it answered {visit.status}")
        is_asking = visit.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        raise _Unwanted("refused", f"it answered {visit.status}", stays=is_asking)

    def _content(self, address: str, shown: Shown) -> tuple[str, bytes]:
        """The original where that is allowed and can be had, else the transcript."""
        if self.plan.licence is not None and shown.original:
            suffix = shown.original.rpartition(".")[2]
            try:
                content = self._get(f"{address}.{suffix}", limit_bytes=LARGEST_RECORDING_BYTES)
            except (_Unwanted, RobotsRefuse) as error:
                self.done.problems.append(f"{address}: the original cannot be had ({error}); the transcript is taken")
            else:
                return f"recording.{suffix}", content
        try:
            return "recording.txt", self._get(f"{address}.txt", limit_bytes=LARGEST_RECORDING_BYTES)
        except _Unwanted as unwanted:
            raise _Unwanted("missing", f"its transcript: {unwanted}", stays=unwanted.stays) from unwanted

    def _origin(self, entry: Entry, shown: Shown, address: str, file: str, digest: str) -> Origin:
        return Origin(
            address=address,
            file=file,
            digest=digest,
            title=entry.title or shown.title,
            author=entry.author or shown.author,
            licence=self.plan.licence,
            description=shown.description,
            environment=shown.environment,
            version=shown.version,
            cols=shown.cols,
            rows=shown.rows,
            duration=entry.duration,
            submitted_at=entry.submitted_at or shown.submitted_at,
            views=shown.views,
            retrieved_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        )
