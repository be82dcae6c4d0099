"""Large recordings in pieces: cut once, kept beside the runs, the oldest ones given up."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from threading import Lock
from typing import Final

from termarena.core.errors import NotFound
from termarena.runs.segments import INDEX, cut_recording

__all__ = ["LARGE_BYTES", "Segments"]

LARGE_BYTES: Final = 4 << 20
"""A smaller recording is played whole: a browser reads it in a moment."""
MOST_KEPT: Final = 32
FOLDER: Final = ".segments"


class Segments:
    """The pieces of the recordings that were looked at last."""

    def __init__(self, runs: Path) -> None:
        """They are kept in a hidden folder of `runs`."""
        self._place = runs / FOLDER
        self._cutting = Lock()

    def file(self, recording: Path, name: str) -> Path:
        """A piece of a recording, or its index. Raises NotFound, OSError."""
        folder = self._place / _name(recording)
        path = folder / name
        if not path.is_file():
            with self._cutting:  # one at a time: it takes a processor for seconds
                if not (folder / INDEX).is_file():
                    self._cut(recording, folder)
        if not path.is_file():
            raise NotFound("no such piece of this recording", hint="index.json lists those there are")
        return path

    def _cut(self, recording: Path, folder: Path) -> None:
        self._place.mkdir(exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="new-", dir=self._place))
        try:
            if not cut_recording(recording, made):
                raise NotFound("this recording shows nothing")
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
        except ValueError as error:
            raise NotFound(f"this recording cannot be played: {error}") from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
        kept = sorted(self._place.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in kept[:-MOST_KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _name(recording: Path) -> str:
    """Of this recording as it is now: one that was replaced is cut anew."""
    found = recording.stat()
    told = f"{recording.resolve()}\0{found.st_size}\0{found.st_mtime_ns}"
    return hashlib.blake2b(os.fsencode(told), digest_size=16).hexdigest()
