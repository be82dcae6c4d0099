"""The database: opening it, bringing its tables up to date, reading and writing in transactions."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session

from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection

__all__ = ["Database"]

MIGRATIONS: Final = Path(__file__).with_name("migrations")
BUSY_TIMEOUT_S: Final = 30
# "termarena" in numbers: two servers that start at once on one PostgreSQL migrate one after the other.
MIGRATION_LOCK: Final = 0x7465726D
KINDS: Final = ("sqlite", "postgresql")


class Database:
    """One database of the arena. Readers never wait for a writer; writers follow each other."""

    def __init__(self, url: str) -> None:
        """Nothing is opened yet. Raises UsageError for an address that names no database we can use."""
        try:
            self.engine = _engine(url)
        except (ArgumentError, NoSuchModuleError, ValueError) as error:
            raise UsageError(
                "the address of the database cannot be used",
                hint="sqlite:///arena.db, or postgresql://user@host/name",
            ) from error
        self._writing = Lock()

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self.engine.dialect.name == "sqlite"

    def migrate(self, revision: str = "head") -> None:
        """Bring the tables to a revision, up or down (`base` is none at all), in one transaction.

        Raises UsageError where the database cannot be reached or was made by a newer TermArena.
        """
        try:
            with self.engine.execution_options(writes=True).begin() as connection:
                if not self.is_sqlite:
                    connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
                self._migrate(connection, revision)
        except DBAPIError as error:
            raise UsageError(
                f"the database cannot be opened: {_first_line(error)}",
                hint="see that its folder exists and can be written, or that the server runs and lets you in",
            ) from error

    def _migrate(self, connection: Connection, revision: str) -> None:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        config.attributes["connection"] = connection
        script = ScriptDirectory.from_config(config)
        newest_first = [one.revision for one in script.walk_revisions()]
        found = MigrationContext.configure(connection).get_current_revision()
        if found is not None and found not in newest_first:
            raise UsageError(f"the database is of revision {found}, which this TermArena does not know", hint="update")
        older = [] if found is None else [*newest_first[newest_first.index(found) + 1 :], "base"]
        (command.downgrade if revision in older else command.upgrade)(config, revision)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one state of the database. Raises SQLAlchemy's DBAPIError while it is gone."""
        with Session(self.engine, autoflush=False) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction: all of it, or nothing where the block raises or the process is killed."""
        engine = self.engine.execution_options(writes=True)
        with self._writing, Session(engine, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()


def _engine(url: str) -> Engine:
    if url.startswith("postgresql://"):
        url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    if not url.startswith(KINDS):
        raise ValueError(url)
    if url.startswith("sqlite"):
        engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    return create_engine(url, pool_pre_ping=True, pool_size=20, connect_args={"connect_timeout": 10})


def _set_up_sqlite(connection: DBAPIConnection, _record: object) -> None:
    """Readers beside a writer (WAL), keys that hold; transactions begin where we say."""
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes its turn at once: one that read first could be refused in the middle."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).partition("\n")[0]
