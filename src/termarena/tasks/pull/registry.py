"""Registry files: lists of datasets, as Harbor and Terminal-Bench 1 publish them. Each repository is fetched once."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from termarena.core.errors import NotFound, TaskFormatError
from termarena.tasks.pull.contract import PullError, is_safe_path, shown, without_login
from termarena.tasks.pull.git import Repository, check_pointers
from termarena.tasks.pull.source import is_commit
from termarena.tasks.pull.trees import is_real_folder, remove
from termarena.tasks.pull.unpack import unpack
from termarena.tasks.pull.web import open_web

if TYPE_CHECKING:
    from termarena.tasks.pull.contract import Bench
    from termarena.tasks.pull.source import Source

__all__ = ["RegistryFetcher"]

_LIMIT_BYTES = 64 << 20
# Terminal-Bench 1 publishes adapted datasets in zip files with this password, so that crawlers do not read them.
_PASSWORD = b"TERMINAL-BENCH-ADAPTED-DATASET"
_ELSEWHERE = re.compile(r"(?:https?|ssh|git)://[^/]|[\w.-]+@[\w.-]+:")


class _Task(NamedTuple):
    """A folder of a repository and its name in the dataset; an empty name stands for everything in the folder."""

    path: str
    name: str


@dataclass(slots=True)
class _Group:
    """What comes from one commit of one repository; an empty `url` is the registry's own folder."""

    url: str
    revision: str | None
    tasks: list[_Task] = field(default_factory=list)
    commit: str = ""


class RegistryFetcher:
    """A dataset that a registry lists."""

    def __init__(self, source: Source) -> None:
        """Reads nothing yet."""
        self._source = source
        self._plan = source.plan()
        self._groups: list[_Group] = []

    def resolve(self, bench: Bench) -> str:
        """The digest of the registry's row, with the commit of every branch in it.

        Raises NotFound for a dataset that is not listed, TaskFormatError for a file that is no registry.
        """
        rows = _Rows(self._source, self._read(bench))
        self._groups = rows.groups(rows.chosen())
        for group in self._groups:
            if group.url:
                group.commit = self._repository(group, bench).resolve(group.revision)
        row = [[without_login(group.url), group.commit, sorted(group.tasks)] for group in self._groups]
        return hashlib.sha256(json.dumps(sorted(row)).encode()).hexdigest()

    def fetch(self, revision: str, into: Path, bench: Bench) -> tuple[str, ...]:  # noqa: ARG002 - as resolved
        """Bring every task below `into`, under its own name; one that an interrupted pull has brought is kept."""
        for group in self._groups:
            missing = [task for task in group.tasks if not task.name or not (into / task.name).exists()]
            if missing and group.url:
                self._fetch_group(group, missing, into, bench)
            for task in missing if not group.url else []:
                self._copy(task, into / task.name)
        self._unpack_hidden(into, bench)
        return check_pointers(into, self._plan)

    def _read(self, bench: Bench) -> bytes:
        if self._source.is_file:
            return Path(self._source.address).read_bytes()
        bench.report.begin("reading the registry")
        with open_web(self._plan) as web:
            return web.get(self._source.address, limit_bytes=_LIMIT_BYTES).body

    def _repository(self, group: _Group, bench: Bench) -> Repository:
        folder = f"git-{hashlib.sha256(group.url.encode()).hexdigest()[:16]}"
        return Repository(bench.work / folder, group.url, self._plan, bench)

    def _fetch_group(self, group: _Group, tasks: list[_Task], into: Path, bench: Bench) -> None:
        repository = self._repository(group, bench)
        repository.get(group.commit, group.revision)
        repository.check_out(group.commit, [task.path for task in tasks if task.path])
        for task in tasks:
            if task.name:
                repository.take(task.path, into / task.name)
            else:
                repository.take_all(task.path, into)

    def _copy(self, task: _Task, into: Path) -> None:
        base = Path(self._source.address).parent
        if not self._source.is_file or not is_real_folder(base, task.path):
            raise PullError(
                self._plan, "not-found", f"the task {task.name} has no folder {task.path} beside the registry"
            )
        copy = into.with_name(f".{into.name}.copy")
        remove(copy)
        shutil.copytree(base / task.path, copy, symlinks=True)
        copy.rename(into)

    def _unpack_hidden(self, into: Path, bench: Bench) -> None:
        if not any(not task.name for group in self._groups for task in group.tasks):
            return
        for archive in sorted(into.glob("*.zip")):
            place = bench.work / "unpacked"
            remove(place)
            place.mkdir()
            unpack(archive, place, self._plan, bench.report, password=_PASSWORD)
            for entry in list(place.iterdir()):
                remove(into / entry.name)
                entry.rename(into / entry.name)
            archive.unlink()


