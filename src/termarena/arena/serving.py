"""Running the server: where it listens, until it is told to stop."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import uvicorn

from termarena.arena.app import create_app
from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.arena.config import ArenaConfig

__all__ = ["Listening", "listen", "serve"]

GRACE_S: Final = 3
"""Whoever watches a battle would hold the server up for as long as it lasts."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that is bound, and its address."""

    socket: socket.socket
    url: str


def listen(config: ArenaConfig) -> Listening:
    """Bind; port 0 is any free one. Raises UsageError where the address is taken or is none."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((config.host, config.port))
        bound.listen()  # whoever reads the address may ask at once, and waits until there is an answer
    except OSError as error:
        bound.close()
        raise UsageError(
            f"cannot listen on {config.host}:{config.port}: {error.strerror or error}",
            hint="choose another --port, or 0 for any",
        ) from error
    name = f"[{config.host}]" if family == socket.AF_INET6 else config.host
    return Listening(bound, f"http://{name}:{bound.getsockname()[1]}")


def serve(config: ArenaConfig, listening: Listening, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` comes first. Raises UsageError where the database cannot be opened."""
    app = create_app(replace(config, url=config.url or listening.url))
    on_ready()
    settings = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        ws="websockets-sansio",
    )
    uvicorn.Server(settings).run(sockets=[listening.socket])
