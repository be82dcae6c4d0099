"""Live battles for any number of viewers: each battle is read once, each event is written out once, and a viewer who
does not keep up is let go instead of being waited for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from termarena.arena import battling
from termarena.arena.tailing import Tail
from termarena.core.errors import Refused, TermArenaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from termarena.arena.database import Database
    from termarena.arena.hall import Hall
    from termarena.arena.tailing import Happening

__all__ = ["Broadcasts", "Sent"]

TICK_S: Final = 0.1
"""How often terminals are read."""
ROWS_TICK_S: Final = 0.4
"""How often the database is asked."""
QUEUE: Final = 256
"""Messages that wait for one viewer when more come, beyond those that came at once."""
HISTORY_BYTES: Final = 2 << 20
"""What a viewer who comes later is told of before: the last so many bytes."""
MOST_AT_ONCE_BYTES: Final = 4 * HISTORY_BYTES
"""Of what happened between two looks."""
MOST_VIEWERS: Final = 1_000


class Sent(NamedTuple):
    """An event as it goes over the wire, made once for all."""

    event: str
    data: str

    def sse(self) -> str:
        """As a server-sent event."""
        return f"event: {self.event}\ndata: {self.data}\n\n"

    def message(self) -> str:
        """As a message of a WebSocket."""
        return f'{{"event": {json.dumps(self.event)}, "data": {self.data}}}'


class Broadcasts:
    """The battles that someone watches, on the event loop of the web server."""

    def __init__(self, database: Database, hall: Hall) -> None:
        """Nothing is read while nobody watches."""
        self._database = database
        self._hall = hall
        self._open: dict[str, _Broadcast] = {}

    @asynccontextmanager
    async def viewer(self, slug: str) -> AsyncIterator[AsyncIterator[Sent]]:
        """What is told of a battle that `check` lets through, from its beginning to its end."""
        broadcast = self._open.get(slug)
        if broadcast is None:
            broadcast = self._open[slug] = _Broadcast(slug, self._database, self._hall)
        viewer = broadcast.join()
        try:
            yield _received(viewer)
        finally:
            if broadcast.leave(viewer) and self._open.get(slug) is broadcast:
                del self._open[slug]
                await broadcast.close()

    def viewers(self) -> int:
        """How many there are, of all battles."""
        return sum(len(one.queues) for one in self._open.values())

    def check(self, slug: str) -> None:
        """Raises NotFound, and Refused for one viewer too many."""
        with self._database.reading() as session:
            battling.find_battle(session, slug)
        if self.viewers() >= MOST_VIEWERS:
            raise Refused(f"{MOST_VIEWERS} people watch already", status=503, hint="come back later")


async def _received(queue: asyncio.Queue[Sent | None]) -> AsyncIterator[Sent]:
    while (sent := await queue.get()) is not None:
        yield sent


class _Broadcast:
    """One battle."""

    def __init__(self, slug: str, database: Database, hall: Hall) -> None:
        self._slug = slug
        self._database = database
        self._hall = hall
        self._seq = 0
        self._tail: Tail | None = None
        self._rows_at = 0.0
        self._history: deque[Sent] = deque()
        self._history_bytes = 0
        self._is_over = False
        self.queues: dict[asyncio.Queue[Sent | None], int] = {}
        """Of the viewers, each with the most that was put in at once: nobody can have read that meanwhile."""
        self._task = asyncio.create_task(self._go_on())

    def join(self) -> asyncio.Queue[Sent | None]:
        queue: asyncio.Queue[Sent | None] = asyncio.Queue()
        for sent in self._history:
            queue.put_nowait(sent)
        if self._is_over:
            queue.put_nowait(None)
        self.queues[queue] = len(self._history)
        return queue

    def leave(self, queue: asyncio.Queue[Sent | None]) -> bool:
        """Whether nobody is left."""
        self.queues.pop(queue, None)
        return not self.queues

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _go_on(self) -> None:
        while not self._is_over:
            with contextlib.suppress(SQLAlchemyError, TermArenaError, OSError):  # it is asked again
                self._send(await asyncio.to_thread(self._collect))
            if not self._is_over:
                await asyncio.sleep(TICK_S)
        for queue in self.queues:
            queue.put_nowait(None)

    def _collect(self) -> list[Sent]:
        """What is new, in a thread: terminals first, so that nothing comes after the end."""
        has_ended = False
        rows = []
        if time.monotonic() - self._rows_at >= ROWS_TICK_S:
            with self._database.reading() as session:
                has_ended = battling.find_battle(session, self._slug).is_over
                rows = battling.events_since(session, self._slug, self._seq)
            self._rows_at = time.monotonic()
        is_first = self._seq == 0  # what was told before anyone watched comes before what happens now
        told = [_made(row.kind, {"at": row.at, **row.content}) for row in rows]
        self._seq = rows[-1].seq if rows else self._seq
        happened = _latest(_made(one.kind, one.content) for one in self._happenings())
        found = [*told, *happened] if is_first else [*happened, *told]
        if has_ended and not rows:  # everything that was told before the end is told
            self._is_over = True
            found.append(_made("end", {}))
        return found

    def _happenings(self) -> Iterable[Happening]:
        folder = self._hall.folder_of(self._slug)
        if self._tail is None and folder is not None:
            self._tail = Tail(folder, self._hall.scrubber_of(self._slug))
        return self._tail.read() if self._tail is not None else ()

    def _send(self, found: list[Sent]) -> None:
        """To all who keep up; for others what waits is thrown away, and the stream ends: browsers come back."""
        for sent in found:
            self._history.append(sent)
            self._history_bytes += len(sent.data)
            while self._history_bytes > HISTORY_BYTES:
                self._history_bytes -= len(self._history.popleft().data)
        for queue, most in tuple(self.queues.items()):
            if found and queue.qsize() > QUEUE + most:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)
                del self.queues[queue]
                continue
            for sent in found:
                queue.put_nowait(sent)
            self.queues[queue] = max(most, len(found))


def _latest(happened: Iterable[Sent]) -> list[Sent]:
    """The last of it: whoever comes to a battle that has gone on for long would read all of its recordings at once."""
    kept, kept_bytes = deque[Sent](), 0
    for sent in happened:
        kept.append(sent)
        kept_bytes += len(sent.data)
        while kept_bytes > MOST_AT_ONCE_BYTES:
            kept_bytes -= len(kept.popleft().data)
    return list(kept)


def _made(event: str, content: Mapping[str, Any]) -> Sent:
    return Sent(event, json.dumps(content, ensure_ascii=False).encode("utf-8", "replace").decode())
