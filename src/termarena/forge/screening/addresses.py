"""Whether public addresses still answer: the one question of screening that uses a network, where rules allow it."""

from __future__ import annotations

import http.client
import socket
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from termarena.core.errors import AddressRefused
from termarena.forge.asking import MOST_HOPS, ask, way_to

__all__ = ["Reached", "reached"]

_NO_SUCH_NAME: Final = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
GONE: Final = (404, 410, 451)
NOT_BY_HEAD: Final = (405, 501)
MOST_REMEMBERED: Final = 4096


class Reached(NamedTuple):
    """What became of asking; neither alive nor dead where that cannot be told from here."""

    is_alive: bool
    is_dead: bool
    why: str


@lru_cache(MOST_REMEMBERED)
def reached(url: str) -> Reached:
    """Ask an address once, and where it leads: public addresses only, each looked up before it is asked."""
    try:
        for _ in range(MOST_HOPS):
            way = way_to(url)
            answer = ask(url, way, method="HEAD")
            if answer.status in NOT_BY_HEAD:
                answer = ask(url, way)
            if answer.location is None:
                is_dead = answer.status in GONE
                return Reached(answer.status < 400, is_dead, f"it answers {answer.status}")  # noqa: PLR2004 - as HTTP has it
            url = urljoin(url, answer.location)
            if urlsplit(url).scheme not in ("http", "https"):
                return Reached(is_alive=False, is_dead=True, why=f"it leads to {url[:100]}")
    except AddressRefused as error:
        return Reached(is_alive=False, is_dead=True, why=error.why)
    except (OSError, ValueError, http.client.HTTPException) as error:
        is_unknown = isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME
        return Reached(is_alive=False, is_dead=is_unknown, why=f"it does not answer: {error}"[:200])
    return Reached(is_alive=False, is_dead=True, why=f"it leads on more than {MOST_HOPS} times")
