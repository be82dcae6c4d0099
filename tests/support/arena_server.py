"""A real server of the arena on loopback, and runs to put into it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn

from termarena.arena.app import create_app
from termarena.arena.config import ArenaConfig
from termarena.arena.serving import listen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.arena.held import Held

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Server:
    """One that answers."""

    url: str
    client: httpx.Client
    held: Held

    def json(self, path: str, **parameters: str | int) -> Any:  # noqa: ANN401 - whatever JSON holds
        """What the API answers to a question that it must answer."""
        answer = self.client.get(f"/api{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def page(self, path: str) -> str:
        """A page that must be there."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    def look(self) -> int:
        """Take in what is new in the folder of runs."""
        return self.held.watcher.look()


@contextmanager
def served(runs: Path, db_url: str | None = None, **settings: Any) -> Iterator[Server]:  # noqa: ANN401 - fields of ArenaConfig
    """A server over this folder of runs; it looks at it once before it answers, and then only when it is told."""
    runs.mkdir(parents=True, exist_ok=True)
    url = db_url or f"sqlite:///{runs.parent / 'arena.db'}"
    config = replace(ArenaConfig(url, runs, port=0, watch_interval_s=3600), **settings)
    listening = listen(config)
    app = create_app(replace(config, url=listening.url))
    app.state.held.watcher.look()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening.socket]})
    thread.start()
    try:
        until(lambda: server.started)
        with httpx.Client(base_url=listening.url, timeout=PATIENCE_S) as client:
            yield Server(listening.url, client, app.state.held)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listening.socket.close()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.01)
