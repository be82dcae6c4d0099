"""What the tests of the arena share: both databases, and a server over a folder of runs."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import psycopg
import pytest
from playwright.sync_api import sync_playwright

from support.arena_server import Server, served
from support.postgres import postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres_place() -> Iterator[str]:
    """One PostgreSQL for all tests of a worker."""
    with postgres() as place:
        yield place


KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgresql"))]


@pytest.fixture(params=KINDS)
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    return _database(request, tmp_path)


@pytest.fixture(scope="module", params=KINDS)
def shared_db_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same, for all tests of a module together."""
    return _database(request, tmp_path_factory.mktemp("database"))


def _database(request: pytest.FixtureRequest, folder: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'arena.db'}"
    place, name = request.getfixturevalue("postgres_place"), f"arena_{next(_NUMBERS)}"
    with psycopg.connect(f"{place} user=postgres dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"postgresql://postgres@/{name}?{place}"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs, empty."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def server(runs: Path, db_url: str) -> Iterator[Server]:
    """A server over `runs` as they are when the test begins; `look` takes in what comes later."""
    with served(runs, db_url) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module; not longer, since no test with an event loop can run beside it."""
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where root file systems are kept, for all tests of a worker."""
    return tmp_path_factory.mktemp("home")
