"""Where a COPY takes its files from: the folder of a build, without what `.dockerignore` names."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

from termarena.sandbox.docker.ignore import Ignored
from termarena.sandbox.namespace.inside import tar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Context", "Picked", "has_pattern", "matches"]

CHUNK: Final = 1 << 20


def has_pattern(word: str) -> bool:
    """Whether a source is a pattern rather than a name."""
    return any(letter in word for letter in "*?[")


def matches(pattern: str, name: str) -> bool:
    """Whether one part of a path matches, as Go's filepath.Match has it; raises `ValueError` for what is no pattern."""
    try:
        return re.fullmatch(_translated(pattern), name, re.DOTALL) is not None
    except re.error as error:
        raise ValueError(f"{pattern} is no pattern: {error}") from error


def _translated(pattern: str) -> str:
    parts, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        end = pattern.find("]", at + 2) if letter == "[" else -1
        if letter == "[" and end > 0:
            inner = pattern[at + 1 : end]
            parts.append("[" + ("^" + inner[1:] if inner.startswith("^") else inner).replace("\\", r"\\") + "]")
            at = end
        elif letter in "*?":
            parts.append("[^/]*" if letter == "*" else "[^/]")
        elif letter == "\\" and at + 1 < len(pattern):
            at += 1
            parts.append(re.escape(pattern[at]))
        else:
            parts.append(re.escape(letter))
        at += 1
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Picked:
    """One source of a COPY that is there."""

    path: str
    """Within the context; empty for all of it."""
    is_folder: bool


class Context:
    """A folder whose files a build may use; links in it never lead out of it."""

    def __init__(self, folder: Path, dockerfile: str = "Dockerfile", *, recording: Path | None = None) -> None:
        """Reads the list of what is to be ignored; a `recording` in the folder is no part of it."""
        self.folder = folder.resolve()
        self._ignored = Ignored.of(self.folder, dockerfile)
        place = self.folder if recording is None else recording.resolve()
        self._recording = str(place.relative_to(self.folder)) if self.folder in place.parents else None

    def _excludes(self, path: str, *, is_folder: bool) -> bool:
        if self._recording is not None and f"{path}/".startswith(f"{self._recording}/"):
            return True
        return self._ignored.excludes(path, is_folder=is_folder)

    def pick(self, word: str) -> list[Picked]:
        """What a source names, in order; empty for nothing.

        Raises `ValueError` for a name that climbs and for a bad pattern.
        """
        parts = [part for part in word.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError(f"{word} leads outside the context")
        found = [""]
        for part in parts:
            found = [path for place in found for path in self._step(place, part)]
        return [picked for path in found if (picked := self._picked(path)) is not None]

    def _step(self, place: str, part: str) -> list[str]:
        if not has_pattern(part):
            return [f"{place}/{part}" if place else part]
        folder = self._real(place)
        if folder is None or not folder.is_dir():
            return []
        names = sorted(name for name in os.listdir(folder) if matches(part, name))  # noqa: PTH208 - names are enough
        return [f"{place}/{name}" if place else name for name in names]

    def _picked(self, path: str) -> Picked | None:
        real = self._real(path)
        if real is None or (path and self._excludes(path, is_folder=real.is_dir())):
            return None
        return Picked(path, real.is_dir())

    def _real(self, path: str) -> Path | None:
        """The file itself, links followed within the context; None where there is none."""
        try:
            real = (self.folder / path).resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return real if real == self.folder or self.folder in real.parents else None

    def members(self, picked: Picked, name: str) -> Iterator[tuple[tar.Member, Path | None]]:
        """The entries below a picked folder, or the picked file as `name`; files of root's."""
        real = self._real(picked.path)
        if real is None:
            return
        if not picked.is_folder:
            yield _member(f"0/{name}", real), real
            return
        yield from self._below(real, "")

    def _below(self, real: Path, inner: str) -> Iterator[tuple[tar.Member, Path | None]]:
        base = str(real.relative_to(self.folder)) if real != self.folder else ""
        pending, unused = [inner], dict[str, tar.Member]()
        while pending:
            place = pending.pop()
            folder = real / place if place else real
            for name in sorted(os.listdir(folder)):  # noqa: PTH208 - names are enough
                path = f"{place}/{name}" if place else name
                full = real / path
                mode = full.lstat().st_mode
                within = f"{base}/{path}" if base else path
                if self._excludes(within, is_folder=stat.S_ISDIR(mode)):
                    continue
                if stat.S_ISDIR(mode):
                    pending.append(path)
                    if self._excludes(within, is_folder=False):
                        # Something below it may be an exception: only then is the folder there.
                        unused[path] = _member(f"0/{path}", full)
                        continue
                elif not stat.S_ISLNK(mode) and not stat.S_ISREG(mode):
                    continue
                for above in [above for above in unused if path.startswith(f"{above}/")]:
                    yield unused.pop(above), None
                yield _member(f"0/{path}", full), full if stat.S_ISREG(mode) else None

    def digest(self, picked: Picked, name: str) -> str:
        """Of names, kinds, modes, links and contents; times do not count."""
        state = hashlib.sha256()
        for member, file in self.members(picked, name):
            state.update(repr((member.name, member.kind, member.mode, member.target, member.size)).encode())
            if file is not None:
                with file.open("rb") as opened:
                    state.update(hashlib.file_digest(opened, "sha256").digest())
        return state.hexdigest()

    @property
    def has_ignored(self) -> bool:
        """Whether anything may be left out."""
        return self._ignored.has_rules or self._recording is not None

    def copy_to(self, picked: Picked, target: Path) -> None:
        """Copy a picked folder, without what is ignored, to a new one."""
        target.mkdir()
        for member, file in self.members(picked, "x"):
            place = target / member.name.removeprefix("0/")
            if member.kind == "folder":
                place.mkdir(mode=0o700)
            elif member.kind == "symlink":
                place.symlink_to(member.target)
                continue
            elif file is not None:
                shutil.copyfile(file, place)
            place.chmod(member.mode | (stat.S_IRWXU if member.kind == "folder" else 0))

    def write(self, picked: Picked, name: str, out: IO[bytes]) -> None:
        """Write the entries as an archive of our own form."""
        for member, file in self.members(picked, name):
            out.write(tar.header(member))
            if file is not None:
                _copy(file, member.size, out)
        out.write(bytes(2 * tar.BLOCK))
        out.flush()


def _member(name: str, path: Path) -> tar.Member:
    found = path.lstat()
    kind = "symlink" if path.is_symlink() else "folder" if path.is_dir() else "file"
    member = tar.Member(name, kind, found, target=str(path.readlink()) if kind == "symlink" else "")
    member.uid = member.gid = 0
    return member


def _copy(file: Path, size: int, out: IO[bytes]) -> None:
    left = size
    with file.open("rb") as opened:
        while left and (data := opened.read(min(CHUNK, left))):
            out.write(data)
            left -= len(data)
    # A file that shrank while it was read is filled up: its size has been announced.
    out.write(bytes(left + -size % tar.BLOCK))
