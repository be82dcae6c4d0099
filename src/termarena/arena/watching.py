"""Watching a folder of runs: what is new or goes on is taken in, and leaderboards follow."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy.exc import DataError, SQLAlchemyError

from termarena.arena.ingest import take_in
from termarena.arena.received import is_being_sent
from termarena.arena.standings import refresh_standings
from termarena.core.errors import TermArenaError
from termarena.core.run_folder import RunFolder
from termarena.runs.locking import is_held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.arena.database import Database

__all__ = ["Watcher"]

_log: Final = logging.getLogger(__name__)
JOIN_S: Final = 30.0
_Signature = tuple[int, int, bool]


class Watcher:
    """A thread that looks at a folder of runs again and again. `problems` says what could not be taken in, and why."""

    def __init__(
        self, database: Database, place: Path, *, interval_s: float, also: Callable[[], object] = lambda: None
    ) -> None:
        """Nothing is looked at before `start` or `look`; `also` is called with every look."""
        self._database = database
        self._place = place
        self._interval_s = interval_s
        self._also = also
        self._seen: dict[Path, _Signature] = {}
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._looking = threading.Lock()
        self._thread = threading.Thread(target=self._go_on, name="arena-watcher", daemon=True)
        self.problems: dict[str, str] = {}

    def start(self) -> None:
        """Look again and again."""
        self._thread.start()

    def stop(self) -> None:
        """End, when what is being taken in is in."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def hurry(self) -> None:
        """Look again now."""
        self._wake.set()

    def look(self) -> int:
        """Take in whatever has changed since the last look; return how many runs that were. Raises DBAPIError."""
        taken = 0
        with self._looking:
            for folder in self._runs():
                signature = _signature(folder)
                if signature is None or self._seen.get(folder.path) == signature:
                    continue
                taken += self._take(folder)
                self._seen[folder.path] = signature
            refresh_standings(self._database)
            self._also()
        return taken

    def _take(self, folder: RunFolder) -> bool:
        try:
            is_changed = take_in(self._database, folder).is_changed
        except (TermArenaError, OSError) as error:
            self.problems[folder.id] = self._told(str(error))
            _log.warning("%s is not taken in: %s", folder.path, error)
            return False
        except SQLAlchemyError as error:
            if not isinstance(error, DataError):  # gone, or full: that is no run's fault
                raise
            return self._is_odd(folder, error)
        except Exception as error:  # noqa: BLE001 - a run's boundary: whatever one holds, the others are taken in
            return self._is_odd(folder, error)
        self.problems.pop(folder.id, None)
        return is_changed

    def _told(self, problem: str) -> str:
        """Without places of this machine: anyone may read it."""
        for place in (self._place.resolve(), self._place):
            problem = problem.replace(f"{place}/", "").replace(str(place), "the folder of runs")
        return problem

    def _is_odd(self, folder: RunFolder, error: Exception) -> Literal[False]:
        self.problems[folder.id] = f"it holds what nobody thought of: {type(error).__name__}"
        _log.warning("%s is not taken in", folder.path, exc_info=error)
        return False

    def _runs(self) -> Iterator[RunFolder]:
        try:
            found = sorted(path for path in self._place.iterdir() if not path.name.startswith("."))
        except OSError as error:
            self.problems["runs"] = f"the folder cannot be read: {error.strerror}"
            return
        self.problems.pop("runs", None)
        yield from map(RunFolder, found)

    def _go_on(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                self.look()
            except SQLAlchemyError as error:  # gone, or full: it is asked again
                self.problems["database"] = "it does not answer"
                _log.warning("the database does not take anything: %s", type(error).__name__)
            else:
                self.problems.pop("database", None)
            self._wake.wait(self._interval_s)


def _signature(folder: RunFolder) -> _Signature | None:
    """What changes when there is more to take in; None where there is no run yet."""
    try:
        if not folder.config_lock.is_file():
            return None
        found = folder.journal.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, is_held(folder) or is_being_sent(folder)
