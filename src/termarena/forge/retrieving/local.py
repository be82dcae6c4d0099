"""Retrieving from this machine: files, folders and checkouts onto the shelf, each with where it comes from."""

from __future__ import annotations

import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from termarena.core.errors import RecordingError
from termarena.forge.casts import TIMING_SUFFIXES, load_file, parse_loaded
from termarena.forge.finding import find_recordings
from termarena.forge.retrieving.checkouts import checkout_of
from termarena.forge.retrieving.retrieved import Retrieved
from termarena.forge.retrieving.shelf import Origin, Shelf, place_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from termarena.forge.casts import Recording
    from termarena.forge.retrieving.checkouts import Checkout
    from termarena.forge.retrieving.retrieved import Blocked

__all__ = ["retrieve_from_here"]

OWN: Final = "local"
_SUFFIXES: Final = {"1": "json", "2": "cast", "3": "cast", "typescript": "typescript", "txt": "txt"}


def retrieve_from_here(
    path: Path, recordings: Path, licence: str | None, blocked: Blocked, on_step: Callable[[Retrieved, int], None]
) -> Retrieved:
    """Copy the recordings in a file or folder below `recordings`; of a checkout, with its address, commit and licence.

    `licence` counts before what a checkout says, also for what is on the shelf already. What is no recording is told
    and stops no other one. Raises `NotFound`, `OSError`.
    """
    checkout = checkout_of(path)
    shelf = Shelf(recordings / place_name(checkout.name if checkout else OWN))
    done = Retrieved(str(shelf.folder))
    found: Sequence[Path] = [
        one for one in find_recordings([path]) if recordings.absolute() not in one.absolute().parents
    ]
    for file in found:
        try:
            _take(file, shelf, checkout, licence, (blocked, done))
        except RecordingError as error:
            done.count("failed", error.message)
        on_step(done, len(found))
    return done


def _take(
    file: Path, shelf: Shelf, checkout: Checkout | None, licence: str | None, on: tuple[Blocked, Retrieved]
) -> None:
    blocked, done = on
    loaded = load_file(file)
    recording, digest = parse_loaded(loaded), loaded.digest
    name = f"{place_name(file.stem)}-{digest.partition(':')[2][:12]}"
    address = checkout.address_of(file) if checkout else PurePath(loaded.path).name
    if blocked.is_blocked(digest) or ("://" in address and blocked.is_blocked_source(address)):
        shelf.remove(name)
        done.count("blocked")
        return
    before = shelf.get(name)
    if before is not None and licence in (None, before.licence):
        done.count("known")
        return
    stored = f"recording.{_SUFFIXES[recording.version]}"
    origin = Origin(
        address=address,
        repository=checkout.address if checkout else "",
        file=stored,
        digest=digest,
        title=_title(recording),
        licence=licence or (checkout.licence if checkout else None),
        version=recording.version,
        cols=recording.cols,
        rows=recording.rows,
        retrieved_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )
    files = {stored: loaded.raw}
    if loaded.timing is not None:
        files[stored + TIMING_SUFFIXES[0]] = loaded.timing
    shelf.put(name, origin, files)
    done.count("fetched")


def _title(recording: Recording) -> str:
    title = recording.header.get("title")
    return title[:500] if isinstance(title, str) else ""
