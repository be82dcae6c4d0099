"""Runs that are sent: archives are looked at before anything of them is in its place, and whoever sent a run alone may
send more of it."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, cast

from sqlalchemy import select

from termarena.arena.checking import changed_since, check_plan
from termarena.arena.ingest import take_in
from termarena.arena.received import mark_received, sender_of
from termarena.arena.schema import Battle
from termarena.arena.verified import keep_verified, verified_of
from termarena.core.errors import BadBundle, JournalDamaged, Refused, TaskFormatError
from termarena.core.run_folder import RunFolder
from termarena.reports.handed_in import judge
from termarena.runs.config_lock import read_config_lock
from termarena.runs.unpacking import BundleLimits, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.arena.config import ArenaConfig
    from termarena.arena.database import Database
    from termarena.arena.ingest import Taken
    from termarena.arena.keys import Holder
    from termarena.arena.verified import Verified
    from termarena.runs.unpacking import Unpacked

__all__ = ["RUN_NAME", "HandedOver", "Inbox", "Piece", "journal_size"]

RUN_NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
BATTLE_RUN: Final = "battle_"
"""How the names of battles' runs begin."""
MOST_MEMBERS: Final = 200_000
TOO_MUCH: Final = "there is too much in the archive"
CHUNK_BYTES: Final = 1 << 20
HEAD_BYTES: Final = 128 << 10
"""Of what stands before a file in an archive: tarfile holds long names and their like in memory, of any size."""
_ATTEMPT: Final = r"trials/[A-Za-z0-9_][A-Za-z0-9._~-]{0,120}/attempt-[1-9][0-9]{0,8}(?:-retry-[1-9][0-9]{0,8})?"
_FILES: Final = (
    r"result\.json|trajectory\.json|tool_calls\.json|changes\.json|changes-more\.jsonl|metrics\.json|messages\.jsonl"
    r"|test_output\.txt|terminal(?:-[1-9][0-9]?)?\.cast"
)
_WANTED: Final = re.compile(rf"(?:config\.lock\.json|journal\.jsonl|{_ATTEMPT}/(?:{_FILES}))")


@dataclass(frozen=True, slots=True)
class Piece:
    """What is sent at once: an archive of some files of a run, and the part of its journal from a byte on."""

    run: str
    archive: IO[bytes]
    journal_from: int


class HandedOver(NamedTuple):
    """A bundle that was taken in."""

    taken: Taken
    verified: Verified


class Inbox:
    """Takes what is sent into the folder of runs, one piece of a run at a time."""

    def __init__(self, config: ArenaConfig, database: Database) -> None:
        """Nothing is made before something comes."""
        self._config = config
        self._database = database
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)

    def take(self, piece: Piece, holder: Holder) -> Taken:
        """Put the files in their place, the journal last, and take the run in.

        Raises Refused for an archive that is none, holds what no run holds, or does not fit what is there; then
        nothing is changed. Raises OSError where the disk takes no more.
        """
        folder = RunFolder(self._config.runs / piece.run)
        with self._locks[piece.run], self._staging() as staged:
            _check_owner(folder, holder)
            self._check_name(piece.run)
            if verified_of(folder) is not None:
                raise Refused("this run was handed in as a bundle, and is whole", status=409)
            self._unpack(piece.archive, staged)
            _complete(folder, staged, piece.journal_from)
            _check(staged)
            _settle(folder, staged, holder.name)
            return take_in(self._database, folder)

    def take_bundle(self, bundle: Path, holder: Holder) -> HandedOver:
        """Verify a bundle and take its run in, with what was found; the same bundle again changes nothing.

        Raises Refused for what is no bundle, or has the name of another run; OSError where the disk takes no more.
        """
        limits = BundleLimits(MOST_MEMBERS, *[self._config.unpacked_limit_bytes] * 2)
        with self._staging() as staged:
            try:
                unpacked = unpack(bundle, staged.path, limits)
            except BadBundle as error:
                raise Refused(f"this is no bundle: {error.problem}", status=400, hint="termarena pack RUN") from error
            run = unpacked.manifest.run_id
            if not re.fullmatch(RUN_NAME, run):
                raise Refused(f"{run[:200]!r} is no name of a run", status=400)
            with self._locks[run]:
                return self._settle_bundle(RunFolder(self._config.runs / run), staged, unpacked, holder)

    def _settle_bundle(self, folder: RunFolder, staged: RunFolder, unpacked: Unpacked, holder: Holder) -> HandedOver:
        known = verified_of(folder)
        if known is not None and known.chain == unpacked.manifest.chain and sender_of(folder) == holder.name:
            return HandedOver(take_in(self._database, folder), known)
        if folder.path.exists():
            raise Refused(
                "another run of this name is here already", status=409, hint="rename yours, and pack it again"
            )
        self._check_name(folder.id)
        _check(staged)
        verified = keep_verified(staged, judge(staged, unpacked, self._tasks_for(staged)))
        _settle(folder, staged, holder.name)
        return HandedOver(take_in(self._database, folder), verified)

    def _check_name(self, run: str) -> None:
        """A battle's run is named when it is asked for: nobody puts another in its place before it is fought."""
        if run.startswith(BATTLE_RUN):
            slug = run.removeprefix(BATTLE_RUN).partition("-")[0]
            with self._database.reading() as session:
                if session.scalars(select(Battle.id).where(Battle.slug == slug)).first() is not None:
                    raise Refused("a battle of this server has this name", status=409, hint="rename your run")

    def _tasks_for(self, staged: RunFolder) -> Mapping[str, Any] | None:
        """The tasks that this server has, where the run is about any of them."""
        known = self._config.tasks
        return known if any(task.id in known for task in read_config_lock(staged).tasks) else None

    @contextmanager
    def _staging(self) -> Iterator[RunFolder]:
        """A hidden folder beside the runs: what is in it is renamed, not copied."""
        path = Path(tempfile.mkdtemp(prefix=".sent-", dir=self._config.runs))
        try:
            yield RunFolder(path)
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _unpack(self, archive: IO[bytes], staged: RunFolder) -> None:
        left = self._config.unpacked_limit_bytes
        try:
            with gzip.GzipFile(fileobj=archive, mode="rb") as unzipped:
                measured = _Measured(unzipped)
                with tarfile.open(fileobj=cast("IO[bytes]", measured), mode="r|") as tar:
                    for number, member in enumerate(tar):
                        left -= abs(member.size)  # a head may say less than nothing
                        if left < 0 or number >= MOST_MEMBERS:
                            raise Refused(TOO_MUCH, status=413)
                        measured.allow(member.size if member.isreg() else 0)
                        _put(tar, member, staged)
                        tar.members.clear()  # type: ignore[attr-defined]  # each one is kept otherwise; typeshed hides it
        except (tarfile.TarError, EOFError, zlib.error, OverflowError, ValueError) as error:
            raise Refused("this is no archive of a run", status=400, hint="send a .tar.gz of its files") from error
        except OSError as error:
            if error.errno is None:  # gzip's own
                raise Refused("this is no archive of a run", status=400, hint="send a .tar.gz of its files") from error
            raise


