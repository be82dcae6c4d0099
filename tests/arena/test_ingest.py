"""Runs become rows: once, piece by piece, and never half."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from alembic.runtime.migration import MigrationContext
from sqlalchemy import func, inspect, select

from support.battle_ground import queued
from support.made_runs import Made, made_run
from termarena.arena import battling
from termarena.arena.database import Database
from termarena.arena.ingest import take_in
from termarena.arena.schema import Battle, Contender, Run, RunTask, Table, Task, Trial
from termarena.core.errors import JournalDamaged, TaskFormatError, UsageError
from termarena.reports import build_report
from termarena.runs.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def database(db_url: str) -> Iterator[Database]:
    made = Database(db_url)
    made.migrate()
    yield made
    made.close()


def _count(database: Database, table: type[Table]) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def _run(database: Database, slug: str) -> Run:
    with database.reading() as session:
        return session.scalars(select(Run).where(Run.slug == slug)).one()


def test_a_run_is_taken_in_once(database: Database, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"a/one": "110", "a/two": "0?1"})
    first = take_in(database, view.folder)
    assert (first.trials, first.is_changed) == (6, True)
    again = take_in(database, view.folder)
    assert (again.trials, again.is_changed) == (0, False)
    assert [_count(database, table) for table in (Run, Task, RunTask, Trial)] == [1, 2, 2, 6]
    row, report = _run(database, "mine"), build_report(view)
    assert row.accuracy == report.accuracy == pytest.approx(7 / 12)
    assert (row.accuracy_low, row.accuracy_high) == (report.accuracy_low, report.accuracy_high)
    assert (row.solved, row.unsolved, row.unscored, row.pending, row.state) == (3, 2, 1, 0, "finished")


def test_a_run_that_goes_on_is_taken_in_piece_by_piece(database: Database, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1-", "two": "--"})
    take_in(database, view.folder)
    assert (_count(database, Trial), _run(database, "mine").state) == (1, "interrupted")
    more = view.history.summary(next(iter(view.lock.trial_keys())))
    assert more is not None
    with Journal(view.folder.journal, view.history.tail) as journal:
        second = more.model_copy(update={"task_id": "two", "outcome": "unsolved", "failure_mode": "TEST_FAILED"})
        journal.append("trial_finished", second.model_dump(mode="json"))
    taken = take_in(database, view.folder)
    assert (taken.trials, taken.is_changed) == (1, True)
    assert _count(database, Trial) == 2
    assert (_run(database, "mine").solved, _run(database, "mine").unsolved) == (1, 1)


def test_a_later_try_takes_the_place_of_an_unscored_one(database: Database, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "?"})
    take_in(database, view.folder)
    first = next(iter(view.history.summaries()))
    again = first.model_copy(update={"retry": 1, "outcome": "solved", "failure_mode": "NONE", "fault": None})
    with Journal(view.folder.journal, view.history.tail) as journal:
        journal.append("trial_finished", again.model_dump(mode="json"))
    take_in(database, view.folder)
    with database.reading() as session:
        rows = session.execute(select(Trial.retry, Trial.is_counted, Trial.outcome).order_by(Trial.retry)).all()
    assert [tuple(row) for row in rows] == [(0, False, "unscored"), (1, True, "solved")]


def test_a_folder_put_back_from_a_copy_begins_anew(database: Database, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "11", "two": "11"})
    take_in(database, view.folder)
    lines = view.folder.journal.read_bytes().splitlines(keepends=True)
    view.folder.journal.write_bytes(b"".join(lines[:3]))
    take_in(database, view.folder)
    assert (_count(database, Trial), _run(database, "mine").pending) == (2, 2)


def test_two_folders_of_one_name_are_not_mixed(database: Database, tmp_path: Path) -> None:
    take_in(database, made_run(tmp_path / "a" / "mine", {"one": "1"}).folder)
    with pytest.raises(UsageError, match="has the same name"):
        take_in(database, made_run(tmp_path / "b" / "mine", {"one": "0"}).folder)
    assert _run(database, "mine").solved == 1


def test_text_that_no_database_holds_is_taken_in_all_the_same(database: Database, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"o\0ne": "1", "two": "1"}, Made(agent="a\0b", model="m\0"))
    take_in(database, view.folder)
    with database.reading() as session:
        names = session.scalars(select(Task.name)).all()
    assert len(set(names)) == 2
    assert "two" in names


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": "won"},
        {"reward": "much"},
        {"tests_total": 1 << 40},
        {"task_id": 7},
        {"attempt": -1},
        {"input_tokens": 1 << 70},
        {"output_tokens": 1 << 62},
        {"cost_usd": 1e308},
        {"duration_s": 1e308},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_forged_event_is_refused_and_nothing_is_taken(
    database: Database, tmp_path: Path, fields: dict[str, object]
) -> None:
    view = made_run(tmp_path / "mine", {"one": "1-"})
    first = next(iter(view.history.summaries())).model_dump(mode="json")
    with Journal(view.folder.journal, view.history.tail) as journal:
        journal.append("trial_finished", first | {"attempt": 2} | fields)
    with pytest.raises(JournalDamaged, match="no trial_finished event"):
        take_in(database, view.folder)
    assert _count(database, Run) == 0


def test_a_plan_that_no_machine_could_hold_is_refused(database: Database, tmp_path: Path) -> None:
    view = made_run(tmp_path / "mine", {"one": "1"})
    lock = json.loads(view.folder.config_lock.read_text())
    lock["options"]["attempts"] = 10**12
    view.folder.config_lock.write_text(json.dumps(lock))
    with pytest.raises(TaskFormatError, match="at most 1,000,000"):
        take_in(database, view.folder)


def test_tables_go_up_and_down_and_are_those_of_the_schema(database: Database, tmp_path: Path) -> None:
    found = inspect(database.engine)
    for table in Table.metadata.sorted_tables:
        held = {column["name"]: column for column in found.get_columns(table.name)}
        assert held.keys() == {column.name for column in table.columns}
        assert all(bool(held[column.name]["nullable"]) == column.nullable for column in table.columns)
        indexes = {index["name"] for index in found.get_indexes(table.name)}
        assert {index.name for index in table.indexes} <= indexes
    database.migrate("base")
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    database.migrate()
    view = made_run(tmp_path / "mine", {"one": "1"})
    assert take_in(database, view.folder).trials == 1


def test_a_database_is_brought_to_any_revision_from_any_other(database: Database) -> None:
    def revision() -> str | None:
        with database.engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    for wanted in ("0001", "0002", "0002", "0003", "0001", "0003", "base", "0002", "head"):
        database.migrate(wanted)
        assert revision() == {"base": None, "head": "0003"}.get(wanted, wanted)


def test_battles_outlive_the_way_down_and_up_again(database: Database) -> None:
    battle = queued(database)  # with an agent and an event
    database.migrate("0002")
    database.migrate()
    with database.reading() as session:
        assert battling.find_battle(session, battle).state == "queued"
        assert len(battling.events_since(session, battle, 0)) == 1


def test_an_agent_that_was_registered_twice_is_one_and_keeps_its_battles(database: Database) -> None:
    database.migrate("0002")
    with database.engine.execution_options(writes=True).begin() as connection:
        agent = (
            "INSERT INTO contenders (id, slug, name, url, role, card, about, owner, registered_at, checked_at,"
            " is_alive, problem) VALUES ({0}, 's{0}', 'n', 'http://{1}', 'white', '{{}}', '{{}}', 'lab', '', '',"
            " true, '')"
        )
        for number, host in ((1, "x"), (2, "y"), (3, "x")):
            connection.exec_driver_sql(agent.format(number, host))
        battle = (
            "INSERT INTO battles (id, slug, state, white_id, config, about, created_by, created_at, tries, message)"
            " VALUES ({0}, 'b{0}', 'finished', {1}, '{{}}', '{{}}', 'lab', '', 1, '')"
        )
        for number, white in ((1, 3), (2, 2)):
            connection.exec_driver_sql(battle.format(number, white))
    database.migrate()
    with database.reading() as session:
        assert list(session.scalars(select(Contender.slug).order_by(Contender.id))) == ["s1", "s2"]
        assert [tuple(row) for row in session.execute(select(Battle.slug, Battle.white_id).order_by(Battle.id))] == [
            ("b1", 1),
            ("b2", 2),
        ]


def test_a_database_of_a_newer_version_is_refused(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UsageError, match="revision 9999"):
        database.migrate()


@pytest.mark.parametrize("url", ["mysql://x/y", "nothing", "sqlite:////no/such/folder/arena.db"])
def test_a_database_that_cannot_be_used_is_told(url: str) -> None:
    with pytest.raises(UsageError, match="database"):
        Database(url).migrate()
