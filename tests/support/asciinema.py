"""A server on loopback with the pages of an asciinema server: lists, recordings, transcripts, robots.txt."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tasks.pull.servers import Reply, Site

if TYPE_CHECKING:
    from collections.abc import Sequence

ROBOTS = b"""\
User-Agent: *
Disallow: /a/*.json
Disallow: /a/*.png

User-Agent: Twitterbot
Allow: /a/*.png
"""
PAGE = 3
_CARD = """
<div><div class="asciicast-card">
  <a href="{href}" class="thumbnail-link"><div class="thumbnail"><img src="/x.svg"></div></a>
  <div class="info">
    <h3> <a href="{href}">{title}</a> <span class="duration">  01:42 </span> </h3>
    <span class="author-avatar"><a href="/~ann" title="ann"><img src="/ann.png"></a></span>
    <small> by <a href="/~ann">ann</a> <time datetime="2026-03-01T10:00:00Z">in March</time> </small>
  </div>
</div></div>"""
_PAGE = """<!DOCTYPE html><html><head>
<link rel="alternate" type="application/x-asciicast" href="https://casts.example/a/{id}.{suffix}">
{robots}</head><body>
<section class="even info"><div class="container">
<span class="author-avatar"><a href="/~ann" title="ann"><img></a></span>
<h2>{title}</h2><small>by <a href="/~ann">ann</a> <time datetime="2026-03-01T10:00:00Z">x</time></small></div></section>
<section class="odd meta"><div class="container"><div class="status-line">
<span class="status-line-item"><svg><path d="M1"/></svg> <span>GNU/Linux</span> • xterm-256color • bash</span>
<span class="status-line-item" title="Total views">1,234 views</span></div>
<hr><div class="description"><p>How to <b>sort</b>.</p></div></div></section>
<section class="even more-by"><div class="info"><h2>More</h2><a href="/a/999">Other</a></div></section>
<p>in <a href="x">asciicast v{version} format</a>, as a file.</p><pre>&lbrace; cols: 100, rows: 30 &rbrace;</pre>
</body></html>"""


class Cast(NamedTuple):
    """A recording that the server has."""

    id: str
    title: str = "Sort the names"
    text: bytes | None = b"$ sort a > b\n$ cat b\n1\n"
    original: bytes = b""
    version: int = 2
    is_public: bool = True


class Asciinema(Site):
    """Lists of `casts`, three on a page; a cast may stand on several."""

    def __init__(self, casts: Sequence[Cast]) -> None:
        super().__init__()
        self.lists: dict[str, Sequence[Cast]] = {"recent": casts}
        self.casts = {cast.id: cast for cast in casts}
        self.robots = ROBOTS
        self.extra_cards = ""
        self.goes_in_circles = False
        self.statuses: dict[str, int] = {}
        """What a recording's page answers instead."""

    def reply_to(self, path: str) -> Reply:
        parts = urlsplit(path)
        if parts.path == "/robots.txt":
            return Reply(200, self.robots)
        if parts.path.startswith("/explore/"):
            return self._list(parts.path.rpartition("/")[2], int(parse_qs(parts.query).get("page", ["1"])[0]))
        name, _, suffix = parts.path.removeprefix("/a/").partition(".")
        cast = self.casts.get(name)
        if cast is None or name in self.statuses:
            return Reply(self.statuses.get(name, 404))
        return self._file(cast, suffix)

    def _file(self, cast: Cast, suffix: str) -> Reply:
        if not suffix:
            robots = "" if cast.is_public else '<meta name="robots" content="noindex, nofollow">'
            kind = "json" if cast.version == 1 else "cast"
            values = {"id": cast.id, "title": escape(cast.title), "robots": robots, "version": cast.version}
            return Reply(200, _PAGE.format(**values, suffix=kind).encode())
        content = cast.text if suffix == "txt" else cast.original
        return Reply(404) if content is None else Reply(200, content)

    def _list(self, name: str, page: int) -> Reply:
        casts = self.lists.get(name)
        if casts is None:
            return Reply(200, b"<p>No recordings have been made public yet.</p>")
        pages = max(1, -(-len(casts) // PAGE))
        at = (page - 1) % pages if self.goes_in_circles else page - 1
        cards = "".join(_CARD.format(href=f"/a/{c.id}", title=escape(c.title)) for c in casts[PAGE * at :][:PAGE])
        more = f'<a href="?page={page + 1}" rel="next">&gt;&gt;</a>' if self.goes_in_circles or page < pages else ""
        nav = f'<nav class="pagination"><a href="?">1</a><a class="active">{page}</a>{more}</nav>'
        return Reply(200, f"<html><body>{cards}{self.extra_cards}{nav}</body></html>".encode())
