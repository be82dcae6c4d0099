"""A git checkout as the source of recordings: its commit, its public address, its licence.

Only files are read: git itself would do what the checkout's own configuration says.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from termarena.forge.retrieving.licences import licence_of
from termarena.tasks.pull.contract import shown

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkout", "checkout_of"]

LARGEST_BYTES: Final = 4 << 20
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF: Final = re.compile(r"ref: (refs/[\w./+-]{1,250})")
_REMOTE: Final = re.compile(r'\[remote "origin"\]([^\[]*)')
_URL: Final = re.compile(r"^\s*url\s*=\s*(\S+)\s*$", re.MULTILINE)
_SCP: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!/)([\w./~-]+)")
_BLOBS: Final = ("https://github.com/", "https://gitlab.com/")


class Checkout(NamedTuple):
    """A checkout, as far as its files tell."""

    root: Path
    address: str
    """Of the repository; empty where it has none that others could use."""
    commit: str
    licence: str | None

    @property
    def name(self) -> str:
        """For people, and for the shelf."""
        return self.address.partition("://")[2] or self.root.name

    def address_of(self, path: Path) -> str:
        """Where a file of it is to be found."""
        inside = quote(os.fsencode(path.absolute().relative_to(self.root).as_posix()))
        if self.address.startswith(_BLOBS) and self.commit:
            return f"{self.address}/blob/{self.commit}/{inside}"
        at = f"@{self.commit}" if self.commit else ""
        return f"{self.address or self.root.name}#{inside}{at}"


def checkout_of(path: Path) -> Checkout | None:
    """The checkout that a file or folder lies in; None where it lies in none."""
    here = path.absolute()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    if root is None:
        return None
    git = _git_folder(root / ".git")
    return Checkout(root, _address(_text(_shared(git) / "config")), _commit(git), licence_of(root))


def _git_folder(git: Path) -> Path:
    """The folder itself; of a linked work tree, its own within the repository."""
    if git.is_dir():
        return git
    return git.parent / _text(git).removeprefix("gitdir:").strip()


def _shared(git: Path) -> Path:
    """Where the configuration and the branches lie, which work trees share."""
    common = _text(git / "commondir").strip()
    return git / common if common else git


def _commit(git: Path) -> str:
    head = _text(git / "HEAD").strip()
    ref = _REF.fullmatch(head)
    if ref is None:
        return head if _COMMIT.fullmatch(head) else ""
    loose = _text(_shared(git) / ref[1]).strip() if ".." not in ref[1] else ""
    if _COMMIT.fullmatch(loose):
        return loose
    packed = re.search(rf"^({_COMMIT.pattern}) {re.escape(ref[1])}$", _text(_shared(git) / "packed-refs"), re.MULTILINE)
    return packed[1] if packed else ""


def _address(config: str) -> str:
    remote = _REMOTE.search(config)
    url = _URL.search(remote[1]) if remote else None
    if url is None:
        return ""
    plain = shown(url[1]).removesuffix("/").removesuffix(".git")
    if plain.startswith(("https://", "http://")):
        return plain
    if plain.startswith("ssh://"):
        return "https://" + plain.removeprefix("ssh://").rpartition("@")[2]
    scp = _SCP.fullmatch(plain)
    return f"https://{scp[1]}/{scp[2]}" if scp else ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
