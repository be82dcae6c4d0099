"""The web application: what it holds, what it answers, and how errors are told."""

from __future__ import annotations

from asyncio import to_thread
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from termarena import __version__
from termarena.arena import agentbeats, api, battle_api, battle_pages, pages, submissions
from termarena.arena.allowing import may_read
from termarena.arena.broadcasting import Broadcasts
from termarena.arena.database import Database
from termarena.arena.guarding import Buckets, Guard
from termarena.arena.hall import Hall
from termarena.arena.held import Held
from termarena.arena.links import ServerLinks
from termarena.arena.mcp_door import mcp_route
from termarena.arena.proofs import Shelf
from termarena.arena.rendering import render
from termarena.arena.segmenting import Segments
from termarena.arena.uploading import Inbox
from termarena.arena.watching import Watcher
from termarena.core.errors import NotFound, Refused, TermArenaError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request
    from fastapi.responses import Response

    from termarena.arena.config import ArenaConfig

__all__ = ["create_app"]

ASSETS: Final = Path(__file__).with_name("assets")
SMALLEST_ZIPPED_BYTES: Final = 2_000
GONE: Final = "the database does not answer, or takes no more"


def create_app(config: ArenaConfig) -> FastAPI:
    """A server of the arena, its database open and up to date. Raises UsageError where that cannot be had."""
    database = Database(config.db_url)
    database.migrate()
    shelf = Shelf(database, config.proofs)
    watcher = Watcher(database, config.runs, interval_s=config.watch_interval_s, also=shelf.look)
    hall, segments = Hall(config, database, hurry=watcher.hurry), Segments(config.runs)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        watcher.start()
        hall.start()
        yield
        await segments.aclose()
        await to_thread(hall.stop)
        watcher.stop()
        database.close()

    app = FastAPI(
        title="TermArena",
        version=__version__,
        summary="Runs of terminal agents, ranked and shown.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    inbox, bad_keys = Inbox(config, database), Buckets(config.bad_keys)
    live = hall, Broadcasts(database, hall)
    app.state.held = Held(config, database, watcher, inbox, bad_keys, *live, segments)
    app.include_router(api.router, dependencies=[Depends(may_read)])
    app.include_router(battle_pages.writer)
    for router in (submissions.router, battle_api.reader, battle_api.writer, battle_api.sockets):
        app.include_router(router)
    for prefix in ("/agentbeats", "/agentbeats/by/{given}"):
        app.include_router(agentbeats.router, prefix=prefix, include_in_schema=False)
    for router in (pages.router, battle_pages.router):
        app.include_router(router, dependencies=[Depends(may_read)])
    app.router.routes.append(mcp_route(hall))
    app.mount("/assets", StaticFiles(directory=ASSETS), name="assets")
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.add_middleware(GZipMiddleware, minimum_size=SMALLEST_ZIPPED_BYTES, compresslevel=4)
    app.add_middleware(Guard, config=config)
    return app


async def _tell_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, TermArenaError)  # noqa: S101 - as registered below
    status = error.status if isinstance(error, Refused) else 404 if isinstance(error, NotFound) else 400
    answer = _told(request, status, kind=type(error).__name__, message=error.message, hint=error.hint)
    if status == HTTPStatus.UNAUTHORIZED:
        answer.headers["WWW-Authenticate"] = 'Basic realm="TermArena", charset="UTF-8"'
    return answer


async def _tell_gone(request: Request, _error: Exception) -> Response:
    answer = _told(request, 503, kind="DatabaseGone", message=GONE, hint="try again in a few seconds")
    answer.headers["Retry-After"] = "5"
    return answer


async def _tell_full(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)  # noqa: S101 - as registered below
    answer = _told(request, 503, kind="RunNotWritable", message=f"the disk refuses: {error.strerror}", hint=None)
    answer.headers["Retry-After"] = "60"
    return answer


async def _tell_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as registered below
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return _told(request, 422, kind="UsageError", message=f"{where}: {first['msg']}", hint="see /openapi.json")


async def _tell_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered below
    return _told(request, error.status_code, kind="UsageError", message=str(error.detail), hint=None)


def _told(request: Request, status: int, *, kind: str, message: str, hint: str | None) -> Response:
    if request.url.path.startswith(("/api", "/agentbeats", "/openapi.json")):
        return JSONResponse({"error": {"kind": kind, "message": message, "hint": hint}}, status_code=status)
    page = render("problem.html", ServerLinks(), status=status, message=message, hint=hint)
    return HTMLResponse(page, status_code=status)


_HANDLERS: Final = {
    TermArenaError: _tell_ours,
    OperationalError: _tell_gone,
    OSError: _tell_full,
    RequestValidationError: _tell_invalid,
    HTTPException: _tell_http,
}
