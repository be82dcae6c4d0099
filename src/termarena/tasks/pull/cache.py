"""Where pulled datasets lie: one shelf per source, one folder per revision, put there whole or not at all.

<home>/datasets/<shelf>/refs.json                    which revision a branch, or no revision, meant when last asked
<home>/datasets/<shelf>/<revision>/record.json       what was pulled, from where, when
<home>/datasets/<shelf>/<revision>/contents.json     every file of it, to see whether it still is what was pulled
<home>/datasets/<shelf>/<revision>/<name>/           the dataset
<home>/datasets/<shelf>/.partial/                    what an interrupted pull left, for the next one to go on with
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from termarena.core.errors import TaskFormatError
from termarena.core.home import Home
from termarena.core.records import read_record, write_record
from termarena.tasks.pull.contents import differences, write_contents
from termarena.tasks.pull.contract import Pulled
from termarena.tasks.pull.trees import is_real_folder, measure, remove

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.core.records import Json
    from termarena.tasks.pull.contract import Reporter
    from termarena.tasks.pull.source import Source

__all__ = ["Shelf"]

_KIND = "pulled-dataset"
_REFS_KIND = "dataset-refs"


@dataclass(frozen=True, slots=True)
class Shelf:
    """The revisions of one source. Nothing is created until it is locked."""

    home: Path
    source: Source
    ref: str
    """What stands for the revision in `refs.json`."""

    @property
    def root(self) -> Path:
        """The shelf's folder."""
        return self.home / "datasets" / self.source.shelf

    @property
    def work(self) -> Path:
        """Where a pull in progress keeps its files."""
        return self.root / ".partial"

    def find(self, revision: str | None = None) -> Pulled | None:
        """What was pulled as this revision, or as what the source meant when it was last asked. Touches no network."""
        revision = revision or self._remembered()
        if revision is None:
            return None
        folder = self.root / _folder_name(revision)
        try:
            record = read_record(folder / "record.json", _KIND)
        except TaskFormatError:
            return None
        if record.get("key") != self.source.key or not is_real_folder(folder, self.source.name):
            return None
        return self._pulled(revision, record)

    def damage(self, pulled: Pulled) -> tuple[str, ...]:
        """Each file of what was pulled that is no longer as it was then, and how it differs."""
        return differences(pulled.path.parent, self.source.name)

    def staging(self, revision: str) -> Path:
        """The folder for the dataset's files until they are complete; it is there, with what an earlier pull left."""
        place = self.work / _folder_name(revision) / self.source.name
        place.mkdir(parents=True, exist_ok=True)
        return place

    def publish(self, revision: str, notes: tuple[str, ...]) -> Pulled:
        """Make the staged files the dataset, in one rename, and forget everything half done."""
        staged = self.staging(revision).parent
        size = measure(staged)
        plan = self.source.plan()
        record = {
            "source": plan.source,
            "key": self.source.key,
            "plan": plan.as_dict(),
            "revision": revision,
            "pulled_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "files": size.files,
            "size_bytes": size.size_bytes,
            "notes": list(notes),
        }
        write_contents(staged, self.source.name)
        write_record(staged / "record.json", _KIND, record)
        final = self.root / _folder_name(revision)
        remove(final)
        staged.rename(final)
        remove(self.work)
        self.remember(revision)
        return self._pulled(revision, read_record(final / "record.json", _KIND), is_from_cache=False)

    def remember(self, revision: str) -> None:
        """Note what the requested revision means now."""
        write_record(self.root / "refs.json", _REFS_KIND, {"refs": {**self._refs(), self.ref: revision}})

    @contextmanager
    def locked(self, report: Reporter) -> Iterator[int]:
        """Keep every other pull of this source waiting, in this process and in others; gives the lock's descriptor.

        Raises UsageError when the shelf's folder cannot be made.
        """
        folder = Home(self.home).folder("datasets", self.source.shelf)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report.begin("waiting for another pull of the same dataset")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _remembered(self) -> str | None:
        if self.source.is_pinned and self.source.revision is not None:
            return self.source.revision
        revision = self._refs().get(self.ref)
        return revision if isinstance(revision, str) else None

    def _refs(self) -> dict[str, Json]:
        try:
            refs = read_record(self.root / "refs.json", _REFS_KIND).get("refs")
        except TaskFormatError:
            return {}
        return refs if isinstance(refs, dict) else {}

    def _pulled(self, revision: str, record: dict[str, Json], *, is_from_cache: bool = True) -> Pulled:
        notes = record.get("notes")
        return Pulled(
            path=self.root / _folder_name(revision) / self.source.name,
            plan=self.source.plan(),
            revision=revision,
            files=_number(record.get("files")),
            size_bytes=_number(record.get("size_bytes")),
            pulled_at=str(record.get("pulled_at", "")),
            is_from_cache=is_from_cache,
            notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        )


def _folder_name(revision: str) -> str:
    return revision.replace(":", "-")


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0
