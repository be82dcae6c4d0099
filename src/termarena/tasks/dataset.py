"""Datasets: a folder of tasks (those that its `dataset.toml` lists, where it has one), one `tasks.json`, the bundled
samples, or a single task; what cannot be loaded is listed, never skipped."""

from __future__ import annotations

import gc
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.core.errors import NotFound, TaskError, TaskFormatError
from termarena.tasks.checking import refuse_warnings
from termarena.tasks.load import is_task, load_marked, marker_of
from termarena.tasks.markers import COLLECTION, MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from termarena.tasks.manifest import Manifest
    from termarena.tasks.model import Finding, Task

__all__ = ["SAMPLES", "BrokenTask", "Dataset", "is_bundled", "load_dataset"]

SAMPLES = "samples"
_SAMPLES_FOLDER = Path(__file__).parent / "samples"


@dataclass(frozen=True, slots=True)
class BrokenTask:
    """A folder that claims to be a task and is not one."""

    path: str
    error: TaskError


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tasks under one name, sorted by id."""

    name: str
    path: str
    tasks: tuple[Task, ...]
    broken: tuple[BrokenTask, ...] = ()
    others: tuple[str, ...] = ()
    """Folders beside the tasks that do not claim to be any, or that the manifest does not list."""
    manifest: Manifest | None = None
    """The folder's `dataset.toml`."""
    findings: tuple[Finding, ...] = ()
    """What the manifest gave cause to say; each names its field."""

    def __iter__(self) -> Iterator[Task]:
        """The tasks, by id."""
        return iter(self.tasks)

    def __len__(self) -> int:
        """How many tasks could be loaded."""
        return len(self.tasks)

    def whole(self) -> Dataset:
        """This dataset, if nothing in it is broken; else raises the first broken task's error, and where to see all."""
        if self.broken:
            first = self.broken[0].error
            told = f"see all {len(self.broken)} with: termarena tasks validate {self.path}"
            if told not in (first.hint or ""):
                first.hint = f"{first.hint}; {told}" if first.hint else told
            raise first
        return self


def load_dataset(
    source: Path | str, *, strict: bool = False, seen: Callable[[int, int], None] | None = None
) -> Dataset:
    """Load the dataset at a path, or the bundled `samples`. `seen(done, total)` is called as tasks are loaded.

    Raises NotFound if there is no such folder or no task in it, and TaskFormatError if two tasks share an id. A task
    that does not load does not stop the others: it is in `broken`, and so is one that a manifest lists and that is not
    there. Raises TaskFormatError for a manifest that is none, and with `strict` LooseTask for its warnings.
    """
    folder = _SAMPLES_FOLDER if str(source) == SAMPLES else Path(source)
    path = os.path.abspath(folder)  # noqa: PTH100 - keeps the name the user gave, links and all
    name = SAMPLES if folder == _SAMPLES_FOLDER else os.path.basename(path)  # noqa: PTH119 - likewise
    loaders, others = _loaders(path, strict=strict)
    manifest = _manifest(path)
    tasks: list[Task] = []
    broken: list[BrokenTask] = []
    with _no_garbage():
        for number, (place, load) in enumerate(loaders, 1):
            try:
                tasks.append(load())
            except TaskError as error:
                broken.append(BrokenTask(place, error))
            if seen:
                seen(number, len(loaders))
    if manifest is None:
        return Dataset(name, path, _unique(tasks), tuple(broken), tuple(others))
    dataset = _as_listed(Dataset(name, path, tuple(tasks), tuple(broken), tuple(others), manifest))
    if strict:
        refuse_warnings(dataset.findings, lambda _: manifest.file)
    return dataset


def _manifest(path: str) -> Manifest | None:
    if marker_of(path) is not None or not os.path.lexists(f"{path}/{MANIFEST}"):
        return None
    from termarena.tasks.manifest import read_manifest  # noqa: PLC0415 - few folders have one

    return read_manifest(path)


