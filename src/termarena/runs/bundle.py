"""A run as one file that can be handed in: every file of it with its digest, and a hash chain over what happened.

    bundle.json         the table of files, the number of events, the chain
    config.lock.json    and all else as it lies in the run's folder

The chain begins with the lock. Every line of the journal is a link, and the line that ends a try binds the files of
that try; the last link binds the table of all files. So whoever knows the chain's end knows whether one byte of the run
is another, and a run that was handed in once cannot be exchanged for a better one without that being seen.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from termarena import __version__
from termarena.core.errors import RunBusy, RunNotWritable
from termarena.runs.journal import JournalReader
from termarena.runs.locking import is_held

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.core.run_folder import RunFolder

__all__ = ["KIND", "MANIFEST", "BundledFile", "Manifest", "Packed", "chain_of", "pack_run", "table_of"]

KIND: Final = "bundle"
MANIFEST: Final = "bundle.json"
BEGINNING: Final = b"termarena bundle 1\n"
BLOCK_BYTES: Final = 1 << 20
LEFT_OUT: Final = ("lock",)
"""Files of a run that say nothing of it."""
TRY_DEPTH: Final = 3
"""`trials/TASK/attempt-1`"""
ENDING_EVENTS: Final = ("trial_finished", "trial_regraded")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BundledFile(_Frozen):
    """One file of the run."""

    size_bytes: int
    sha256: str


class Manifest(_Frozen):
    """`bundle.json`."""

    run_id: str
    termarena: str
    """The version that packed it."""
    events: int
    chain: str
    """The last link, hexadecimal."""
    has_states: bool
    """Whether the captured file states are there, so that the run can be graded again."""
    files: dict[str, BundledFile]


class Packed(NamedTuple):
    """What was packed."""

    path: Path
    manifest: Manifest
    size_bytes: int


def pack_run(folder: RunFolder, out: Path, *, with_states: bool = True) -> Packed:
    """Pack a run that nobody is carrying out. The same run gives the same bytes.

    Raises `RunBusy`, `JournalDamaged`, and `RunNotWritable` where `out` cannot be written; then nothing is left of it.
    """
    if is_held(folder):
        raise RunBusy(str(folder.path), holder="the process that runs it")
    files = table_of(folder.path, with_states=with_states)
    events, chain = chain_of(folder, files)
    manifest = Manifest(
        run_id=folder.id, termarena=__version__, events=events, chain=chain, has_states=with_states, files=files
    )
    temporary = out.with_name(f".{out.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("xb") as raw:
            _write(raw, folder.path, manifest)
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunNotWritable(str(out), problem=error.strerror or str(error), errno=error.errno) from error
    return Packed(out, manifest, out.stat().st_size)


def table_of(place: Path, *, with_states: bool = True) -> dict[str, BundledFile]:
    """Every regular file below a run's folder by its path, in order; links and unfinished files are not part of it."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        is_part = path.is_file() and not path.is_symlink() and not path.name.startswith(".")
        if is_part and name not in (*LEFT_OUT, MANIFEST) and (with_states or path.name != "state.snapshot"):
            with path.open("rb") as file:
                found[name] = BundledFile(
                    size_bytes=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest()
                )
    return found


def chain_of(folder: RunFolder, files: Mapping[str, BundledFile]) -> tuple[int, str]:
    """The number of events, and the last link over journal, tries and table. Raises `JournalDamaged`."""
    link = hashlib.sha256(BEGINNING + _line("config.lock.json", files.get("config.lock.json"))).digest()
    events = 0
    tries = _by_try(files)
    reader = JournalReader(folder.journal)
    with folder.journal.open("rb") as journal:
        for event in reader:
            parts = [link, journal.readline()]
            if event.name in ENDING_EVENTS:
                fields = event.fields
                attempt = folder.attempt(fields["task_id"], fields["attempt"], retry=fields["retry"]).path
                parts += tries.get(attempt.relative_to(folder.path).as_posix(), ())
            link = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
            events += 1
    table = b"".join(_line(name, file) for name, file in sorted(files.items()))
    return events, hashlib.sha256(link + hashlib.sha256(table).digest()).hexdigest()


def _by_try(files: Mapping[str, BundledFile]) -> dict[str, list[bytes]]:
    """The lines of the table that belong to each try, by its folder: `trials/TASK/attempt-1`."""
    found: dict[str, list[bytes]] = {}
    for name, file in sorted(files.items()):
        parts = name.split("/", 3)
        if len(parts) > TRY_DEPTH and parts[0] == "trials":
            found.setdefault("/".join(parts[:TRY_DEPTH]), []).append(_line(name, file))
    return found


def _line(name: str, file: BundledFile | None) -> bytes:
    told = f"{name}\0{file.size_bytes}\0{file.sha256}\n" if file is not None else f"{name}\0\n"
    return told.encode("utf-8", "surrogateescape")


def _write(raw: io.BufferedWriter, place: Path, manifest: Manifest) -> None:
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        record = {"schema_version": 1, "kind": KIND, **manifest.model_dump(mode="json")}
        content = _json(record)
        archive.addfile(_member(MANIFEST, len(content)), io.BytesIO(content))
        for name, file in manifest.files.items():
            with (place / name).open("rb") as source:
                archive.addfile(_member(name, file.size_bytes), source)


def _member(name: str, size_bytes: int) -> tarfile.TarInfo:
    """Nothing of whoever packs it: no owner, no time."""
    member = tarfile.TarInfo(name)
    member.size = size_bytes
    member.mode = 0o644
    return member


def _json(record: Mapping[str, object]) -> bytes:
    return (json.dumps(record, indent=2, ensure_ascii=True, allow_nan=False) + "\n").encode()
