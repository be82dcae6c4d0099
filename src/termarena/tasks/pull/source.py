"""From what a user writes to what it means: `SOURCE[@REV][#folder]`, read without touching the network.

    terminal-bench@2.0                          a known name, or one from the settings
    github:owner/name@v1#tasks                  a git repository; also https, ssh, git, file and user@host:path
    hf:org/name@main#tasks                      a Hugging Face dataset repository
    registry:FILE_OR_URL#name@version           a dataset in a registry file
    https://host/tasks.tar.gz@sha256:HEX#tasks  an archive; also a local file
    ./tasks                                     a folder, used where it lies

An address that ends like an archive is one; `git+` before it says that it is a repository all the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from termarena.core.errors import NotFound, UsageError
from termarena.tasks.pull.contract import Kind, Plan, is_safe_path, shown, without_login
from termarena.tasks.pull.known import KnownSource, all_names, look_up

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ARCHIVE_SUFFIXES", "Source", "hub_endpoint", "is_commit", "read_source"]

ARCHIVE_SUFFIXES = (
    ".tar.gz",
    ".tgz",
    ".tar.xz",
    ".txz",
    ".tar.bz2",
    ".tbz2",
    ".tar.zst",
    ".tzst",
    ".tar",
    ".zip",
)
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+]*)://")
_GIT_SCHEMES = {"https", "http", "ssh", "git", "file"}
_GIT = re.compile(
    r"(?P<address>(?:[a-z]+://[^/]*/|[\w.-]+@[\w.-]+:)[^@#]+)(?:@(?P<revision>[^#]*))?(?:#(?P<folder>.*))?"
)
_SCP = re.compile(r"[\w.-]+@[\w.-]+:(?!/)")
_HUB = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)(?:@(?P<revision>[^#]*))?(?:#(?P<folder>.*))?")
_SHA256 = re.compile(r"@sha256:(?P<hex>[0-9a-fA-F]{64})$")
_LONGEST_NAME = 100
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# What git forbids in the name of a branch or tag, and a leading dash, which a command would take for an option.
_BAD_REVISION = re.compile(r"^[-./]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/$|\.lock$")


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be fetched. `address` may hold a credential, so it is kept out of the representation."""

    text: str = field(repr=False)
    kind: Kind
    name: str
    address: str = field(repr=False)
    revision: str | None = None
    folder: str = ""
    dataset: str = ""
    """The dataset in a registry: `name` or `name@version`."""
    known: KnownSource | None = None
    """What a known name adds to its source."""

    @property
    def is_pinned(self) -> bool:
        """Whether the revision can only ever mean one content."""
        return self.revision is not None and (self.kind == "archive" or is_commit(self.revision))

    @property
    def is_file(self) -> bool:
        """Whether it is a file on this machine."""
        return self.kind in ("archive", "registry") and not _URL.match(self.address)

    @property
    def is_local(self) -> bool:
        """Whether fetching it needs no network."""
        return (self.kind == "archive" and self.is_file) or self.address.startswith("file://")

    @property
    def key(self) -> str:
        """A digest of everything that decides the content, except the revision. The query of an address does; a login
        only opens the door, and a new token shall not mean a new download."""
        extra = [] if self.known is None else self.known.deciding()
        parts = [self.kind, without_login(self.address), self.folder, self.dataset, *extra]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def shelf(self) -> str:
        """The folder in the cache that holds the pulled revisions: the known name, or an address that can be read."""
        if self.known is not None:
            return self.known.name
        words = _plain(re.sub(r"^[a-z+]+://", "", shown(self.address)))
        return f"{words[-80:].lstrip('-.')}-{self.key[:8]}"

    def plan(self) -> Plan:
        """What would be fetched."""
        tasks = () if self.known is None else self.known.tasks
        revision = self.dataset or self.revision
        return Plan(
            source=shown(self.text),
            kind=self.kind,
            name=self.name,
            address=f"{hub_endpoint()}/datasets/{self.address}" if self.kind == "huggingface" else shown(self.address),
            revision=revision or None,
            folder=self.folder,
            is_pinned=self.is_pinned,
            tasks=tasks,
            is_packed=self.known is not None and self.known.unpack,
        )


