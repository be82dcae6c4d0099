"""The way of a pull: read the source, look in the cache, lock, resolve, fetch, publish."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.core.errors import DigestMismatch, TermArenaError
from termarena.tasks.pull.archive import ArchiveFetcher
from termarena.tasks.pull.cache import Shelf
from termarena.tasks.pull.contract import Bench, Fetcher, Pulled, PullError, Reporter, as_pull_error, shown
from termarena.tasks.pull.git import GitFetcher
from termarena.tasks.pull.huggingface import HuggingFaceFetcher
from termarena.tasks.pull.registry import RegistryFetcher
from termarena.tasks.pull.source import read_source
from termarena.tasks.pull.trees import measure, remove

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.tasks.pull.contract import Plan, Progress
    from termarena.tasks.pull.source import Source

__all__ = ["explain", "find_pulled", "pull"]

SHOWN_FILES = 5
# After these, what has arrived is worth keeping: the next pull goes on with it.
_RESUMED = ("network", "disk-full", "digest", "unwritable")

_FETCHERS: dict[str, Callable[[Source], Fetcher]] = {
    "git": GitFetcher,
    "registry": RegistryFetcher,
    "huggingface": HuggingFaceFetcher,
    "archive": ArchiveFetcher,
}


def explain(source: str, *, sources: Mapping[str, str] | None = None) -> Plan:
    """What `pull` would fetch; touches no network and writes nothing.

    `sources` are the names of `[datasets.sources]` in the settings. Raises UsageError for what is no source and
    NotFound for a name, file or folder that is not there.
    """
    return read_source(source, sources or {}).plan()


def find_pulled(source: str, *, home: Path, sources: Mapping[str, str] | None = None) -> Pulled | None:
    """The dataset if it is here already: in the cache, or a folder. Touches no network.

    Raises as `explain` does, and DigestMismatch for what is no longer as it was pulled.
    """
    wanted = read_source(source, sources or {})
    if wanted.kind == "folder":
        return _as_it_lies(wanted)
    shelf = _shelf(home, wanted)
    found = shelf.find()
    damage = shelf.damage(found) if found is not None else ()
    if damage:
        hint = f"fetch it anew with: termarena datasets pull {shown(source)}"
        raise DigestMismatch(f"the copy of {shown(source)} in the cache", files=damage, hint=hint)
    return found


def pull(
    source: str,
    *,
    home: Path,
    progress: Progress | None = None,
    offline: bool = False,
    refresh: bool = False,
    sources: Mapping[str, str] | None = None,
) -> Pulled:
    """Bring a dataset into the cache below `home` and say where it lies.

    What was pulled before, and is still as it was, is given back without a look at the network; what has changed since
    is fetched anew, which the notes then say. `refresh` asks again what a branch, a tag or a
    newest revision means. `offline` allows only what needs no network. Several pulls of one source, also from several
    processes, fetch it once. An interrupted pull leaves nothing that looks complete; the next one goes on from there.

    This is synchronous on purpose: git, unpacking and files block anyway, and downloads use threads inside. From a
    coroutine, use `asyncio.to_thread`.

    Raises PullError, UsageError, NotFound, MissingExtra, and TaskFormatError for a registry file that is not one.
    """
    wanted = read_source(source, sources or {})
    if wanted.kind == "folder":
        return _as_it_lies(wanted)
    plan = wanted.plan()
    try:
        shelf = _shelf(home, wanted)
        found = None if refresh and not offline else shelf.find()
        damage = shelf.damage(found) if found is not None else ()
        if found is not None and not damage:
            return found
        if offline and not wanted.is_local:
            lacking = f"the copy in the cache has changed ({_few(damage)})" if damage else "it is not in the cache"
            raise PullError(plan, "offline", f"{lacking} and the network is not to be used")
        return _fetch(shelf, Reporter(progress), refresh=refresh)
    except TermArenaError:
        raise
    except OSError as error:
        raise as_pull_error(plan, error) from error


def _fetch(shelf: Shelf, report: Reporter, *, refresh: bool) -> Pulled:
    with shelf.locked(report) as lock_fd:
        found = None if refresh else shelf.find()
        damage = shelf.damage(found) if found is not None else ()
        if found is not None and not damage:  # another pull was faster
            return found
        shelf.work.mkdir(exist_ok=True)
        fetcher = _FETCHERS[shelf.source.kind](shelf.source)
        bench = Bench(shelf.work, report, lock_fd)
        try:
            revision = fetcher.resolve(bench)
            found = shelf.find(revision)
            harmed = shelf.damage(found) if found is not None else ()
            if found is not None and not harmed:
                shelf.remember(revision)
                remove(shelf.work)
                return found
            notes = fetcher.fetch(revision, shelf.staging(revision), bench)
            return _told(shelf.publish(revision, notes), harmed or damage)
        except PullError as error:
            if error.reason not in _RESUMED:
                remove(shelf.work)
            raise


def _told(pulled: Pulled, damage: tuple[str, ...]) -> Pulled:
    """What was pulled, with a note about the copy that it replaced, if that had changed."""
    if not damage:
        return pulled
    note = f"the copy in the cache was no longer as it was pulled ({_few(damage)}): it was fetched anew"
    return replace(pulled, notes=(*pulled.notes, note))


def _few(damage: tuple[str, ...]) -> str:
    more = f"; … ({len(damage)} in all)" if len(damage) > SHOWN_FILES else ""
    return "; ".join(damage[:SHOWN_FILES]) + more


def _shelf(home: Path, wanted: Source) -> Shelf:
    """The shelf. A local file's content stands for its revision, so that a changed file is seen."""
    ref = wanted.revision or ""
    if wanted.is_file and not wanted.is_pinned:
        with Path(wanted.address).open("rb") as file:
            ref = hashlib.file_digest(file, "sha256").hexdigest()
    return Shelf(home, wanted, ref)


def _as_it_lies(wanted: Source) -> Pulled:
    path = Path(wanted.address)
    size = measure(path)
    return Pulled(path, wanted.plan(), "", size.files, size.size_bytes, pulled_at="", is_from_cache=True)
