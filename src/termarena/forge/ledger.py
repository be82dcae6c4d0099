"""The ledger: what came of every recording, so that nothing is done twice and everything can be explained.

One SQLite file, and the evidence beside it in files named by their digests. An outcome is bound to the recording, to
the forge's own code and to its settings: with the same three it stands, with any other the recording is made anew.
"""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
import sqlite3
import time
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from termarena.core.errors import NotFound, UsageError
from termarena.core.records import write_atomically
from termarena.forge.transcript import public_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from termarena.forge.screening.likeness import Sketch
    from termarena.forge.transcript import Transcript

__all__ = ["Ledger", "Outcome", "State", "code_digest", "key_of", "key_of_unreadable"]

State = Literal["admitted", "refused", "failed"]
"""`failed`: our machinery did, and the recording is tried again at the next run."""
FILE: Final = "ledger.sqlite"
OBJECTS: Final = "objects"
SHORTEST_NAME: Final = 6
"""Of a digest: fewer signs would name many."""
_SCHEMA: Final = """
create table if not exists outcomes (
    recording text not null, key text not null, source text not null, title text not null,
    state text not null, gate text not null, reason text not null,
    task_id text, folder text, fidelity real, mutation_score real, took_s real not null, evidence text not null,
    at text not null, primary key (recording, key)
);
create table if not exists tombstones (recording text primary key, at text not null);
create table if not exists blocked_sources (address text primary key, at text not null);
create table if not exists placements (recording text not null, folder text not null, primary key (recording, folder));
create table if not exists sketches (recording text primary key, source text not null, sketch text not null);
create table if not exists costs (recording text not null, key text not null, usd real, primary key (recording, key));
create table if not exists reviews (
    recording text not null, content text not null, annotator text not null, accepts integer not null,
    flaws text not null, note text not null, at text not null, resolves integer not null,
    primary key (recording, content, annotator)
);
create table if not exists runs (
    at text not null, recordings integer not null, known integer not null, took_s real not null
);
"""


class Outcome(NamedTuple):
    """What came of one recording."""

    recording: str
    """The digest of its bytes."""
    key: str
    source: str
    title: str
    state: State
    gate: str
    """The stage that refused it or failed; `prove` for one that was admitted."""
    reason: str
    task_id: str | None
    folder: str | None
    fidelity: float | None
    mutation_score: float | None
    took_s: float
    evidence: str
    """The digest of what was found, below `objects/`."""
    at: str


