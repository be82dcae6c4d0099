"""Repositories that a session cloned: fetched as they were on its day, into a cache where nothing of them is run.

Only objects are fetched: no working tree is made on this machine, no hook, filter or configuration of theirs has a say.
What a start state takes is a bundle, and it is unpacked inside of a sandbox.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from termarena.core.errors import AddressRefused, RecordingRefused
from termarena.forge.asking import MOST_HOPS, Way, moved_to, way_to
from termarena.forge.manifests import MANIFESTS, Needs, needs_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import IO

__all__ = ["Clone", "Repository", "RepositoryRules", "clone_of", "fetch_repository"]

GATE: Final = "reproduce"
FETCH_TIMEOUT_S: Final = 300
LARGEST_MANIFEST: Final = 256 << 10
LARGEST_LISTING: Final = 16 << 20
_KILLED: Final = (-9, 124, 137)
_TOO_LARGE: Final = (-25, 153)  # SIGXFSZ
_BRANCH: Final = re.compile(r"[\w][\w./-]*")
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
    "HOME": "/nonexistent",
}
_SETTINGS: Final = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("fetch.fsckObjects", "true"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
)


class RepositoryRules(BaseModel):
    """Whether repositories that a session cloned are fetched, which uses a network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fetch: bool = False
    """Without it, such a session is refused."""
    instead_of: dict[str, str] = Field(default_factory=dict)
    """Beginnings of addresses and what to ask in their place: a mirror of your own."""
    most_bytes: int = Field(64 << 20, gt=0)
    """A larger repository is refused."""


@dataclass(frozen=True, slots=True)
class Clone:
    """One `git clone` of a session."""

    url: str
    folder: str
    """Where it went, as an absolute path of the task."""
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A clone as it was on the day of the recording."""

    clone: Clone
    commit: str
    branch: str
    bundle: Path
    """In the cache: the history up to the commit."""
    needs: Needs
    """What its manifests ask for."""
    licence: str | None = None
    """The name of its licence file."""
    names: frozenset[str] = frozenset()
    """Of all its files."""


def clone_of(words: tuple[str, ...], cwd: str) -> Clone | None:
    """The clone that these words of a plain command make; None for any other, or one with options beyond the usual."""
    if words[:2] != ("git", "clone"):
        return None
    operands, branch, rest = [], None, list(words[2:])
    while rest:
        word = rest.pop(0)
        if word in ("-b", "--branch", "--depth") and rest:
            value = rest.pop(0)
            branch = value if word != "--depth" else branch
        elif not word.startswith("-"):
            operands.append(word)
        elif word not in ("-q", "--quiet", "--single-branch", "--progress") and not word.startswith("--depth="):
            return None
    if not 1 <= len(operands) <= 2 or not operands[0].startswith(("https://", "http://")):  # noqa: PLR2004 - and a folder
        return None
    name = operands[0].rstrip("/").rpartition("/")[2].removesuffix(".git")
    folder = operands[1] if operands[1:] else name
    return Clone(operands[0], os.path.normpath(os.path.join(cwd, folder)), branch) if name else None  # noqa: PTH118 - a path of the task


def fetch_repository(clone: Clone, recorded_at: str | None, rules: RepositoryRules, cache: Path) -> Repository:
    """Fetch what the clone brought on its day: the last commit of its branch that is not younger than the recording.

    Raises `RecordingRefused` (gate `reproduce`): no such repository, an address that is not public, none that old, too
    large, or a recording that does not know its day.
    """
    if recorded_at is None:
        raise RecordingRefused(GATE, f"{clone.url} was cloned, and the recording does not tell on which day")
    place = _place_of(clone.url, rules)
    cache = cache.absolute()  # git works in there
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:  # two recordings of one repository, or two forges in one folder
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _on_its_day(clone, recorded_at, _Git(cache / _name(clone.url), rules, place))


class _Place(NamedTuple):
    """Where a repository is asked for."""

    url: str
    way: Way | None = None
    """The one way to the server; without it, a mirror of the user's own is asked."""


def _place_of(url: str, rules: RepositoryRules) -> _Place:
    """Follow the server to where the repository is now; every step of the way is looked up, and must be public."""
    asked = url
    for _ in range(MOST_HOPS):
        way = looked_up(url, rules)
        try:
            moved = moved_to(url, way) if way is not None else None
        except ValueError as error:
            raise RecordingRefused(GATE, f"{asked} was cloned, and {error}") from error
        if moved is None:
            return _Place(url, way)
        url = moved
    raise RecordingRefused(GATE, f"{asked} was cloned, and leads on more than {MOST_HOPS} times")


def _name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:24]


def _on_its_day(clone: Clone, recorded_at: str, git: _Git) -> Repository:
    folder = git.folder
    branch = _fetched(git, clone, folder)
    commit = git.run("rev-list", "-1", "--first-parent", f"--before={recorded_at}", f"refs/heads/{branch}").strip()
    if not commit:
        raise RecordingRefused(GATE, f"{clone.url} has no commit as old as the recording")
    bundle = folder / f"{commit}.bundle"
    if not bundle.exists():
        git.run("update-ref", f"refs/forge/{commit}", commit)
        fresh = bundle.with_suffix(".new")
        git.run("bundle", "create", "--quiet", str(fresh), f"refs/forge/{commit}")
        fresh.replace(bundle)
    every = [name for name in git.run("ls-tree", "-r", "-z", "--name-only", commit).split("\0") if name]
    names = [name for name in every if "/" not in name]
    texts = {name: git.text(f"{commit}:{name}") for name in names if name in MANIFESTS}
    licence = next((name for name in names if re.match(r"(?i)(?:licen[cs]e|copying)(?:\.\w+)?$", name)), None)
    return Repository(clone, commit, branch, bundle, needs_of(texts), licence, frozenset(every))


