"""What a request is answered from."""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from termarena.arena.broadcasting import Broadcasts
from termarena.arena.config import ArenaConfig
from termarena.arena.database import Database
from termarena.arena.guarding import Buckets
from termarena.arena.hall import Hall
from termarena.arena.segmenting import Segments
from termarena.arena.uploading import Inbox
from termarena.arena.watching import Watcher

__all__ = ["Held", "HeldNow"]


@dataclass(frozen=True, slots=True)
class Held:
    """One of each per server."""

    config: ArenaConfig
    database: Database
    watcher: Watcher
    inbox: Inbox
    bad_keys: Buckets
    hall: Hall
    broadcasts: Broadcasts
    segments: Segments


def _held(connection: HTTPConnection) -> Held:
    return cast("Held", connection.app.state.held)


HeldNow = Annotated[Held, Depends(_held)]
