"""Little work on files, which process 1 of a namespace sandbox does itself while nothing else lives there."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from sandbox.support import out
from termarena.core.errors import SandboxFileError
from termarena.sandbox import SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.inside.little import MOST_BYTES, MOST_NAMES, is_little
from termarena.sandbox.namespace.worker import Joining, Mount

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from termarena.sandbox.namespace.box import NamespaceSandbox

pytestmark = pytest.mark.needs("user-namespaces")


@asynccontextmanager
async def _started(sandbox_home: Path) -> AsyncIterator[NamespaceSandbox]:
    async with NamespaceDriver(home=sandbox_home) as driver, driver.start(SandboxSpec(workdir="/app")) as box:
        yield box


def _tree(folder: Path, *, files: int = 3, size_bytes: int = 10) -> Path:
    (folder / "inner").mkdir(parents=True)
    for number in range(files):
        (folder / "inner" / f"{number}").write_bytes(b"x" * size_bytes)
    return folder


async def _last_pid(box: NamespaceSandbox) -> int:
    return int(await out(box, "echo $$"))


async def test_little_work_on_files_starts_no_process(sandbox_home: Path, tmp_path: Path) -> None:
    async with _started(sandbox_home) as box:
        before = await _last_pid(box)
        await box.put_tree(_tree(tmp_path / "in"), "/app/tree")
        report = await box.get_tree("/app/tree", tmp_path / "out")
        assert "/app/tree/inner/2" in (await box.diff()).of("added")
        assert await box.clear_away("/app/tree")
        assert await _last_pid(box) == before + 1
        assert (report.files, report.size_bytes) == (4, 30)
        assert not (await box.diff()).of("added")
    assert (tmp_path / "out/inner/2").read_bytes() == b"x" * 10


@pytest.mark.parametrize("what", ["names", "bytes", "company"])
async def test_other_work_is_done_by_a_process_of_its_own(sandbox_home: Path, tmp_path: Path, what: str) -> None:
    files = MOST_NAMES + 1 if what == "names" else 2
    size_bytes = MOST_BYTES if what == "bytes" else 10
    async with _started(sandbox_home) as box:
        if what == "company":
            await out(box, "sleep 60 </dev/null >/dev/null 2>&1 &")
        before = await _last_pid(box)
        await box.put_tree(_tree(tmp_path / "in", files=files, size_bytes=size_bytes), "/app/tree")
        report = await box.get_tree("/app/tree", tmp_path / "out")
        assert len((await box.diff()).of("added")) == files + 2
        assert not await box.clear_away("/app/tree")
        assert await _last_pid(box) == before + 4
        assert (report.files, report.size_bytes) == (files + 1, files * size_bytes)
        assert await out(box, "ls /app/tree/inner | wc -l") == str(files)


async def test_work_on_a_folder_that_another_sandbox_has_too_is_not_done_by_process_1(
    sandbox_home: Path, tmp_path: Path
) -> None:
    spec = SandboxSpec(workdir="/app")
    async with NamespaceDriver(home=sandbox_home) as driver, driver.start(spec) as box:
        await out(box, "touch /app/file")
        lent = await box.doors.tree("/app")
        namespaces = await box.doors.namespaces()
        joining = Joining(namespaces, mounts=(Mount("/lent", is_writable=True, tree_fd=lent),))
        try:
            async with driver.start_on(spec, driver.roots.prepare(spec.root), joining) as beside:
                for one, path in ((box, "/app"), (beside, "/lent")):
                    before = await _last_pid(one)
                    await one.get_tree(path, tmp_path / path[1:])
                    assert await _last_pid(one) == before + 2
                    assert not await one.clear_away(f"{path}/file")
        finally:
            for fd in (lent, *namespaces):
                os.close(fd)
    assert (tmp_path / "lent/file").exists()


async def _descriptors(box: NamespaceSandbox) -> list[str]:
    await box.processes()  # it closes what a request brought before it takes the next, and after it has answered
    return sorted(os.listdir(f"/proc/{box.host_pid}/fd"))  # noqa: PTH208 - names are all that is wanted


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may see the descriptors of process 1")
async def test_process_1_keeps_no_descriptor_of_what_it_did(sandbox_home: Path, tmp_path: Path) -> None:
    async with _started(sandbox_home) as box:
        tree = _tree(tmp_path / "in")
        await box.write("/app/file", b"")
        before = await _descriptors(box)
        for number in range(5):
            await box.put_tree(tree, "/app/tree")
            await box.get_tree("/app/tree", tmp_path / f"out-{number}")
            with pytest.raises(SandboxFileError):
                await box.put_tree(tree, "/app/file/below")
            with pytest.raises(SandboxFileError):
                await box.get_tree("/app/tree", tmp_path / "never", max_bytes=5)
            with pytest.raises(SandboxFileError):
                await box.get_tree("/app/none", tmp_path / "never")
            await box.diff()
            await box.clear_away("/app/tree")
        assert await _descriptors(box) == before


async def test_the_harness_keeps_no_descriptor_of_a_tree_that_nobody_waits_for(
    sandbox_home: Path, tmp_path: Path
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        began.set()
        may_end.wait()

    async with _started(sandbox_home) as box:
        await box.write("/app/file", b"")
        before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names are all that is wanted
        with ThreadPoolExecutor(1) as busy:
            asyncio.get_running_loop().set_default_executor(busy)
            busy.submit(hold)
            began.wait()
            getting = asyncio.ensure_future(box.get_tree("/app", tmp_path / "out"))
            while not busy._work_queue.qsize():  # noqa: ASYNC110, SLF001 - nothing tells when it waits there
                await asyncio.sleep(0)
            getting.cancel()
            await asyncio.wait({getting})
            may_end.set()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        assert os.listdir("/proc/self/fd") == before  # noqa: PTH208 - as above
    assert not (tmp_path / "out").exists()


async def test_clearing_away_takes_a_link_and_not_what_it_leads_to(sandbox_home: Path) -> None:
    async with _started(sandbox_home) as box:
        await out(box, "mkdir -p /app/kept/inner && ln -s /app/kept /app/link")
        assert await box.clear_away("/app/link")
        assert await box.clear_away("/app/none")
        assert await out(box, "ls /app /app/kept") == "/app:\nkept\n\n/app/kept:\ninner"


def test_what_lies_too_deep_to_be_looked_at_is_not_little(tmp_path: Path) -> None:
    top = here = os.open(tmp_path, os.O_RDONLY)
    opened = [top]
    try:
        for _ in range(21):  # each 200 bytes: more than the kernel takes as one path
            os.mkdir("n" * 200, dir_fd=here)
            here = os.open("n" * 200, os.O_RDONLY, dir_fd=here)
            opened.append(here)
        for number in range(MOST_NAMES + 1):
            os.mkdir(f"{number}", dir_fd=here)
        assert not is_little([top])
    finally:
        for fd in opened:
            os.close(fd)


async def test_a_host_that_refuses_a_file_of_a_tree_says_so_itself(sandbox_home: Path, tmp_path: Path) -> None:
    async with _started(sandbox_home) as box:
        await out(box, "head -c 4000000 /dev/zero >/app/large")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        try:
            with pytest.raises(OSError, match="File too large") as told:
                await box.get_tree("/app", tmp_path / "out")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not isinstance(told.value, SandboxFileError)
        with pytest.raises(SandboxFileError, match="larger than allowed"):
            await box.get_tree("/app", tmp_path / "less", max_bytes=1000)


async def test_a_job_whose_reader_is_gone_reports_that(sandbox_home: Path) -> None:
    async with _started(sandbox_home) as box:
        await out(box, "head -c 4000000 /dev/zero >/app/large")
        reading, writing = os.pipe()
        os.close(reading)
        try:
            with pytest.raises(SandboxFileError, match="Broken pipe"):
                await box.layer_job("pack_path", "/app/large", writing)
        finally:
            os.close(writing)