class _Measured:
    """A stream of which no more is read than what was allowed last, and the head of the next file."""

    def __init__(self, source: gzip.GzipFile) -> None:
        self._source = source
        self._left_bytes = HEAD_BYTES

    def allow(self, size_bytes: int) -> None:
        """A file of so many bytes comes now."""
        self._left_bytes = size_bytes + HEAD_BYTES

    def read(self, size_bytes: int) -> bytes:
        """Raises Refused for more than was allowed."""
        content = self._source.read(size_bytes)
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            raise Refused(TOO_MUCH, status=413)
        return content


def journal_size(runs: Path, run: str) -> int:
    """How much of a run's journal is here."""
    try:
        return RunFolder(runs / run).journal.stat().st_size
    except OSError:
        return 0


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, staged: RunFolder) -> None:
    if member.isdir():
        return
    if not member.isreg() or member.issparse() or not _WANTED.fullmatch(member.name):
        raise Refused(f"no run holds {member.name[:200]!r}", status=400, hint="docs/arena.md says what may be sent")
    place = staged.path / member.name
    place.parent.mkdir(parents=True, exist_ok=True)
    source = tar.extractfile(member)
    if source is None or place.exists():
        raise Refused(f"{member.name[:200]!r} is there twice", status=400)
    with place.open("xb") as file:
        shutil.copyfileobj(source, file, CHUNK_BYTES)


def _check_owner(folder: RunFolder, holder: Holder) -> None:
    if folder.path.exists() and sender_of(folder) != holder.name and not holder.may("admin"):
        raise Refused("a run of this name is here already, and is not yours", status=403, hint="rename yours")


def _complete(folder: RunFolder, staged: RunFolder, journal_from: int) -> None:
    """Make of what is there and what was sent the lock and the whole journal, beside the rest."""
    if folder.config_lock.is_file():
        held = folder.config_lock.read_bytes()
        if staged.config_lock.exists() and staged.config_lock.read_bytes() != held:
            raise Refused("the run that is here began with another config.lock.json", status=409)
        staged.config_lock.write_bytes(held)
    if not staged.config_lock.is_file():
        raise Refused("the run is not here, and there is no config.lock.json", status=409, hint="send it whole")
    size = folder.journal.stat().st_size if folder.journal.is_file() else 0
    if journal_from != size:
        raise Refused(f"{size} bytes of the journal are here", status=409, hint="go on from there")
    sent = staged.journal.with_name("journal.sent")
    if staged.journal.is_file():
        staged.journal.rename(sent)
    with staged.journal.open("wb") as file:
        for part in (folder.journal, sent):
            if part.is_file():
                with part.open("rb") as source:
                    shutil.copyfileobj(source, file, CHUNK_BYTES)
        file.flush()
        os.fsync(file.fileno())
    sent.unlink(missing_ok=True)


def _check(staged: RunFolder) -> None:
    try:
        check_plan(staged, read_config_lock(staged))
        changed_since(staged, 0)
    except (JournalDamaged, TaskFormatError) as error:
        raise Refused(str(error).replace(f"{staged.path}/", ""), status=400) from error


def _settle(folder: RunFolder, staged: RunFolder, sender: str) -> None:
    if not folder.path.exists():
        mark_received(staged, sender)
        staged.path.rename(folder.path)
        staged.path.mkdir()  # whoever made it removes it
        return
    for path in sorted(staged.trials.rglob("*")):
        if path.is_file():
            place = folder.path / path.relative_to(staged.path)
            place.parent.mkdir(parents=True, exist_ok=True)
            path.replace(place)
    staged.journal.replace(folder.journal)
