"""Hugging Face dataset repositories, over the hub's HTTP API: several files at a time, each resumed and checked."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import zlib
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin

from termarena.tasks.load import is_task
from termarena.tasks.pull.contract import PullError, is_safe_path
from termarena.tasks.pull.source import ARCHIVE_SUFFIXES, hub_endpoint, is_commit
from termarena.tasks.pull.trees import only_folder_in, remove
from termarena.tasks.pull.unpack import check_links, unpack
from termarena.tasks.pull.web import open_web

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from termarena.tasks.pull.contract import Bench
    from termarena.tasks.pull.known import Index
    from termarena.tasks.pull.source import Source
    from termarena.tasks.pull.web import Web

__all__ = ["HubFile", "HuggingFaceFetcher"]

_AT_ONCE = 8
_PAGE_LIMIT_BYTES = 64 << 20
_INDEX_LIMIT_BYTES = 256 << 20
_NOT_A_LISTING = "the hub's answer is not the listing of a dataset's files"


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a dataset repository; `digest` is the sha256 of one in LFS, else the id of its git blob."""

    path: str
    size_bytes: int
    digest: str
    is_lfs: bool

    def holds(self, file: Path) -> bool:
        """Whether these are the file's bytes."""
        if file.stat().st_size != self.size_bytes:
            return False
        known = hashlib.sha256() if self.is_lfs else hashlib.sha1(b"blob %d\0" % self.size_bytes, usedforsecurity=False)
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                known.update(block)
        return known.hexdigest() == self.digest