def hub_endpoint() -> str:
    """Where the Hugging Face hub is: `$HF_ENDPOINT`, or its public address."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def is_commit(revision: str) -> bool:
    """Whether it is the whole id of a commit."""
    return _COMMIT.fullmatch(revision) is not None


def read_source(text: str, sources: Mapping[str, str]) -> Source:
    """What `text` means; `sources` are the names that the settings add to the known ones, or replace.

    Raises UsageError for text that is no source, NotFound for a name, file or folder that is not there.
    """
    if not text or any(ord(character) < ord(" ") for character in text):
        raise UsageError(f"{shown(text)!r} is no source of a dataset", hint=_FORMS)
    known = look_up(text, sources)
    if known is None:
        return _spelled_out(text)
    target = replace(_spelled_out(known.source), text=text, known=known)
    return target if target.kind == "folder" else replace(target, name=known.name.partition("@")[0])


_FORMS = (
    "a source is a known name, github:owner/name, a git URL, hf:org/name, registry:FILE#name, an archive or a folder"
)


def _spelled_out(text: str) -> Source:
    prefix, colon, rest = text.partition(":")
    if colon and prefix in ("github", "hf"):
        return _hub(text, rest, is_github=prefix == "github")
    if colon and prefix == "registry":
        return _registry(text, rest)
    if text.startswith("git+"):
        return _git(text, text[len("git+") :])
    scheme = _URL.match(text)
    if scheme is None and not _SCP.match(text):
        return _local(text)
    if scheme and scheme["scheme"] not in _GIT_SCHEMES:
        raise UsageError(f"{scheme['scheme']}:// is no way to fetch a dataset", hint=_FORMS)
    return _archive_url(text) or _git(text, text)


def _hub(text: str, rest: str, *, is_github: bool) -> Source:
    found = _HUB.fullmatch(rest)
    if found is None:
        form = "github:owner/name" if is_github else "hf:org/name"
        raise UsageError(f"{shown(text)} is not of the form {form}[@REV][#folder]")
    path = f"{found['owner']}/{found['name']}"
    return Source(
        text=text,
        kind="git" if is_github else "huggingface",
        name=found["name"],
        address=f"https://github.com/{path}" if is_github else path,
        revision=_revision(found["revision"]),
        folder=_folder(found["folder"]),
    )


def _git(text: str, url: str) -> Source:
    found = _GIT.fullmatch(url)
    if found is None:
        raise UsageError(f"{shown(text)} is not of the form URL[@REV][#folder]", hint="write an @ in a path as %40")
    address = found["address"]
    name = re.split(r"[/:]", shown(address).rstrip("/"))[-1].removesuffix(".git")
    return Source(
        text=text,
        kind="git",
        name=_plain(unquote(name)),
        address=address,
        revision=_revision(found["revision"]),
        folder=_folder(found["folder"]),
    )


def _archive_url(text: str) -> Source | None:
    url, folder = _cut_folder(text)
    digest = _SHA256.search(url)
    url = _SHA256.sub("", url)
    if not _URL.match(url):
        return None
    _check_url(url)
    parts = urlsplit(url)
    suffix = _archive_suffix(parts.path)
    if suffix is None or parts.scheme not in ("http", "https", "file"):
        return None
    address = unquote(parts.path) if parts.scheme == "file" else url
    return _archive(text, address, name=parts.path, digest=digest, folder=folder)


def _local(text: str) -> Source:
    if _is_folder(text):
        return Source(text=text, kind="folder", name=Path(text).resolve().name, address=str(Path(text).absolute()))
    rest, folder = _cut_folder(text)
    digest = _SHA256.search(rest)
    path = _SHA256.sub("", rest)
    if _is_folder(path) and folder:
        return _local(f"{path}/{_folder(folder)}")
    if not _is_file(path):
        raise _nothing(text)
    if _archive_suffix(path) is None:
        raise UsageError(f"{path} is no archive", hint=f"archives end in {', '.join(ARCHIVE_SUFFIXES)}")
    return _archive(text, str(Path(path).absolute()), name=path, digest=digest, folder=folder)


def _nothing(text: str) -> NotFound:
    if "/" in text:
        return NotFound(f"there is no file or folder {shown(text)}", hint=_FORMS)
    return NotFound(f"no dataset is known as {text}, and there is no such folder", known=all_names(), hint=_FORMS)


def _archive(text: str, address: str, *, name: str, digest: re.Match[str] | None, folder: str | None) -> Source:
    if "@sha256:" in address:
        raise UsageError(f"{shown(text)}: the sha256 of an archive has 64 hexadecimal digits")
    suffix = _archive_suffix(name) or ""
    return Source(
        text=text,
        kind="archive",
        name=_plain(unquote(Path(name).name)[: -len(suffix)]),
        address=address,
        revision=f"sha256:{digest['hex'].lower()}" if digest else None,
        folder=_folder(folder),
    )


def _registry(text: str, rest: str) -> Source:
    address, _, dataset = rest.partition("#")
    if not address:
        raise UsageError(f"{text} is not of the form registry:FILE_OR_URL#name@version")
    url = _URL.match(address)
    if url and url["scheme"] not in ("http", "https"):
        raise UsageError(f"a registry is a file, or comes by http or https, not by {url['scheme']}")
    if url:
        _check_url(address)
    elif not _is_file(address):
        raise NotFound(f"there is no registry file {address}")
    name = _plain(dataset.partition("@")[0] or Path(shown(address)).stem)
    return Source(
        text=text,
        kind="registry",
        name=name,
        address=address if url else str(Path(address).absolute()),
        dataset=dataset,
    )


def _cut_folder(text: str) -> tuple[str, str | None]:
    rest, mark, folder = text.rpartition("#")
    return (rest, folder) if mark else (text, None)


def _archive_suffix(path: str) -> str | None:
    return next((suffix for suffix in ARCHIVE_SUFFIXES if path.lower().endswith(suffix)), None)


def _revision(text: str | None) -> str | None:
    if text is None:
        return None
    if not text or _BAD_REVISION.search(text):
        raise UsageError(f"{text!r} is no branch, tag or commit")
    return text


def _folder(text: str | None) -> str:
    folder = "/".join(part for part in (text or "").split("/") if part not in ("", "."))
    if folder and not is_safe_path(folder):
        raise UsageError(f"{text!r} is no folder inside a dataset")
    return folder


def _plain(name: str) -> str:
    """A name that can be that of a folder."""
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.")[:_LONGEST_NAME].rstrip("-.") or "dataset"


def _is_folder(path: str) -> bool:
    # The methods of Path raise where these say no: a name that is too long, a folder above that may not be searched.
    return os.path.isdir(path)  # noqa: PTH112


def _is_file(path: str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname or parts.scheme == "file") and parts.port != 0
    except ValueError:
        is_whole = False
    if not is_whole:
        raise UsageError(f"{shown(url)} is no address")
