"""Serving until a signal comes: what `green` and `white` share."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from termarena.battles.serving import Place, serve
from termarena.cli.output import print_json, say
from termarena.core.errors import TermArenaError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from a2a.server.agent_execution import AgentExecutor
    from starlette.routing import BaseRoute

    from termarena.battles.cards import CardText
    from termarena.battles.launching import Launcher

__all__ = ["GREEN_KEY", "TOKEN_VARIABLE", "Standing", "key_in", "launcher_at", "place_of", "stand"]

GREEN_KEY = "TERMARENA_GREEN_KEY"
TOKEN_VARIABLE = "TERMARENA_BACKEND_TOKEN"  # noqa: S105 - the name of a variable
SHORTEST_KEY = 16


class Standing(NamedTuple):
    """What is served, and how it ends."""

    executor: AgentExecutor
    end: Callable[[], Awaitable[None]]
    routes: Callable[[str], Any] = lambda _url: ()
    """Further routes, once the address is known."""
    life: Callable[[], Any] = nullcontext
    launcher: Launcher | None = None
    """Where it is registered with a backend."""


def key_in(key_file: Path | None, variable: str) -> str | None:
    """The key of a file, else of a variable. Raises `UsageError` for one that is short or not readable."""
    try:
        key = key_file.read_text().strip() if key_file is not None else os.environ.get(variable, "")
    except OSError as error:
        raise UsageError(f"cannot read {key_file}: {error.strerror}") from error
    if key_file is not None and not key:
        raise UsageError(f"{key_file} is empty")
    if key and len(key) < SHORTEST_KEY:
        raise UsageError(f"a key has at least {SHORTEST_KEY} characters", hint="openssl rand -hex 24 makes one")
    return key or None


def place_of(*, host: str, port: int, card_url: str | None, key: str | None) -> Place:
    """Where to listen. Raises `UsageError` for a server that anybody could use."""
    place = Place(host=host, port=port, card_url=card_url, key=key)
    place.check()
    return place


def stand(make: Callable[[], Standing], text: CardText, place: Place, *, what: str, json: bool) -> None:
    """Serve what `make` gives (called where the event loop runs) until SIGINT or SIGTERM, and say where."""

    async def main() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.set)
        standing, problem = make(), None
        try:
            async with serve(standing.executor, text, place, extra=_routes(standing), life=standing.life) as served:
                try:
                    agent_id = await standing.launcher.register(served.url) if standing.launcher is not None else None
                except TermArenaError as error:  # raised below: a task group around this block would wrap it
                    problem = error
                    return
                if json:
                    print_json({"url": served.url, "port": served.port, "agent_id": agent_id}, is_line=True)
                say(f"{what} is at {served.url} (Ctrl-C ends it)")
                if agent_id is not None:
                    say(f"registered with the backend as {agent_id}")
                await ended.wait()
        finally:
            if standing.launcher is not None:
                await standing.launcher.aclose()
            await standing.end()
            if problem is not None:
                raise problem

    asyncio.run(main())


def _routes(standing: Standing) -> Callable[[str], list[BaseRoute]]:
    launcher = standing.launcher.routes() if standing.launcher is not None else ()
    return lambda url: [*launcher, *standing.routes(url)]


def launcher_at(backend: str | None, *, alias: str, is_green: bool, networks: Sequence[str] = ()) -> Launcher | None:
    """How an agent is made known to a backend, if one was named. TERMARENA_BACKEND_TOKEN is the user's token there."""
    if backend is None:
        return None
    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.backend import Backend
    from termarena.battles.launching import Launcher

    known = Backend(backend, AddressPolicy.of(networks), os.environ.get(TOKEN_VARIABLE))
    return Launcher(known, alias=alias, is_green=is_green)
