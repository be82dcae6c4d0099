"""What goes wrong: a kill in the middle, a database that is gone or full, requests that nobody thought of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from sqlalchemy import event, func, select

from support.arena_server import served
from support.made_runs import made_run
from termarena.arena.config import Rate
from termarena.arena.database import Database
from termarena.arena.ingest import take_in
from termarena.arena.keys import add_key
from termarena.arena.schema import Run, Trial
from termarena.arena.sending import Sender
from termarena.core.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine.interfaces import DBAPIConnection

    from termarena.arena.ingest import Taken
    from termarena.core.run_folder import RunFolder

# Takes in a run, and is killed when its trials are written and the transaction is not at its end.
KILLED = """
import os, signal, sys
from pathlib import Path
from termarena.arena import ingest
from termarena.arena.database import Database
from termarena.core.run_folder import RunFolder
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
ingest._tell_instructions = killed
ingest.take_in(Database(sys.argv[1]), RunFolder(Path(sys.argv[2])))
"""


def test_a_kill_in_the_middle_leaves_nothing_in_halves(db_url: str, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "11", "two": "01"})
    with closing(Database(db_url)) as database:
        database.migrate()
        done = subprocess.run([sys.executable, "-c", KILLED, db_url, str(view.folder.path)], check=False)  # noqa: S603 - ours
        assert done.returncode == -signal.SIGKILL
        with database.reading() as session:
            counts = [session.scalar(select(func.count()).select_from(table)) for table in (Run, Trial)]
        assert counts == [0, 0]
        assert take_in(database, view.folder).trials == 4


@pytest.mark.needs("postgresql")
def test_a_database_that_is_gone_is_told_and_comes_back(postgres_place: str, tmp_path: Path) -> None:
    name = f"gone_{os.getpid()}"
    with psycopg.connect(f"{postgres_place} user=postgres dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        made_run(tmp_path / "runs" / "mine", {"one": "1"})
        with served(tmp_path / "runs", f"postgresql://postgres@/{name}?{postgres_place}") as server:
            assert server.json("/runs")[0]["slug"] == "mine"
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            connection.execute(f"ALTER DATABASE {name} RENAME TO {name}_away")
            for path in ("/api/runs", "/"):
                answer = server.client.get(path)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            connection.execute(f"ALTER DATABASE {name}_away RENAME TO {name}")
            assert server.json("/runs")[0]["slug"] == "mine"


def test_a_full_disk_is_told_and_what_was_sent_comes_in_later(tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {f"task-{n}": "1" for n in range(300)})

    def fill(connection: DBAPIConnection, _record: object) -> None:
        connection.cursor().execute("PRAGMA max_page_count = 1")  # it never goes below what is used

    with served(tmp_path / "runs") as server:
        database = server.held.database
        with closing(Sender(view.folder, server.url, add_key(database, "lab", ["submit"]))) as sender:
            database.engine.dispose()
            event.listen(database.engine, "connect", fill)
            with pytest.raises(Refused) as refused:
                sender.send()
            assert refused.value.status == 503
            assert server.json("/runs") == []
            event.remove(database.engine, "connect", fill)
            database.engine.dispose()
            sender.send()
        server.look()
        assert server.json("/runs/mine")["run"]["solved"] == 300


@pytest.fixture(scope="module")
def open_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A server that takes any number of requests, and a key for it."""
    runs = tmp_path_factory.mktemp("door") / "runs"
    made_run(runs / "mine", {"one": "10", "two": "?1"})
    without_end = Rate(per_s=1e9, burst=1_000_000)
    with served(runs, reads=without_end, writes=without_end, bad_keys=without_end) as server:
        yield server.url, add_key(server.held.database, "lab", ["admin"])


def _document() -> dict[str, Any]:
    from fastapi import FastAPI  # noqa: PLC0415 - only to describe itself

    from termarena.arena import api, battle_api, submissions  # noqa: PLC0415 - as above

    app = FastAPI()
    for router in (api.router, submissions.router, battle_api.reader, battle_api.writer):
        app.include_router(router)
    return app.openapi()


OPERATIONS = {
    f"{operation.method.upper()} {operation.path}": operation
    for found in schemathesis.openapi.from_dict(_document()).get_all_operations()
    if isinstance(found, Ok)
    for operation in [found.ok()]
}


def test_every_operation_is_tried() -> None:
    assert OPERATIONS.keys() == {
        f"{method.upper()} {path}" for path, methods in _document()["paths"].items() for method in methods
    }


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_request_is_answered_with_a_fault(name: str, open_door: tuple[str, str]) -> None:
    url, key = open_door

    @settings(max_examples=12, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=OPERATIONS[name].as_strategy())
    def ask(case: Any) -> None:  # noqa: ANN401 - schemathesis's own
        answer = case.call(base_url=url, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code < 500, (case.path_parameters, case.query, answer.text)

    ask()


def test_a_run_that_nobody_thought_of_keeps_no_other_from_being_taken_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumbles(database: Database, folder: RunFolder) -> Taken:
        if folder.id == "a-bad-one":
            raise ZeroDivisionError
        return take_in(database, folder)

    monkeypatch.setattr("termarena.arena.watching.take_in", stumbles)
    with served(tmp_path / "runs") as server:
        made_run(tmp_path / "runs" / "a-bad-one", {"one": "1"})
        made_run(tmp_path / "runs" / "good", {"one": "1"})
        assert server.look() == 1
        assert server.json("/runs/good")["run"]["solved"] == 1
        assert "ZeroDivisionError" in server.json("/health")["problems"]["a-bad-one"]