def _as_listed(dataset: Dataset) -> Dataset:
    """The dataset with exactly the tasks of its manifest."""
    from termarena.tasks.manifest import missing_task  # noqa: PLC0415 - as above

    manifest = dataset.manifest
    if manifest is None or not manifest.sections.tasks:
        raise NotFound(f"{dataset.path}/{MANIFEST} lists no task", hint="harbor add, or a [[tasks]] table, lists one")
    by_name = {task.id: task for task in dataset.tasks}
    by_name = {**{os.path.basename(task.provenance.path): task for task in dataset.tasks}, **by_name}  # noqa: PTH119 - as above
    unreadable = {os.path.basename(one.path) for one in dataset.broken}  # noqa: PTH119 - likewise
    rows = {row.name: number for number, row in reversed(list(enumerate(manifest.sections.tasks)))}
    found: dict[str, Task] = {}
    missing: list[BrokenTask] = []
    for name, number in sorted(rows.items(), key=lambda row: row[1]):
        task = by_name.get(name) or by_name.get(name.partition("/")[2])
        if task is not None:
            found[name] = task
        elif name.partition("/")[2] not in unreadable:
            error = missing_task(manifest, number, here=tuple(sorted(task.id for task in dataset.tasks)))
            missing.append(BrokenTask(f"{manifest.file}/{name}", error))
    kept = {id(task) for task in found.values()}
    unlisted = [task.provenance.path for task in dataset.tasks if id(task) not in kept]
    # Nobody knows what a broken folder calls itself: it may be one of the missing.
    listed = {name.partition("/")[2] for name in rows}
    broken = [one for one in dataset.broken if missing or os.path.basename(one.path) in listed]  # noqa: PTH119 - likewise
    unlisted += [one.path for one in dataset.broken if one not in broken]
    return replace(
        dataset,
        tasks=_unique(list({id(task): task for task in found.values()}.values())),
        broken=(*broken, *missing),
        others=(*dataset.others, *sorted(unlisted)),
        findings=(*manifest.findings, *_changed(manifest, found)),
    )


def _changed(manifest: Manifest, found: Mapping[str, Task]) -> Iterator[Finding]:
    """A finding for each listed task whose folder is not as it was when it was listed."""
    from termarena.tasks.manifest import changed_task, harbor_digest  # noqa: PLC0415 - as above

    for number, row in enumerate(manifest.sections.tasks):
        task = found.get(row.name)
        held = None if task is None else harbor_digest(task.provenance.path)
        if task is not None and held != row.digest:
            yield changed_task(number, row.name, held)


def is_bundled(dataset: Dataset) -> bool:
    """Whether these are the samples that come with the program."""
    return Path(dataset.path) == _SAMPLES_FOLDER


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Hold the garbage collector off: every loaded task is kept, so it could free nothing, and it would take a third of
    the time over 3,500 tasks."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_Loader = tuple[str, "Callable[[], Task]"]


def _loaders(path: str, *, strict: bool) -> tuple[list[_Loader], list[str]]:
    own = marker_of(path)
    if own is not None:
        return [(path, partial(load_marked, path, own, strict=strict))], []
    if path.endswith(".json") and os.path.isfile(path):  # noqa: PTH113 - paths are strings here
        return _collection(path, strict=strict), []
    folders = _folders(path)
    marked = {folder: marker for folder in folders if (marker := marker_of(folder)) is not None}
    file = f"{path}/{COLLECTION}"
    if os.path.isfile(file):  # noqa: PTH113 - likewise
        if marked:
            raise TaskFormatError(file, found=f"{len(marked)} task folders beside it", expected="one or the other")
        return _collection(file, strict=strict), folders
    if not marked and not os.path.lexists(f"{path}/{MANIFEST}"):
        raise NotFound(f"no task in {path}", hint=_where_else(folders))
    loaders: list[_Loader] = [
        (folder, partial(load_marked, folder, marker, strict=strict)) for folder, marker in marked.items()
    ]
    return loaders, [folder for folder in folders if folder not in marked]


def _collection(file: str, *, strict: bool) -> list[_Loader]:
    from termarena.tasks.simple import load_collection  # noqa: PLC0415 - few datasets are one file

    return [(f"{file}[{number}]", load) for number, load in enumerate(load_collection(file, strict=strict))]


def _folders(path: str) -> list[str]:
    try:
        entries = list(os.scandir(path))
    except OSError as error:
        raise NotFound(
            f"no dataset at {path}: {error.strerror}", hint="see what there is with: termarena datasets list"
        ) from error
    return sorted(entry.path for entry in entries if _may_be_a_folder(entry) and not entry.name.startswith("."))


def _may_be_a_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle: listed among the others rather than lost
        return True


def _where_else(folders: Iterable[str]) -> str | None:
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                count = sum(1 for entry in entries if entry.is_dir() and is_task(entry.path))
        except OSError:
            continue
        if count:
            return f"there are {count} in {folder}"
    return None


def _unique(tasks: list[Task]) -> tuple[Task, ...]:
    by_id: dict[str, Task] = {}
    for task in sorted(tasks, key=lambda task: task.id):
        twin = by_id.setdefault(task.id, task)
        if twin is not task:
            raise TaskFormatError(
                task.provenance.path,
                field="id",
                found=f"{task.id!r}, which {twin.provenance.path} has too",
                expected="an id of its own",
                hint="rename one of the two",
            )
    return tuple(by_id.values())
