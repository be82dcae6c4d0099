"""What battles of an arena need: a referee over small tasks, and white agents on loopback, each in a thread."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from battles.whites import FINAL, SOLVES, White, white_at
from support.arena_server import PATIENCE_S, Server, served, until
from support.tasks import make_task
from termarena.arena import battling
from termarena.arena.config import BattleConfig
from termarena.arena.contenders import Card
from termarena.arena.keys import add_key
from termarena.arena.schema import Contender
from termarena.battles.addresses import AddressPolicy
from termarena.battles.config import GreenConfig, SessionSettings
from termarena.battles.referee import Referee
from termarena.battles.serving import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from termarena.arena.database import Database


def battle_config(runs: Path, home: Path, *, tasks: Sequence[str] = ("one",), **settings: Any) -> BattleConfig:  # noqa: ANN401 - fields of BattleConfig
    """Battles about these tasks: write 1 to /app/one.txt."""
    made = [make_task(runs.parent / "tasks" / name) for name in tasks]
    policy = AddressPolicy()

    def referee() -> Referee:
        config = GreenConfig(driver="namespace", session=SessionSettings(first_contact_s=0.5))
        return Referee(config, made, dataset="test", out=runs, home=home, policy=policy)

    return replace(BattleConfig(policy, referee, poll_interval_s=0.05), **settings)


@contextmanager
def battling_server(runs: Path, home: Path, db_url: str | None = None, **settings: Any) -> Iterator[Server]:  # noqa: ANN401 - fields of BattleConfig
    """A server that fights, whose client has a key."""
    with served(runs, db_url, battles=battle_config(runs, home, **settings)) as server:
        key = add_key(server.held.database, "lab", ["submit"])
        server.client.headers["Authorization"] = f"Bearer {key}"
        yield server


@contextmanager
def white_served(
    say: Callable[[int, str], Any] | None = None, *, key: str | None = None, style: str = "status"
) -> Iterator[str]:
    """A white agent's address; without words of its own it solves the task."""
    began, stop = threading.Event(), threading.Event()
    address: list[str] = []

    async def serve() -> None:
        async with white_at(White(say, style=style), Place(key=key)) as url:
            address.append(url)
            began.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert began.wait(PATIENCE_S)
    try:
        yield address[0]
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def registered(server: Server, url: str, **more: str) -> str:
    """The id of an agent that is made known."""
    answer = server.client.post("/api/contenders", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def asked(server: Server, white: str, **more: Any) -> str:  # noqa: ANN401 - fields of the request
    """The id of a battle that is asked for."""
    answer = server.client.post("/api/battles", json={"white": white, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def ended(server: Server, battle: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """The battle, once it is over."""
    until(lambda: server.json(f"/battles/{battle}")["state"] not in ("queued", "running"))
    return server.json(f"/battles/{battle}")


def queued(database: Database, white: str = "http://127.0.0.1:1") -> str:
    """A battle in the queue, its agent known without a card."""
    slug, moment = secrets.token_hex(6), "2026-01-01T00:00:00.000Z"
    with database.writing() as session:
        session.add(
            Contender(
                slug=slug,
                name="white",
                url=white,
                role="white",
                card=Card("white", "", "1", ("terminal",)).as_json(),
                about="{}",
                owner=slug,
                registered_at=moment,
                checked_at=moment,
                is_alive=True,
                problem="",
            )
        )
    return battling.create(database, battling.Wish(slug, None, {}, "lab")).id


class Held:
    """A white agent that waits before each answer: `go_on` lets one through, `may_go_on` all."""

    def __init__(self, first: dict[str, Any] = SOLVES) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self._one = threading.Semaphore(0)
        self._first = first

    def go_on(self) -> None:
        """Let one answer through."""
        self._one.release()

    async def __call__(self, turn: int) -> Any:  # noqa: ANN401 - any JSON
        self.begun.set()
        await asyncio.to_thread(self._wait)
        return self._first if turn == 1 else FINAL

    def _wait(self) -> None:
        deadline = time.monotonic() + 5 * PATIENCE_S  # a test that failed lets nobody go on
        while not self.may_go_on.is_set() and time.monotonic() < deadline:
            if self._one.acquire(timeout=0.05):
                return
