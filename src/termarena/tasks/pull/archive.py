"""Archives: a file here or behind a URL, checked against its sha256 if one is given, unpacked, a folder of it taken."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from termarena.tasks.load import is_task
from termarena.tasks.pull.contract import PullError
from termarena.tasks.pull.trees import is_real_folder, only_folder_in, remove
from termarena.tasks.pull.unpack import check_links, unpack
from termarena.tasks.pull.web import open_web

if TYPE_CHECKING:
    from termarena.tasks.pull.contract import Bench
    from termarena.tasks.pull.source import Source

__all__ = ["ArchiveFetcher"]


@dataclass(frozen=True, slots=True)
class ArchiveFetcher:
    """An archive as a dataset; its revision is its sha256."""

    source: Source

    def resolve(self, bench: Bench) -> str:
        """The sha256, for which one that is not pinned has to be here."""
        return self.source.revision or _digest(self._obtain(bench))

    def fetch(self, revision: str, into: Path, bench: Bench) -> tuple[str, ...]:
        """Unpack it, and move the wanted folder's content below `into`."""
        file = self._obtain(bench)
        plan = self.source.plan()
        found = _digest(file)
        if found != revision:
            self._forget(bench)
            raise PullError(plan, "digest", f"its sha256 is {found.removeprefix('sha256:')}, not the one asked for")
        unpacked = bench.work / "unpacked"
        remove(unpacked)
        unpacked.mkdir()
        unpack(file, unpacked, plan, bench.report, name=urlsplit(self.source.address).path)
        root = self._root(unpacked)
        check_links(root, plan)
        for entry in list(root.iterdir()):
            remove(into / entry.name)
            entry.rename(into / entry.name)
        return ()

    def _root(self, unpacked: Path) -> Path:
        """The folder that was asked for, or else the one above the tasks: archives often hold just one folder."""
        folder = self.source.folder
        if folder and not is_real_folder(unpacked, folder):
            inside = ", ".join(sorted(entry.name for entry in unpacked.iterdir())[:20])
            raise PullError(self.source.plan(), "not-found", f"it has no folder {folder}", hint=f"it holds: {inside}")
        if folder:
            return unpacked / folder
        only = only_folder_in(unpacked)
        return unpacked if only is None or is_task(only) else only

    def _obtain(self, bench: Bench) -> Path:
        if self.source.is_file:
            return Path(self.source.address)
        done = bench.work / self._download
        if not done.exists():
            part = bench.work / f"{self._download}.part"
            with open_web(self.source.plan()) as web:
                bench.report.begin("fetching")
                is_checked = self.source.is_pinned
                web.download(self.source.address, part, report=bench.report, size_bytes=None, is_checked=is_checked)
            part.rename(done)
        return done

    @property
    def _download(self) -> str:
        """The downloaded file's name: a name in the settings keeps its shelf when its address changes."""
        return f"download-{self.source.key[:16]}"

    def _forget(self, bench: Bench) -> None:
        for suffix in ("", ".part", ".part.etag"):
            remove(bench.work / f"{self._download}{suffix}")


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"