class _Rows:
    """The registry's rows, read with care: what is wrong is named by its place."""

    def __init__(self, source: Source, content: bytes) -> None:
        self._source = source
        self._file = shown(source.address)
        try:
            rows = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._wrong(None, f"JSON that does not parse: {error}", "a list of datasets") from error
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._wrong(None, "something else", "a list of datasets")
        self._rows: list[dict[str, object]] = rows

    def chosen(self) -> int:
        """The number of the row that was asked for."""
        name, _, version = self._source.dataset.partition("@")
        labels = [f"{row.get('name')}@{row.get('version')}" for row in self._rows]
        fitting = [
            number
            for number, row in enumerate(self._rows)
            if (not name or row.get("name") == name) and (not version or row.get("version") == version)
        ]
        if len(fitting) == 1:
            return fitting[0]
        problem = f"lists {len(fitting)} of them" if fitting else f"does not list {self._source.dataset}"
        hint = "write the one you mean after a #, as name@version"
        raise NotFound(f"the registry {self._file} {problem}", known=tuple(labels), hint=hint)

    def groups(self, number: int) -> list[_Group]:
        """What to fetch, by repository and commit."""
        row = self._rows[number]
        at = f"[{number}]"
        if "github_url" in row:
            return [self._terminal_bench_1(row, at)]
        tasks = row.get("tasks")
        if not isinstance(tasks, list) or not tasks:
            raise self._wrong(f"{at}.tasks", repr(tasks)[:60], "a list of tasks")
        groups: dict[tuple[str, str | None], _Group] = {}
        names: set[str] = set()
        for position, task in enumerate(tasks):
            place = f"{at}.tasks[{position}]"
            url, revision, found = self._harbor(task, place)
            if found.name in names:
                raise self._wrong(f"{place}.name", repr(found.name), "a name that no other task of the dataset has")
            names.add(found.name)
            groups.setdefault((url, revision), _Group(url, revision)).tasks.append(found)
        return list(groups.values())

    def _harbor(self, task: object, place: str) -> tuple[str, str | None, _Task]:
        if not isinstance(task, dict):
            raise self._wrong(place, repr(task)[:60], "a task: name, git_url, git_commit_id, path")
        name = self._text(task, "name", place).replace("/", "__")
        path = self._path(task, "path", place)
        url = self._url(task, "git_url", place) if task.get("git_url") is not None else ""
        revision = self._text(task, "git_commit_id", place) if task.get("git_commit_id") is not None else None
        if not is_safe_path(name) or not path:
            raise self._wrong(place, repr(name), "a name and a path that can be those of a folder")
        return url, _revision(revision), _Task(path, name)

    def _terminal_bench_1(self, row: dict[str, object], at: str) -> _Group:
        url = self._url(row, "github_url", at)
        commit = self._text(row, "commit_hash", at)
        revision = self._text(row, "branch", at) if commit.lower() == "head" else commit
        folder = self._path(row, "dataset_path", at)
        subset = row.get("task_id_subset")
        group = _Group(url, revision)
        if subset is None:
            group.tasks.append(_Task(folder, ""))
            return group
        if not isinstance(subset, list) or not all(isinstance(name, str) and is_safe_path(name) for name in subset):
            raise self._wrong(f"{at}.task_id_subset", repr(subset)[:60], "a list of names")
        group.tasks += [_Task(f"{folder}/{name}" if folder else name, name) for name in subset]
        return group

    def _text(self, table: dict[str, object], name: str, place: str) -> str:
        value = table.get(name)
        if not isinstance(value, str) or not value or value.startswith("-"):
            raise self._wrong(f"{place}.{name}", repr(value)[:60], "text")
        return value

    def _url(self, table: dict[str, object], name: str, place: str) -> str:
        """A repository's address. A registry that came over the network may name none on this machine."""
        url = self._text(table, name, place)
        if not self._source.is_file and _ELSEWHERE.match(url) is None:
            expected = "a repository elsewhere: an address of https, http, ssh or git"
            raise self._wrong(f"{place}.{name}", shown(url)[:60], expected)
        return url

    def _path(self, table: dict[str, object], name: str, place: str) -> str:
        path = "/".join(part for part in self._text(table, name, place).split("/") if part not in ("", "."))
        if path and not is_safe_path(path):
            raise self._wrong(f"{place}.{name}", repr(path), "a folder inside the repository")
        return path

    def _wrong(self, place: str | None, found: str, expected: str) -> TaskFormatError:
        return TaskFormatError(self._file, field=place, found=found, expected=expected)


def _revision(text: str | None) -> str | None:
    """Harbor writes HEAD, or nothing, for the newest commit."""
    return None if text is None or text.upper() == "HEAD" else text.lower() if is_commit(text.lower()) else text