class Ledger:
    """A ledger in a folder, which is made when it is not there. Safe for several processes; close it when done."""

    def __init__(self, folder: Path) -> None:
        """Raises `UsageError` where the folder holds a file that is no ledger, `OSError` where it cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._database = sqlite3.connect(folder / FILE, timeout=60, isolation_level=None)
        try:
            self._database.executescript(f"pragma journal_mode = wal; {_SCHEMA}")
        except sqlite3.DatabaseError as error:
            self._database.close()
            hint = "give another folder with --forge, or move that file away"
            raise UsageError(f"{folder / FILE} is no ledger: {error}", hint=hint) from error

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def __enter__(self) -> Ledger:  # noqa: PYI034 - it has no subclasses
        """For the length of a `with`."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    def known(self, recording: str, key: str) -> Outcome | None:
        """The outcome that stands for this recording, code and settings.

        One that failed does not, nor one that was like another recording, which may be gone by now.
        """
        query = "select * from outcomes where recording = ? and key = ? and state != 'failed' and gate != 'duplicates'"
        row = self._one(query, recording, key)
        return Outcome(*row) if row else None

    def is_blocked(self, recording: str) -> bool:
        """Whether it was taken down."""
        return self._one("select 1 from tombstones where recording = ?", recording) is not None

    def is_blocked_source(self, address: str) -> bool:
        """Whether the recording at this address was taken down, by whichever of http and https it was asked for."""
        scheme, sep, place = address.partition("://")
        both = (
            [f"{one}://{place}" for one in ("http", "https")] if sep and scheme in ("http", "https") else [address] * 2
        )
        return self._one("select 1 from blocked_sources where address in (?, ?)", *both) is not None

    def block(self, recording: str, address: str) -> None:
        """Let a recording never come back, neither its bytes nor, where it has a public one, what is at its address."""
        self._database.execute("insert or replace into tombstones values (?, ?)", (recording, _now()))
        if "://" in address:
            self._database.execute("insert or replace into blocked_sources values (?, ?)", (address, _now()))

    def write(self, outcome: Outcome) -> bool:
        """Put an outcome in, in place of an earlier one with the same key; not for a recording that was taken down."""
        marks = ", ".join("?" * len(outcome))
        with self._unless_blocked(outcome.recording) as is_free:
            if is_free:
                self._database.execute(f"insert or replace into outcomes values ({marks})", outcome)  # noqa: S608 - marks
                self._put(outcome.recording, outcome.folder)
        return is_free

    def place(self, recording: str, folder: Path) -> bool:
        """Note where a task of a recording lies, so that a takedown finds it; not for one that was taken down."""
        with self._unless_blocked(recording) as is_free:
            if is_free:
                self._put(recording, str(folder))
        return is_free

    def placed(self, recording: str) -> list[Path]:
        """Where tasks of a recording were put."""
        rows = self._database.execute("select folder from placements where recording = ? order by folder", (recording,))
        with closing(rows):
            return [Path(row[0]) for row in rows]

    def unplace(self, recording: str, folder: Path) -> None:
        """A task that is no longer there."""
        self._database.execute("delete from placements where recording = ? and folder = ?", (recording, str(folder)))

    def remember(self, recording: str, source: str, sketch: Sketch) -> None:
        """Keep the sketch of a recording whose task is admitted: later ones that are like it are no news."""
        values = (recording, source, json.dumps(sketch))
        self._database.execute("insert or replace into sketches values (?, ?, ?)", values)

    def sketches(self) -> Iterator[tuple[str, str, Sketch]]:
        """Of recordings that have an admitted task now: digest, source, sketch."""
        admitted = {one.recording for one in self.latest() if one.state == "admitted"}
        with closing(
            self._database.execute("select recording, source, sketch from sketches order by recording")
        ) as rows:
            for recording, source, sketch in rows.fetchall():
                if recording in admitted:
                    yield recording, source, tuple(json.loads(sketch))

    def note_run(self, *, recordings: int, known: int, took_s: float) -> None:
        """How many recordings an order had, how many of them were known, how long it took."""
        self._database.execute("insert into runs values (?, ?, ?, ?)", (_now(), recordings, known, round(took_s, 3)))

    def note_cost(self, recording: str, key: str, usd: float | None) -> None:
        """What a model took for a recording; None is unknown."""
        self._database.execute("insert or replace into costs values (?, ?, ?)", (recording, key, usd))

    def cost_usd(self) -> float | None:
        """What models took for all recordings; None where a part is unknown, 0 where none was asked."""
        row = self._one("select count(*), count(usd), total(usd) from costs")
        return None if row is None or row[0] != row[1] else round(float(row[2]), 6)

    def last_run(self) -> tuple[int, int, float] | None:
        """What `note_run` noted last."""
        return self._one("select recordings, known, took_s from runs order by rowid desc limit 1")

    def is_latest(self, outcome: Outcome) -> bool:
        """Whether no other settings or code have come to an outcome for its recording since."""
        query = "select 1 from outcomes where recording = ? and at > ?"
        return self._one(query, outcome.recording, outcome.at) is None

    def latest(self) -> list[Outcome]:
        """The last outcome of every recording, in the order of their sources."""
        # Times are whole seconds: of two in one, the one that was written last, which has the higher row.
        last = "select rowid from outcomes where recording = o.recording order by at desc, rowid desc limit 1"
        query = f"select o.* from outcomes o where o.rowid = ({last}) order by source"  # noqa: S608 - no value in it
        with closing(self._database.execute(query)) as rows:
            return [Outcome(*row) for row in rows]

    def find(self, name: str) -> Outcome:
        """By its task or its source, else by the start of its digest or the source's file name.

        Raises `NotFound`, and `UsageError` for a name that several recordings have.
        """
        every = self.latest()
        found = [one for one in every if name in (one.task_id, one.source)] or [
            one for one in every if name == Path(one.source).name or _begins(one.recording, name)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            shown = ", ".join(one.source for one in found[:5])
            hint = f"name one by its path or its digest: {found[0].recording.removeprefix('sha256:')[:12]}"
            raise UsageError(f"{len(found)} recordings are called {name}: {shown}", hint=hint)
        known = tuple(one.task_id or Path(one.source).name for one in every)
        raise NotFound(f"the ledger knows no recording {name}", known=known, hint="see termarena forge status")

    def keep(self, found: dict[str, Any]) -> str:
        """Put evidence away under its own digest."""
        content = json.dumps(found, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
        digest = hashlib.sha256(content).hexdigest()
        path = self._object(digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_atomically(path, content)
        return digest

    def evidence(self, digest: str) -> dict[str, Any]:
        """What was put away. Raises `NotFound` if it is gone or no longer what it was."""
        path = self._object(digest)
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != digest:
            raise NotFound(f"the evidence {digest[:12]} is not there as it was written", hint="run the forge again")
        found: dict[str, Any] = json.loads(content)
        return found

    def take_down(self, outcome: Outcome) -> list[str]:
        """Remove a recording's outcomes, evidence and tasks, and let it never come back; what was removed.

        It is blocked first: whatever interrupts the rest, it does not return, and the same call goes on.
        """
        self.block(outcome.recording, outcome.source)
        with closing(
            self._database.execute("select * from outcomes where recording = ?", (outcome.recording,))
        ) as rows:
            every = [Outcome(*row) for row in rows]
        folders = [*self.placed(outcome.recording), *(Path(one.folder) for one in every if one.folder)]
        unfinished = [path for folder in folders for path in folder.parent.glob(f".{glob.escape(folder.name)}.*")]
        evidence = [self._object(one.evidence) for one in every if one.evidence]
        removed = []
        for path in dict.fromkeys((*folders, *unfinished, *evidence, *self._evidence_of(outcome.recording))):
            if path.exists():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                removed.append(str(path))
        for table in ("outcomes", "placements", "sketches", "reviews", "costs"):
            self._database.execute(f"delete from {table} where recording = ?", (outcome.recording,))  # noqa: S608 - ours
        return removed

    def drop_evidence(self, digest: str) -> None:
        """Remove what was put away for an outcome that does not stand."""
        self._object(digest).unlink(missing_ok=True)

    @contextmanager
    def _unless_blocked(self, recording: str) -> Iterator[bool]:
        """A transaction, and whether the recording may still be written about: a takedown comes before or after it."""
        self._database.execute("begin immediate")
        try:
            yield not self.is_blocked(recording)
        except BaseException:
            self._database.execute("rollback")
            raise
        self._database.execute("commit")

    def _put(self, recording: str, folder: str | None) -> None:
        if folder is not None:
            self._database.execute("insert or ignore into placements values (?, ?)", (recording, folder))

    def _evidence_of(self, recording: str) -> Iterator[Path]:
        """Every file that tells of a recording: also of outcomes that were replaced, or never written down."""
        told = recording.encode()
        return (path for path in (self.folder / OBJECTS).glob("*/*") if told in path.read_bytes())

    def _object(self, digest: str) -> Path:
        return self.folder / OBJECTS / digest[:2] / digest[2:]

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query gives, for what is kept beside the outcomes."""
        with closing(self._database.execute(query, values)) as rows:
            return rows.fetchall()

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        with closing(self._database.execute(query, values)) as rows:
            found: tuple[Any, ...] | None = rows.fetchone()
            return found


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _begins(recording: str, name: str) -> bool:
    start = name.removeprefix("sha256:")
    return len(start) >= SHORTEST_NAME and recording.removeprefix("sha256:").startswith(start)


@cache
def code_digest() -> str:
    """Of the forge's own files, of what reads shell lines, and of the proof's, which makes the partial solutions: other
    code may come to another outcome."""
    total = hashlib.sha256()
    for path in sorted(_sources(), key=str):
        total.update(path.read_bytes())
    return total.hexdigest()


def _sources() -> Iterator[Path]:
    rooms = Path(str(files("termarena")))
    names = (".py", ".tsv", ".gz")
    return (path for room in ("forge", "proof", "shell") for path in (rooms / room).rglob("*") if path.suffix in names)


def key_of(transcript: Transcript, config: BaseModel) -> str:
    """What an outcome is bound to beside the recording's bytes: how they were read, the code, the settings.

    Of a file on this machine the name counts, and not the folder it lies in.
    """
    named = transcript.model_copy(update={"source": public_name(transcript.source)})
    parts = (named.model_dump_json(), code_digest(), config.model_dump_json())
    return _digest_of(parts)


def key_of_unreadable(reason: str, config: BaseModel) -> str:
    """The same for a file that is no recording."""
    return _digest_of((reason, code_digest(), config.model_dump_json()))


def _digest_of(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