class HuggingFaceFetcher:
    """A Hugging Face dataset repository as a dataset."""

    def __init__(self, source: Source) -> None:
        """Reads HF_ENDPOINT and HF_TOKEN; the token is sent to that endpoint only."""
        self._source = source
        self._plan = source.plan()
        self._endpoint = hub_endpoint()
        self._token = os.environ.get("HF_TOKEN", "").strip() or None

    def resolve(self, bench: Bench) -> str:
        """The commit of the requested branch, tag or commit."""
        revision = self._source.revision or "main"
        if is_commit(revision):
            return revision
        bench.report.begin("asking the hub")
        with open_web(self._plan, token=self._token, token_origin=self._endpoint) as web:
            found = _parsed(
                web.get(self._api(f"revision/{quote(revision, safe='')}"), limit_bytes=_PAGE_LIMIT_BYTES).body
            )
        commit = found.get("sha") if isinstance(found, dict) else None
        if not isinstance(commit, str) or not is_commit(commit):
            raise PullError(self._plan, "broken", f"the hub did not say which commit {revision} is")
        return commit

    def fetch(self, revision: str, into: Path, bench: Bench) -> tuple[str, ...]:
        """Download the files of the wanted folder below `into`; where they are archives of tasks, unpack them."""
        known = self._source.known
        should_unpack = known is not None and known.unpack
        with open_web(self._plan, token=self._token, token_origin=self._endpoint) as web:
            bench.report.begin("listing files")
            files = self._list(web, revision, self._source.folder)
            if known is not None and known.index is not None:
                files = self._indexed(web, revision, known.index, files, bench)
            target = bench.work / "hub" if should_unpack else into
            self._download_all(web, revision, files, target, bench)
        if should_unpack:
            self._unpack_all([(file, target / self._place(file)) for file in files], into, bench)
        return ()

    def _api(self, path: str) -> str:
        return f"{self._endpoint}/api/datasets/{self._source.address}/{path}"

    def _list(self, web: Web, revision: str, folder: str) -> list[HubFile]:
        """Every file below a folder, however many pages the listing has."""
        url: str | None = self._api(f"tree/{revision}{'/' + quote(folder) if folder else ''}?recursive=true")
        found: list[HubFile] = []
        while url is not None:
            answer = web.get(url, limit_bytes=_PAGE_LIMIT_BYTES)
            rows = _parsed(answer.body)
            if not isinstance(rows, list):
                raise PullError(self._plan, "broken", _NOT_A_LISTING)
            files = [row for row in rows if not isinstance(row, dict) or row.get("type") != "directory"]
            found += [self._file(row, folder) for row in files]
            url = _next_page(answer.url, answer.headers.get("Link", ""))
        return found

    def _file(self, row: object, folder: str) -> HubFile:
        match row:
            case {"type": "file", "path": str(path), "lfs": {"oid": str(oid), "size": int(size)}}:
                file = HubFile(path, size, oid.removeprefix("sha256:"), is_lfs=True)
            case {"type": "file", "path": str(path), "oid": str(oid), "size": int(size)}:
                file = HubFile(path, size, oid, is_lfs=False)
            case _:
                raise PullError(self._plan, "broken", _NOT_A_LISTING)
        if not is_safe_path(file.path):
            raise PullError(self._plan, "unsafe", f"the hub lists a file {file.path!r}, which would leave its folder")
        if folder and not file.path.startswith(f"{folder}/"):
            raise PullError(self._plan, "broken", f"the hub lists {file.path}, which is not in the folder asked for")
        return file

    def _place(self, file: HubFile) -> str:
        return file.path[len(self._source.folder) :].lstrip("/")

    def _indexed(self, web: Web, revision: str, index: Index, files: list[HubFile], bench: Bench) -> list[HubFile]:
        """The files that the index lists."""
        rows = [file for file in self._list(web, revision, index.file.rpartition("/")[0]) if file.path == index.file]
        if not rows:
            raise PullError(self._plan, "not-found", f"it has no {index.file}")
        place = bench.work / "index"
        self._download(web, revision, rows[0], place, bench)
        wanted = self._index_paths(index, place.read_bytes())
        by_path = {file.path: file for file in files}
        missing = [path for path in wanted if path not in by_path]
        if missing or not wanted:
            raise PullError(
                self._plan, "broken", f"{index.file} lists {', '.join(missing[:5]) or 'nothing'}, which is not there"
            )
        return [by_path[path] for path in wanted]

    def _index_paths(self, index: Index, content: bytes) -> list[str]:
        try:
            if index.file.endswith(".gz"):
                with gzip.open(io.BytesIO(content)) as opened:
                    content = opened.read(_INDEX_LIMIT_BYTES)
            return [str(json.loads(line)[index.field]) for line in content.splitlines() if line.strip()]
        except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
            raise PullError(self._plan, "broken", f"{index.file} is not lines of JSON with {index.field}") from error

    def _download_all(self, web: Web, revision: str, files: list[HubFile], target: Path, bench: Bench) -> None:
        """Download the files that are not there yet. The first that fails stops the others; what arrived is kept."""
        total = sum(file.size_bytes for file in files)
        bench.report.begin("fetching", bytes_total=total, files_total=len(files))
        missing = [file for file in files if not self._is_there(file, target, bench)]
        self._check_space(missing, bench)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            jobs = [
                pool.submit(self._download, web, revision, file, target / self._place(file), bench) for file in missing
            ]
            try:
                done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
                for job in done:
                    job.result()
            finally:
                web.stopped.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _is_there(self, file: HubFile, target: Path, bench: Bench) -> bool:
        """Whether an earlier pull has put it in place, which it does only after checking it."""
        place = target / self._place(file)
        if not place.is_file() or place.stat().st_size != file.size_bytes:
            return False
        bench.report.advance(size_bytes=file.size_bytes, files=1)
        return True

    def _check_space(self, files: Iterable[HubFile], bench: Bench) -> None:
        needed = sum(file.size_bytes for file in files)
        free = shutil.disk_usage(bench.work).free
        if needed > free:
            raise PullError(self._plan, "disk-full", f"it needs {needed:,} bytes and the disk has {free:,} free")

    def _download(self, web: Web, revision: str, file: HubFile, place: Path, bench: Bench) -> None:
        """Download one file, check it, and put it in place; a second time from the beginning if the bytes are wrong."""
        part = bench.work / f"{hashlib.sha256(f'{revision}/{file.path}'.encode()).hexdigest()}.part"
        url = f"{self._endpoint}/datasets/{self._source.address}/resolve/{revision}/{quote(file.path)}"
        for _ in range(2):
            part.touch()
            web.download(url, part, report=bench.report, size_bytes=file.size_bytes, is_checked=True)
            if file.holds(part):
                _put(part, place)
                bench.report.advance(files=1)
                return
            bench.report.advance(size_bytes=-part.stat().st_size)
            part.unlink()
        kind = "sha256" if file.is_lfs else "git blob id"
        raise PullError(self._plan, "digest", f"{file.path} does not have the size and {kind} that the hub lists")

    def _unpack_all(self, archives: list[tuple[HubFile, Path]], into: Path, bench: Bench) -> None:
        """Unpack archives of one task each, as a folder of the task's name."""
        for file, archive in archives:
            name = archive.name
            stem = next((name[: -len(suffix)] for suffix in ARCHIVE_SUFFIXES if name.endswith(suffix)), None)
            if stem is None:
                raise PullError(self._plan, "broken", f"{file.path} is no archive")
            if (into / stem).exists():
                continue
            place = bench.work / "unpacked"
            remove(place)
            place.mkdir()
            unpack(archive, place, self._plan, bench.report)
            only = only_folder_in(place)
            task = place if only is None or is_task(place) else only
            check_links(task, self._plan)
            task.rename(into / stem)


def _put(part: Path, place: Path) -> None:
    """Move a checked file into place. The hub does not tell modes, so what starts with `#!` becomes executable."""
    with part.open("rb") as opened:
        is_script = opened.read(2) == b"#!"
    part.chmod(0o755 if is_script else 0o644)
    place.parent.mkdir(parents=True, exist_ok=True)
    part.rename(place)
    remove(part.with_name(part.name + ".etag"))


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _next_page(url: str, header: str) -> str | None:
    """The address in `Link: <…>; rel="next"`."""
    for link in header.split(","):
        target, *parameters = link.split(";")
        if any(parameter.strip() in ('rel="next"', "rel=next") for parameter in parameters):
            return urljoin(url, target.strip().strip("<>"))
    return None