def looked_up(url: str, rules: RepositoryRules) -> Way | None:
    """The one way that git may go; None where the settings say where to go instead."""
    if any(url.startswith(prefix) for prefix in rules.instead_of):
        return None
    try:
        return way_to(url)
    except AddressRefused as error:
        raise RecordingRefused(GATE, f"{url} was cloned, and is not at a public address: {error.why}") from error
    except (OSError, ValueError) as error:
        raise RecordingRefused(GATE, f"{url} was cloned, and its host cannot be found: {error}") from error


def _fetched(git: _Git, clone: Clone, folder: Path) -> str:
    """Fetch the branch, or the one that the server calls its own; its name."""
    if not folder.exists():
        fresh = folder.with_suffix(".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        _Git(fresh, git.rules, git.place).run("init", "--quiet", "--bare", ".")
        fresh.replace(folder)
    branch = clone.branch
    if branch is None:
        told = re.match(r"ref: refs/heads/(\S+)\tHEAD", git.run("ls-remote", "--symref", "--", git.place.url, "HEAD"))
        branch = told[1] if told else "master"
    if not _BRANCH.fullmatch(branch) or ".." in branch:
        raise RecordingRefused(GATE, f"{clone.url} has a branch of an odd name")
    ref = f"refs/heads/{branch}"
    git.run("fetch", "--quiet", "--no-tags", "--", git.place.url, f"+{ref}:{ref}")
    held = sum(path.stat().st_size for path in folder.rglob("*.pack"))
    if held > git.rules.most_bytes:
        shutil.rmtree(folder)
        raise RecordingRefused(GATE, f"{clone.url} takes {held >> 20} MiB; at most {git.rules.most_bytes >> 20}")
    return branch


@dataclass(frozen=True, slots=True)
class _Git:
    """git in a bare repository of ours, deaf to every configuration but this one."""

    folder: Path
    rules: RepositoryRules
    place: _Place

    def run(self, *words: str) -> str:
        """What it prints. Every file that it writes, also what it prints to, ends at the largest size that is allowed:
        a few kilobytes of a repository can list more files than any memory holds."""
        # `timeout` ends the whole group: what git has started, too.
        limit = f'ulimit -f {self._room // 512}; exec timeout --signal=KILL {FETCH_TIMEOUT_S} git "$@"'
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complained:
            status = self._status(["sh", "-c", limit, "git", *words], printed, complained)
            said = " ".join(_start_of(complained, LARGEST_MANIFEST).split())[-200:]
            if status in _KILLED:
                raise RecordingRefused(GATE, f"git {words[0]} took more than {FETCH_TIMEOUT_S} s")
            if status in _TOO_LARGE or printed.seek(0, os.SEEK_END) > min(LARGEST_LISTING, self._room):
                raise RecordingRefused(GATE, f"git {words[0]} writes too much: at most {self._room >> 10} KiB")
            if status != 0:
                raise RecordingRefused(GATE, f"git {words[0]} failed: {said or f'status {status}'}")
            return _start_of(printed, LARGEST_LISTING)

    @property
    def _room(self) -> int:
        return 2 * self.rules.most_bytes

    def _status(self, command: list[str], printed: IO[bytes], complained: IO[bytes]) -> int:
        try:
            done = subprocess.run(  # noqa: S603 - no word of it can be an option or shell text
                command,
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=complained,
                timeout=FETCH_TIMEOUT_S + 10,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise RecordingRefused(GATE, f"git took more than {FETCH_TIMEOUT_S} s") from error
        return done.returncode

    def text(self, name: str) -> str:
        """A file's text, or nothing where it is too long to be a manifest."""
        size = int(self.run("cat-file", "-s", name))
        return self.run("cat-file", "blob", name) if size <= LARGEST_MANIFEST else ""

    def _environment(self) -> Mapping[str, str]:
        settings = [*_SETTINGS, *((f"url.{here}.insteadOf", there) for there, here in self.rules.instead_of.items())]
        way = self.place.way
        names = ("PATH", "http_proxy", "https_proxy", "all_proxy", "no_proxy") if way is None else ("PATH",)
        if way is None:
            settings.append(("http.followRedirects", "initial"))
        else:
            # Where a name leads was looked at once: a redirect, or another answer of that name, would lead elsewhere.
            settings += [("http.followRedirects", "false"), ("http.proxy", way.proxy or "")]
            settings += [("http.curloptResolve", way.pinned)] if way.proxy is None else []
        kept = {name: value for name, value in os.environ.items() if name in names or name.lower() in names}
        kept |= _ENVIRONMENT | {"GIT_CONFIG_COUNT": str(len(settings))}
        protocols = "http:https:file" if self.rules.instead_of else "http:https"
        kept["GIT_ALLOW_PROTOCOL"] = protocols
        for number, (name, value) in enumerate(settings):
            kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        return kept


def _start_of(file: IO[bytes], size: int) -> str:
    file.seek(0)
    return file.read(size).decode("utf-8", "replace")
