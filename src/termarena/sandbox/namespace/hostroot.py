"""The `host` root: this machine's `/usr` below an `/etc` made from an allow list, and nothing else of the machine.

As root, the owners of `/usr` are shifted to the sandbox's ids, which would open files that only the host's root may
read; those are hidden. As an ordinary user, host-owned folders cannot be written through an overlay; a skeleton of
our own folders above them restores that for the upper levels.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.sandbox.namespace.building import build_once

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HostRoot", "build", "current_key"]

FORMAT: Final = 1
SKELETON_DEPTH: Final = 4
"""Folders below `/usr` that an ordinary user's sandbox can write: 2,776 of 15,442 on a Debian 12, made in 0.3 s."""

ETC_ALLOWED: Final = (
    "alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf", "debian_version",
    "ethertypes", "fonts", "gai.conf", "inputrc", "issue", "java-17-openjdk", "java-11-openjdk", "java-21-openjdk",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "login.defs", "magic", "magic.mime", "mime.types",
    "nanorc", "networks", "os-release", "pam.conf", "pam.d", "perl", "php", "pki/ca-trust", "pki/tls/certs", "profile",
    "profile.d", "protocols", "python3", "python3.11", "python3.12", "python3.13", "R", "redhat-release", "rpc",
    "security/limits.conf", "security/pam_env.conf", "services", "shells", "skel", "ssl/cert.pem", "ssl/certs",
    "ssl/openssl.cnf", "terminfo", "vim", "xattr.conf",
)  # fmt: skip

SYSTEM_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
FOLDERS: Final = {
    "dev": 0o755, "proc": 0o555, "sys": 0o555, "usr": 0o755, "etc": 0o755, "root": 0o700, "home": 0o755,
    "home/user": 0o755, "run": 0o755, "run/lock": 0o1777, "tmp": 0o1777, "var": 0o755, "var/cache": 0o755,
    "var/lib": 0o755, "var/log": 0o755, "var/spool": 0o755, "var/tmp": 0o1777, "opt": 0o755, "srv": 0o755,
    "mnt": 0o755, "media": 0o755, "app": 0o755,
}  # fmt: skip
USER_ID: Final = 1000

ACCOUNTS: Final = """\
root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
bin:x:2:2:bin:/bin:/usr/sbin/nologin
mail:x:8:8:mail:/var/mail:/usr/sbin/nologin
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
user:x:1000:1000:user:/home/user:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
GROUPS: Final = """\
root:x:0:
daemon:x:1:
bin:x:2:
tty:x:5:
mail:x:8:
www-data:x:33:
users:x:100:
user:x:1000:
nogroup:x:65534:
"""
WRITTEN: Final = {
    "etc/passwd": ACCOUNTS,
    "etc/group": GROUPS,
    "etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "etc/resolv.conf": "",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "etc/hostname": "sandbox\n",
    "etc/timezone": "Etc/UTC\n",
}


@dataclass(frozen=True, slots=True)
class HostRoot:
    """The parts of a prepared `host` root."""

    volumes: tuple[tuple[str, tuple[Path, ...]], ...]
    key: str


def current_key() -> str:
    """Which root this machine has now; another one whenever its packages or the allowed part of /etc change."""
    return _key(is_root=os.geteuid() == 0)


def build(store: Path, key: str) -> HostRoot:
    """Build, or find, the folders of the current key; raises `OSError` where the store is not writable."""
    is_root = os.geteuid() == 0
    base = build_once(store / f"host-{key}", _build_base)
    above = build_once(store / f"host-usr-{key}", _build_hidden if is_root else _build_skeleton)
    volumes = [("", (base,)), ("usr", (above, Path("/usr")))]
    volumes += [(name, (Path("/", name),)) for name in SYSTEM_LINKS if _is_real_folder(Path("/", name))]
    return HostRoot(tuple(volumes), key)


def _is_real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _key(*, is_root: bool) -> str:
    """Changes when the packages, the upper folders of /usr or the allowed part of /etc change."""
    state = hashlib.sha256(f"{FORMAT} {is_root} {os.geteuid()}".encode())
    watched = [Path("/var/lib/dpkg/status"), Path("/var/lib/rpm"), Path("/lib/apk/db/installed"), Path("/usr")]
    watched += [path for path in _walk(Path("/usr"), depth=2) if _is_real_folder(path)]
    for name in ETC_ALLOWED:
        watched += [Path("/etc", name), *_walk(Path("/etc", name), depth=4)]
    for path in watched:
        with contextlib.suppress(OSError):
            found = path.lstat()
            state.update(f"{path}\0{found.st_mode}\0{found.st_size}\0{found.st_mtime_ns}\n".encode(errors="replace"))
    return state.hexdigest()[:24]


def _walk(root: Path, *, depth: int) -> Iterator[Path]:
    """Everything below `root` down to `depth`, links not followed, in a fixed order."""
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        yield Path(entry.path)
        if depth > 1 and entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), depth=depth - 1)


def _build_base(target: Path) -> None:
    for name, mode in FOLDERS.items():
        (target / name).mkdir()
        (target / name).chmod(mode)
    for name in SYSTEM_LINKS:
        source = Path("/", name)
        if source.is_symlink():
            (target / name).symlink_to(source.readlink())
        elif source.is_dir():
            (target / name).mkdir()
    (target / "var/run").symlink_to("/run")
    (target / "etc/mtab").symlink_to("/proc/self/mounts")
    (target / "etc/localtime").symlink_to("/usr/share/zoneinfo/Etc/UTC")
    for name in ETC_ALLOWED:
        _copy_public(Path("/etc", name), target / "etc" / name)
    for name, text in WRITTEN.items():
        (target / name).write_text(text)
    if os.geteuid() == 0:
        os.chown(target / "home/user", USER_ID, USER_ID)
    target.chmod(0o755)


def _copy_public(source: Path, target: Path) -> None:
    """Copy what everyone may read: files, folders and links; anything else is left out."""
    try:
        mode = source.lstat().st_mode
    except OSError:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if stat.S_ISLNK(mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(mode) and mode & stat.S_IROTH:
        target.mkdir(exist_ok=True)
        for entry in source.iterdir():
            _copy_public(entry, target / entry.name)
    elif stat.S_ISREG(mode) and mode & stat.S_IROTH:
        shutil.copyfile(source, target)
        target.chmod(stat.S_IMODE(mode) & 0o755)


def _build_skeleton(target: Path) -> None:
    """Empty folders of our own with the names of those in /usr, down to a depth."""
    for path in _walk(Path("/usr"), depth=SKELETON_DEPTH):
        if _is_real_folder(path):
            (target / path.relative_to("/usr")).mkdir(mode=0o755, parents=True, exist_ok=True)
    target.chmod(0o755)


def _build_hidden(target: Path) -> None:
    """A whiteout for every file and folder of /usr that not everyone may read."""
    for path in _private_paths(Path("/usr")):
        hidden = target / path.relative_to("/usr")
        for parent in reversed(hidden.relative_to(target).parents):
            if not (target / parent).is_dir():
                (target / parent).mkdir()
                (target / parent).chmod(stat.S_IMODE(Path("/usr", parent).stat().st_mode))
        os.mknod(hidden, stat.S_IFCHR, 0)
    target.chmod(0o755)


def _private_paths(root: Path) -> Iterator[Path]:
    for entry in os.scandir(root):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            continue
        if not mode & stat.S_IROTH and not (stat.S_ISREG(mode) and mode & stat.S_IXOTH):
            yield Path(entry.path)
        elif stat.S_ISDIR(mode):
            yield from _private_paths(Path(entry.path))
