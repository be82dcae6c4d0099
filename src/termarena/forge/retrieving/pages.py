"""The pages of an asciinema server: what a list of recordings and the page of one recording say.

The shapes are those of asciinema-server of June 2026; what is not there stays empty, and nothing here trusts a page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

__all__ = ["Listed", "Listing", "Shown", "parse_listing", "parse_recording_page"]

LONGEST_TEXT: Final = 500
LONGEST_DESCRIPTION: Final = 4000
MOST_CARDS: Final = 500
MOST_OPEN: Final = 100
"""Elements within elements; those that lie deeper are not told apart."""
_ID: Final = re.compile(r"/a/([A-Za-z0-9]{1,64})")
_SIZE: Final = re.compile(r"cols:\s*(\d{1,4})\s*,\s*rows:\s*(\d{1,4})")
_VERSION: Final = re.compile(r"asciicast v(\d)\s+format")
_ORIGINAL: Final = re.compile(r"/a/[A-Za-z0-9]{1,64}\.(cast|json)")
_VIEWS: Final = re.compile(r"[\d,.]+\s*views?")
_VOID: Final = frozenset(("br", "hr", "img", "input", "link", "meta", "source", "wbr"))


class Listed(NamedTuple):
    """A recording as a list shows it."""

    id: str
    title: str = ""
    author: str = ""
    duration: str = ""
    submitted_at: str = ""


class Listing(NamedTuple):
    """One page of a list."""

    recordings: tuple[Listed, ...]
    has_next: bool
    page: int | None
    """As the page itself counts."""
    odd: int
    """Entries that lead elsewhere than to a recording."""


class Shown(NamedTuple):
    """What the page of one recording says."""

    title: str = ""
    author: str = ""
    submitted_at: str = ""
    description: str = ""
    environment: str = ""
    views: str = ""
    version: str = ""
    cols: int | None = None
    rows: int | None = None
    original: str = ""
    """The path of the file as it was recorded."""
    is_public: bool = True


def parse_listing(content: bytes, url: str) -> Listing:
    """The recordings on a page that came from `url`, in order, each once."""
    reader = _ListReader()
    reader.read(content)
    found: dict[str, Listed] = {}
    odd = 0
    for card in reader.cards[:MOST_CARDS]:
        name = _recording_id(card.href, url)
        if name is None:
            odd += 1
        else:
            found.setdefault(name, Listed(name, *map(_short, (card.title, card.author, card.duration, card.time))))
    page = int(reader.active) if reader.active.isdecimal() and len(reader.active) <= 6 else None  # noqa: PLR2004 - pages
    return Listing(tuple(found.values()), reader.has_next, page, odd)


def _recording_id(href: str, url: str) -> str | None:
    try:
        target, here = urlsplit(urljoin(url, href)), urlsplit(url)
    except ValueError:
        return None
    found = _ID.fullmatch(target.path)
    return found[1] if found and (target.scheme, target.netloc) == (here.scheme, here.netloc) else None


def parse_recording_page(content: bytes) -> Shown:
    """What the page of a recording says."""
    reader = _PageReader()
    reader.read(content)
    text = content.decode("utf-8", "replace")
    size, version = _SIZE.search(text), _VERSION.search(text)
    status = [_short(line) for line in reader.status]
    original = _ORIGINAL.fullmatch(_path_of(reader.original))
    return Shown(
        title=_short(reader.title),
        author=_short(reader.author),
        submitted_at=_short(reader.time),
        description=" ".join(reader.description.split())[:LONGEST_DESCRIPTION],
        environment=next((line for line in status if not _VIEWS.fullmatch(line)), ""),
        views=next((line for line in status if _VIEWS.fullmatch(line)), ""),
        version=version[1] if version else "",
        cols=int(size[1]) if size else None,
        rows=int(size[2]) if size else None,
        original=original[0] if original else "",
        is_public=reader.is_public,
    )


def _path_of(href: str) -> str:
    try:
        return urlsplit(href).path
    except ValueError:
        return ""


def _short(text: str) -> str:
    return " ".join(text.split())[:LONGEST_TEXT]


class _Reader(HTMLParser):
    """Keeps the open elements, each with its classes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, frozenset[str]]] = []

    def read(self, content: bytes) -> None:
        self.feed(content.decode("utf-8", "replace"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.began(tag, given)
        if tag not in _VOID and len(self.open) < MOST_OPEN:
            self.open.append((tag, frozenset(given.get("class", "").split())))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.began(tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        for at in range(len(self.open) - 1, -1, -1):
            if self.open[at][0] == tag:
                del self.open[at:]
                return

    def is_in(self, tag: str, name: str = "") -> bool:
        return any(tag == one and (not name or name in classes) for one, classes in self.open)

    def began(self, tag: str, given: dict[str, str]) -> None:
        """An element begins."""
        raise NotImplementedError


@dataclass(slots=True)
class _Card:
    href: str = ""
    title: str = ""
    author: str = ""
    duration: str = ""
    time: str = ""


class _ListReader(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self.cards: list[_Card] = []
        self.has_next = False
        self.active = ""

    def began(self, tag: str, given: dict[str, str]) -> None:
        classes = given.get("class", "").split()
        if tag == "div" and "info" in classes:
            self.cards.append(_Card())
        elif tag == "a" and self.is_in("nav", "pagination"):
            self.has_next |= given.get("rel") == "next"
        elif self.cards and self.is_in("div", "info"):
            card = self.cards[-1]
            if tag == "a" and self.is_in("span", "author-avatar"):
                card.author = card.author or given.get("title", "")
            elif tag == "a":
                card.href = card.href or given.get("href", "")
            elif tag == "time":
                card.time = card.time or given.get("datetime", "")

    def handle_data(self, data: str) -> None:
        if self.is_in("nav", "pagination"):
            self.active += data.strip() if self.is_in("a", "active") else ""
        elif self.cards and self.is_in("div", "info"):
            card = self.cards[-1]
            if self.is_in("span", "duration"):
                card.duration += data
            elif self.is_in("h3") and self.is_in("a"):
                card.title += data


class _PageReader(_Reader):
    """The sections `info` and `meta`; what other recordings are shown below is another section."""

    def __init__(self) -> None:
        super().__init__()
        self.title = self.author = self.time = self.description = self.original = ""
        self.is_public = True
        self.status: list[str] = []

    def began(self, tag: str, given: dict[str, str]) -> None:
        classes = given.get("class", "").split()
        if tag == "link" and given.get("rel") == "alternate" and "asciicast" in given.get("type", ""):
            self.original = given.get("href", "")
        elif tag == "meta" and given.get("name") == "robots":
            self.is_public &= "noindex" not in given.get("content", "")
        elif tag == "span" and "status-line-item" in classes:
            self.status.append("")
        elif self.is_in("section", "info"):
            if tag == "a" and self.is_in("span", "author-avatar"):
                self.author = self.author or given.get("title", "")
            elif tag == "time":
                self.time = self.time or given.get("datetime", "")

    def handle_data(self, data: str) -> None:
        if self.is_in("section", "info") and self.is_in("h2"):
            self.title += data
        elif self.is_in("div", "description"):
            self.description += data
        elif self.is_in("span", "status-line-item"):
            self.status[-1] += data
