"""What pulling a dataset takes and gives: a plan before, steps while it goes on, the folder after, an error instead."""

from __future__ import annotations

import errno
import re
import threading
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from termarena.core.errors import FetchError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Bench",
    "Fetcher",
    "Kind",
    "Plan",
    "Progress",
    "PullError",
    "Pulled",
    "Reason",
    "Reporter",
    "Step",
    "as_pull_error",
    "is_safe_path",
    "shown",
    "without_login",
]

Kind = Literal["git", "registry", "huggingface", "archive", "folder"]
Reason = Literal[
    "offline",
    "network",
    "not-found",
    "unauthorised",
    "disk-full",
    "digest",
    "lfs",
    "unsafe",
    "broken",
    "no-git",
    "unwritable",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a pull would fetch. Holds no credential: it is made to be shown."""

    source: str
    """As it was asked for."""
    kind: Kind
    name: str
    """The dataset's name, and that of its folder in the cache."""
    address: str
    revision: str | None
    """A branch, tag, commit or `sha256:…`; None for whatever is newest. For a registry, the dataset's version."""
    folder: str
    """The folder in it that holds the tasks; empty for the whole."""
    is_pinned: bool
    """Whether the revision can only ever mean one content."""
    tasks: tuple[str, ...] = ()
    """The tasks wanted, where it is not all of them."""
    is_packed: bool = False
    """Whether the folder holds archives of one task each, to be unpacked."""

    def describe(self) -> str:
        """One line for people: `the git repository … at commit …, folder tasks (80 tasks)`."""
        what = {
            "git": "the git repository",
            "registry": "the registry",
            "huggingface": "the Hugging Face dataset",
            "archive": "the archive",
            "folder": "the folder",
        }[self.kind]
        at = f" at {self.revision}" if self.revision else ""
        where = f", folder {self.folder}" if self.folder else ""
        many = f" ({len(self.tasks)} tasks of it)" if self.tasks else ""
        return f"{what} {self.address}{at}{where}{many}"

    def as_dict(self) -> dict[str, object]:
        """The plan as `--json` shows it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Pulled:
    """A dataset that lies in a folder, with the revision that says which content it is."""

    path: Path
    plan: Plan
    revision: str
    """A commit, the sha256 of an archive, the digest of a registry's row with every commit resolved; empty for a
    folder."""
    files: int
    size_bytes: int
    pulled_at: str
    """When, as ISO 8601 in UTC; empty for a folder."""
    is_from_cache: bool
    """Whether nothing had to be fetched."""
    notes: tuple[str, ...] = ()
    """What a user should know and need not act on."""

    def as_dict(self) -> dict[str, object]:
        """The result as `--json` shows it."""
        return asdict(self) | {"path": str(self.path)}


@dataclass(frozen=True, slots=True)
class Step:
    """How far a pull has come. A total is None while it is not known; what is done may shrink when a server starts a
    file over."""

    what: str
    """`fetching`, `unpacking`, `waiting for another pull`…"""
    bytes_done: int = 0
    bytes_total: int | None = None
    files_done: int = 0
    files_total: int | None = None


class Progress(Protocol):
    """Takes each step as it comes. Calls never overlap, and may come from another thread than the caller's."""

    def __call__(self, step: Step, /) -> None:
        """Show the step; quickly, since the work waits."""


@dataclass(slots=True)
class Reporter:
    """Adds up what several threads have done and tells the progress, one call at a time."""

    progress: Progress | None = None
    _step: Step = Step("")
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, what: str, *, bytes_total: int | None = None, files_total: int | None = None) -> None:
        """Start counting from zero under a new name."""
        self.move_to(Step(what, 0, bytes_total, 0, files_total))

    def advance(self, *, size_bytes: int = 0, files: int = 0) -> None:
        """Add to what is done."""
        with self._lock:
            old = self._step
            self._tell(replace(old, bytes_done=old.bytes_done + size_bytes, files_done=old.files_done + files))

    def expect(self, bytes_total: int) -> None:
        """Set a total that is known only now."""
        with self._lock:
            self._tell(replace(self._step, bytes_total=bytes_total))

    def move_to(self, step: Step) -> None:
        """Replace what is done."""
        with self._lock:
            self._tell(step)

    def _tell(self, step: Step) -> None:
        self._step = step
        if self.progress is not None:
            self.progress(step)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where one pull works, alone: `work` outlives an interruption, so that the next pull can go on."""

    work: Path
    report: Reporter
    lock_fd: int
    """The lock that keeps others away. A child process that inherits it keeps it for as long as it lives."""


class Fetcher(Protocol):
    """One kind of source."""

    def resolve(self, bench: Bench) -> str:
        """The revision that the request means now. Raises PullError."""

    def fetch(self, revision: str, into: Path, bench: Bench) -> tuple[str, ...]:
        """Put the dataset's files below `into`, which exists and may hold what an interrupted fetch of the same
        revision left there; returns notes. Raises PullError."""


class PullError(FetchError):
    """A pull that failed; `reason` says why in one word, for programs, and `plan` what it would have fetched."""

    def __init__(self, plan: Plan, reason: Reason, problem: str, *, hint: str | None = None) -> None:
        """`problem` goes on from `could not fetch …: `. Without a network, message and hint say how to do without."""
        if reason in ("offline", "network"):
            problem = f"{problem}; it would have come from {plan.describe()}"
            hint = hint or _elsewhere(plan)
        super().__init__(shown(plan.source), shown(problem), hint=hint or _HINTS.get(reason))
        self.reason = reason
        self.plan = plan

    def as_dict(self) -> dict[str, object]:
        """The error as `--json` shows it."""
        return {**super().as_dict(), "plan": self.plan.as_dict()}


_HINTS = {
    "unauthorised": "check that you may read it and that your credentials are set up for its host",
    "disk-full": "free some space, or move the cache with TERMARENA_HOME; what has arrived is kept and used again",
    "digest": "try again; if it stays, the source and its checksum do not belong together: do not use it",
    "unsafe": "do not use it, or unpack it yourself, look at it, and pass the folder",
    "no-git": "install git, or fetch it elsewhere and pass the folder",
    "unwritable": "name another folder for the cache: TERMARENA_HOME, or home under [paths] in termarena.toml",
}


def _elsewhere(plan: Plan) -> str:
    """How to go on without a network."""
    inside = f"PATH/{plan.folder}" if plan.folder else "PATH"
    at = f" at {plan.revision}" if plan.revision else ""
    how = {
        "git": f"where there is a network, git clone {plan.address}{f' and check out {plan.revision}' if at else ''}",
        "registry": "where there is a network, pull it there and copy its folder",
        "huggingface": f"where there is a network, download the dataset {plan.address}{at}",
        "archive": f"where there is a network, download {plan.address}",
        "folder": "",
    }[plan.kind]
    unpack = f", unpack the archives in {inside}" if plan.is_packed else ""
    return f"{how}; bring it here as PATH{unpack} and run: termarena datasets pull {inside}"


def as_pull_error(plan: Plan, error: OSError) -> PullError:
    """What the file system refused, as an error of the pull."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return PullError(plan, "disk-full", "the disk is full")
    return PullError(
        plan, "unwritable", f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
    )


# A password may hold an @ of its own: the login ends at the last one before the path.
_LOGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<user>[^/\s:@]*)(?:[:@][^/\s]*)?@", re.IGNORECASE)
_QUERY = re.compile(r"(https?://[^\s?'\"]*)\?[^\s'\"]*", re.IGNORECASE)


def shown(text: str) -> str:
    """The text as it may be shown: no user or password in a URL, no query, which is where signed URLs keep theirs."""
    return _QUERY.sub(r"\1", without_login(text))


def without_login(text: str) -> str:
    """The text without the user and password of its URLs. SSH keeps its user, which is no secret and may say whose the
    path is; a user in another URL may be a token."""
    return _LOGIN.sub(lambda found: f"{found['scheme']}://{_public_user(found)}", text)


def _public_user(found: re.Match[str]) -> str:
    return f"{found['user']}@" if found["scheme"].lower().endswith("ssh") else ""


def is_safe_path(path: str) -> bool:
    """Whether a path from outside stays where it is put: relative, no `..`, no empty part."""
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))
