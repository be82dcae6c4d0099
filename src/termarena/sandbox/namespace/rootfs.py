"""Root file systems: which folders lie below a sandbox's changes, and a digest that says what they were."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.core.errors import ImageError
from termarena.sandbox.namespace import hostbases, hostroot, images
from termarena.sandbox.namespace.building import build_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.spec import Root

__all__ = ["Base", "BaseVolume", "RootStore"]

FALLBACK_FOLDERS: Final = {
    "dev": 0o755, "proc": 0o555, "sys": 0o555, "etc": 0o755, "root": 0o700, "run": 0o755, "tmp": 0o1777,
    "var": 0o755, "var/tmp": 0o1777,
}  # fmt: skip
FALLBACK_FILES: Final = {"etc/hosts": "127.0.0.1 localhost\n::1 localhost\n", "etc/resolv.conf": ""}


@dataclass(frozen=True, slots=True)
class BaseVolume:
    """The folders, uppermost first, of which one mount point of the sandbox is made."""

    at: str
    lowers: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Base:
    """A root file system ready to lie below a sandbox."""

    volumes: tuple[BaseVolume, ...]
    digest: str


class RootStore:
    """Prepares root file systems once and remembers them; its folder is closed to other users."""

    def __init__(self, home: Path) -> None:
        """Creates nothing yet."""
        self._folder = home / "rootfs"
        self._known: dict[tuple[object, ...], Base] = {}
        self._held: list[int] = []

    def prune(self) -> int:
        """Remove `host` roots that are old and that nobody uses; how many there were."""
        return hostbases.prune(self._folder)

    def close(self) -> None:
        """Forget what was prepared: no sandbox starts on it any more."""
        self._known.clear()
        while self._held:
            os.close(self._held.pop())

    def known(self, root: Root) -> Base | None:
        """What an earlier `prepare` gave for this root, if it is still as it was then."""
        with contextlib.suppress(OSError):
            return self._known.get(_identity(root))
        return None

    def prepare(self, root: Root) -> Base:
        """May take seconds the first time. Raises `ImageError` for a root that cannot be used."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            key = _identity(root)
        except OSError as error:
            raise ImageError(str(root.path), error.strerror or "cannot be read", hint="check the path") from error
        path = (root.path or Path("/")).absolute()
        makers = {
            "host": self._host,
            "folder": lambda: self._from_folder(path),
            "archive": lambda: self._from_archive(path),
        }
        return self._remember(key, makers[root.kind])

    def _remember(self, key: tuple[object, ...], make: Callable[[], Base]) -> Base:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _host(self) -> Base:
        key = hostroot.current_key()
        self._held.append(hostbases.hold(self._folder, key))
        built = hostroot.build(self._folder, key)
        hostbases.prune(self._folder)
        return Base(tuple(BaseVolume(at, lowers) for at, lowers in built.volumes), f"host:{built.key}")

    def _fallback(self) -> Path:
        return build_once(self._folder / f"fallback-1-{os.geteuid()}", _build_fallback)

    def empty(self) -> Base:
        """A root file system without a program, for work on files only."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Base((BaseVolume("", (self._fallback(),)),), "empty")

    def over(self, lowers: tuple[Path, ...], digest: str) -> Base:
        """The root file system of an image from the folders of its layers, uppermost first."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Overlayfs takes no folder twice, and images often have the same (empty) layer twice: below its uppermost place
        # a layer shows nothing.
        return Base((BaseVolume("", (*dict.fromkeys(lowers), self._fallback())),), digest)

    def _from_folder(self, path: Path) -> Base:
        if not path.is_dir():
            raise ImageError(str(path), "is not a folder", hint='use kind="archive" for a tar archive')
        if not any((path / name).exists() for name in ("bin", "usr/bin", "sbin")):
            raise ImageError(str(path), "has neither bin nor usr/bin: not a root file system")
        return Base((BaseVolume("", (path, self._fallback())),), f"folder:{_digest_metadata(path)}")

    def _from_archive(self, path: Path) -> Base:
        digest = images.digest_archive(path)
        folder = build_once(self._folder / f"archive-{digest[:32]}", lambda target: images.unpack_image(path, target))
        return Base((BaseVolume("", (folder, self._fallback())),), f"sha256:{digest}")


def _identity(root: Root) -> tuple[object, ...]:
    if root.path is None:
        return ("host",)
    found = root.path.stat()
    return (root.kind, root.path.absolute(), found.st_ino, found.st_mtime_ns, found.st_size)


def _build_fallback(target: Path) -> None:
    """What a sparse root file system may lack; it lies lowest, so that anything the image has comes first."""
    for name, mode in FALLBACK_FOLDERS.items():
        (target / name).mkdir()
        (target / name).chmod(mode)
    for name, text in FALLBACK_FILES.items():
        (target / name).write_text(text)
    target.chmod(0o755)


def _digest_metadata(root: Path) -> str:
    """A digest over names, kinds, modes, sizes, times and link targets: a folder's content is not read."""
    state = hashlib.sha256()
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted(files + names):
            path = os.path.join(folder, name)  # noqa: PTH118 - tens of thousands of names
            found = os.lstat(path)
            target = os.readlink(path) if stat.S_ISLNK(found.st_mode) else ""  # noqa: PTH115 - tens of thousands of names
            size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
            row = f"{os.path.relpath(path, root)}\0{found.st_mode}\0{size}\0{found.st_mtime_ns}\0{target}\n"
            state.update(os.fsencode(row))
    return state.hexdigest()
