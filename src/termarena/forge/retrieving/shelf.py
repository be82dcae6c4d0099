"""The shelf: one folder per retrieved recording, with the file as it came and `info.json`, which says from where.

    FORGE/recordings/PLACE/ID/recording.txt     or .cast, .json, .typescript with its .timing
    FORGE/recordings/PLACE/ID/info.json

A folder is there whole or not at all. PLACE is a server or a repository; ID is the server's, or made of a file's name
and its digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from termarena.core.errors import TaskFormatError
from termarena.core.records import read_record_as, write_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["INFO", "KIND", "RECORDINGS", "Origin", "Shelf", "digest_of", "origin_beside", "place_name"]

RECORDINGS: Final = "recordings"
INFO: Final = "info.json"
KIND: Final = "recording"
STEM: Final = "recording"
LONGEST_NAME: Final = 80
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Origin(BaseModel):
    """Where a recording comes from, and what is said about it there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    """Where its author can find it: a page, a repository with path and commit, or the name of a file."""
    repository: str = ""
    """The repository that it lies in, where it comes from a checkout."""
    file: str
    """Its own file, beside this record."""
    digest: str
    """Of that file."""
    title: str = ""
    author: str = ""
    licence: str | None = None
    """As whoever retrieved it said, or as the repository's licence file says; None is unknown."""
    description: str = ""
    environment: str = ""
    version: str = ""
    """Of the asciicast, where the server tells it."""
    cols: int | None = None
    rows: int | None = None
    duration: str = ""
    submitted_at: str = ""
    views: str = ""
    retrieved_at: str = ""


def digest_of(content: bytes) -> str:
    """As transcripts and the ledger name a recording."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def place_name(text: str) -> str:
    """A folder's name out of any text: no separator, no hidden file, not endless."""
    plain = _ODD.sub("-", text).strip("-.")[:LONGEST_NAME].strip("-.")
    return plain or hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def origin_beside(recording: Path) -> Origin | None:
    """What the shelf says about a file that lies on one; None for any other file."""
    path = recording.with_name(INFO)
    if recording.stem.partition(".")[0] != STEM or not path.is_file():
        return None
    try:
        found = read_record_as(Origin, path, KIND)
    except TaskFormatError:
        return None
    return found if found.file == recording.name else None


class Shelf:
    """The recordings of one place."""

    def __init__(self, folder: Path) -> None:
        """Made when it is not there; what an interrupted call left is removed. Raises `OSError`."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".*.new"):
            shutil.rmtree(unfinished)

    def put(self, name: str, origin: Origin, files: Mapping[str, bytes]) -> Path:
        """Put a recording in its place, over an earlier one; `files` has `origin.file`. Raises `OSError`."""
        target, fresh = self.folder / name, self.folder / f".{name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        for file, content in files.items():
            (fresh / file).write_bytes(content)
        write_record(fresh / INFO, KIND, origin.model_dump(mode="json"))
        if target.exists():
            shutil.rmtree(target)
        fresh.rename(target)
        return target

    def get(self, name: str) -> Origin | None:
        """What lies there, if it is whole: the record can be read, and the file is the one that it names."""
        try:
            origin = read_record_as(Origin, self.folder / name / INFO, KIND)
            content = (self.folder / name / Path(origin.file).name).read_bytes()
        except (TaskFormatError, OSError):
            return None
        return origin if digest_of(content) == origin.digest else None

    def remove(self, name: str) -> bool:
        """Take a recording from the shelf; whether there was one."""
        if not (self.folder / name).is_dir():
            return False
        shutil.rmtree(self.folder / name)
        return True

    def names(self) -> Iterator[str]:
        """Of every folder, also of what is not whole."""
        with os.scandir(self.folder) as entries:
            yield from sorted(one.name for one in entries if one.is_dir() and not one.name.startswith("."))
