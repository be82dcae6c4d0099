"""The index of a server's recordings: which there are, how far each list was read, what came of each recording."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from termarena.forge.retrieving.pages import Listed

__all__ = ["FILE", "Entry", "FeedState", "Index", "State"]

FILE: Final = "index.sqlite"
State = Literal["listed", "fetched", "missing", "refused", "gone", "failed", "blocked"]
"""`missing`: there is a page and no transcript; `refused`: not public, or robots.txt; `gone`: withdrawn at its source;
`failed`: to be tried again; `blocked`: taken down here."""
_SCHEMA: Final = """
create table if not exists recordings (
    id text primary key, title text not null, author text not null, duration text not null, submitted_at text not null,
    state text not null default 'listed', why text not null default ''
);
create table if not exists feeds (name text primary key, next_page integer not null, is_done integer not null);
create table if not exists seen (feed text not null, id text not null, primary key (feed, id));
"""


class Entry(NamedTuple):
    """A recording that the index knows."""

    id: str
    title: str
    author: str
    duration: str
    submitted_at: str
    state: State
    why: str


class FeedState(NamedTuple):
    """How far a list was read."""

    next_page: int = 1
    is_done: bool = False
    """Whether it was read to its end, or to what was known; then it is read from its beginning."""


class Index:
    """An index in a file; every call is one transaction, so that whatever ends the process, it goes on from there."""

    def __init__(self, path: Path) -> None:
        """Raises `UsageError` for a file that is no index."""
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None)
        try:
            self._database.executescript(f"pragma journal_mode = wal; {_SCHEMA}")
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise UsageError(f"{path} is no index: {error}", hint="move that file away and retrieve again") from error

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def feed(self, name: str) -> FeedState:
        """How far a list was read."""
        with closing(self._database.execute("select next_page, is_done from feeds where name = ?", (name,))) as rows:
            row = rows.fetchone()
        return FeedState(row[0], bool(row[1])) if row else FeedState()

    def add(self, feed: str, found: Iterable[Listed], state: FeedState) -> int:
        """Take in one page of a list, and how far the list is read then; how many this list did not show before."""
        execute = self._database.execute
        fresh = 0
        execute("begin immediate")
        try:
            for one in found:
                execute(
                    "insert into recordings (id, title, author, duration, submitted_at) values (?, ?, ?, ?, ?)"
                    " on conflict (id) do update set title = excluded.title, duration = excluded.duration",
                    one,
                )
                fresh += execute("insert or ignore into seen values (?, ?)", (feed, one.id)).rowcount
            execute("insert or replace into feeds values (?, ?, ?)", (feed, state.next_page, state.is_done))
        except BaseException:
            execute("rollback")
            raise
        execute("commit")
        return fresh

    def forget_feed(self, feed: str) -> None:
        """Read a list from its beginning, as if it had never been read."""
        self._database.execute("delete from seen where feed = ?", (feed,))
        self._database.execute("delete from feeds where name = ?", (feed,))

    def note(self, name: str, state: State, why: str = "") -> None:
        """What came of a recording; one that no list showed is taken in."""
        self._database.execute(
            "insert into recordings values (?, '', '', '', '', ?, ?)"
            " on conflict (id) do update set state = excluded.state, why = excluded.why",
            (name, state, why[:500]),
        )

    def entries(self, *states: State) -> list[Entry]:
        """The recordings in one of these states, in the order in which they were found; without a state, all."""
        chosen = f"where state in ({', '.join('?' * len(states))})" if states else ""
        query = f"select id, title, author, duration, submitted_at, state, why from recordings {chosen} order by rowid"  # noqa: S608 - marks only
        with closing(self._database.execute(query, states)) as rows:
            return [Entry(*row) for row in rows]
