"""The place of the next sandbox, made while the last one works."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.support import make_rootfs, out
from sandbox.test_kill import _cgroups
from termarena.core.errors import SandboxStartError
from termarena.sandbox import Limits, Mount, Root, SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.cgroups import Cgroup, CgroupHost
from termarena.sandbox.namespace.ids import choose_ids
from termarena.sandbox.namespace.inside import lending
from termarena.sandbox.namespace.launcher import Launcher
from termarena.sandbox.namespace.places import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.needs("user-namespaces")
PATIENCE_S = 30
MOST_MOUNTS = 60


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not that of the other tests, whose drivers have places of their own."""
    return tmp_path_factory.mktemp("places")


@pytest.fixture
async def starting(home: Path) -> AsyncIterator[NamespaceDriver]:
    async with NamespaceDriver(home=home) as made:
        yield made


def _waiting(home: Path) -> set[str]:
    """The places that wait to be sandboxes, by the traces they leave."""
    found = set()
    for lock in Path(home, "sandboxes").glob("ta-*/lock"):
        try:
            about = json.loads(lock.read_text())
        except (FileNotFoundError, ValueError):
            continue
        if about.get("is_waiting"):
            found.add(lock.parent.name)
    return found


async def _ahead(driver: NamespaceDriver, home: Path) -> str:
    """Start sandboxes until the place of the next one is made; its name."""
    for _ in range(2):
        async with driver.start(SandboxSpec()) as box:
            await box.exec(["true"])
    (name,) = await _sooner_or_later(lambda: _waiting(home))
    return name


async def _sooner_or_later(find: Callable[[], set[str]]) -> set[str]:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := find()):  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)
    return found


def _ended(pids: set[str]) -> set[str]:
    """All of them, once none is there any more."""
    return set() if any(Path(f"/proc/{pid}").exists() for pid in pids) else pids


def _holders(name: str) -> set[str]:
    """The processes that hold the lock of a place, but this one."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):
            held = {str(fd.readlink()) for fd in folder.iterdir()}
            if any(f"/{name}/lock" in one for one in held):
                found.add(folder.parent.name)
    return found - {str(os.getpid())}


def _left_of(home: Path, name: str) -> list[Path]:
    return [path for path in (home / "sandboxes" / name,) if path.exists()] + _cgroups({name})


async def test_the_next_sandbox_takes_the_place_that_waits(starting: NamespaceDriver, home: Path) -> None:
    name = await _ahead(starting, home)
    assert starting.list() == ()
    spec = SandboxSpec(hostname="other", workdir="/work", limits=Limits(disk_bytes=40 << 20))
    async with starting.start(spec) as box:
        assert box.id == name
        assert [record.id for record in starting.list()] == [name]
        assert await out(box, "hostname; pwd; df -B1 --output=size / /dev/shm") == (
            f"other\n/work\n1B-blocks\n {40 << 20}\n {40 << 20}"
        )


async def test_a_sandbox_of_another_root_takes_it_too(starting: NamespaceDriver, home: Path, tmp_path: Path) -> None:
    name = await _ahead(starting, home)
    make_rootfs(tmp_path / "root")
    (tmp_path / "root/here").write_text("of the root")
    async with starting.start(SandboxSpec(root=Root(kind="folder", path=tmp_path / "root"))) as box:
        assert box.id == name
        assert await out(box, "cat /here; ls /dev/null /proc/1/stat /sys/kernel >/dev/null && echo all") == (
            "of the rootall"
        )


async def test_one_start_alone_makes_none(starting: NamespaceDriver, home: Path) -> None:
    async with starting.start(SandboxSpec()) as box:
        await box.exec(["sleep", "0.1"])
        assert _waiting(home) == set()


async def test_a_place_whose_process_has_ended_is_not_used(starting: NamespaceDriver, home: Path) -> None:
    name = await _ahead(starting, home)
    if os.geteuid() != 0:
        pytest.skip("only root may look for the process")
    holders = await _sooner_or_later(lambda: _holders(name))
    for pid in holders:
        os.kill(int(pid), signal.SIGKILL)
    await _sooner_or_later(lambda: _ended(holders))
    async with starting.start(SandboxSpec()) as box:
        assert box.id != name
        assert await out(box, "echo fine") == "fine"
    assert _left_of(home, name) == []


async def test_who_waits_holds_no_file_system_of_the_host(starting: NamespaceDriver, home: Path) -> None:
    name = await _ahead(starting, home)
    if os.geteuid() != 0:
        pytest.skip("paths of the host are opened by process 1 itself")
    (holder,) = await _sooner_or_later(lambda: _holders(name))
    kinds = await _sooner_or_later(lambda: _kinds_of_mounts(holder) if "/sys" in _roots_of(holder) else set())
    assert kinds == {"tmpfs", "devtmpfs", "devpts", "proc", "sysfs"}


def _lines(pid: str) -> list[list[str]]:
    return [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]


def _roots_of(pid: str) -> str:
    """Where its mounts are, once it has let go of all others."""
    lines = _lines(pid)
    return " ".join(line[4] for line in lines) if lines and lines[0][4] != "/usr" and len(lines) < MOST_MOUNTS else ""


def _kinds_of_mounts(pid: str) -> set[str]:
    return {line[line.index("-") + 1] for line in _lines(pid)}


async def test_a_place_with_other_mounts_than_the_host_is_not_used(
    starting: NamespaceDriver, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await _ahead(starting, home)
    monkeypatch.setattr(Place, "is_stale", lambda _: True)
    async with starting.start(SandboxSpec()) as box:
        assert box.id != name
        assert await out(box, "echo fine") == "fine"
    assert _left_of(home, name) == []


async def test_more_folders_than_descriptors_fit_in_a_message(starting: NamespaceDriver, tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").mkdir()
    (tmp_path / "299/last").write_text("the last one")
    mounts = tuple(Mount(source=tmp_path / f"{number}", target=f"/srv/{number}") for number in range(300))
    async with starting.start(SandboxSpec(mounts=mounts)) as box:
        assert await out(box, "ls /srv | wc -l; cat /srv/299/last") == "300\nthe last one"


async def test_nothing_is_left_of_it_with_its_driver(home: Path) -> None:
    async with NamespaceDriver(home=home) as driver:
        name = await _ahead(driver, home)
    assert _left_of(home, name) == []


async def test_a_sandbox_that_cannot_be_assembled_takes_its_place_along(
    starting: NamespaceDriver, home: Path, tmp_path: Path
) -> None:
    name = await _ahead(starting, home)
    make_rootfs(tmp_path / "root")
    (tmp_path / "root/proc").write_text("")
    with pytest.raises(SandboxStartError, match="no folder there"):
        async with starting.start(SandboxSpec(root=Root(kind="folder", path=tmp_path / "root"))):
            pass
    assert _left_of(home, name) == []


async def test_what_cannot_be_lent_takes_the_place_along(
    starting: NamespaceDriver, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await _ahead(starting, home)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(Cgroup, "limit", refuse)
        patch.setattr(lending, "_lent", refuse)
        with pytest.raises(SandboxStartError, match=r"the host refused: .*no room"):
            async with starting.start(SandboxSpec()):
                pass
    assert _left_of(home, name) == []
    async with starting.start(SandboxSpec()) as box:
        assert await out(box, "echo fine") == "fine"


async def test_a_group_of_version_2_keeps_its_way_to_freeze(tmp_path: Path) -> None:
    parent = tmp_path / "cg"
    parent.mkdir()
    host = CgroupHost(2, {"memory": parent, "pids": parent})
    launcher = Launcher()
    launcher.ensure()
    place = Place(tmp_path, host)
    try:
        assert place.cgroup is not None
        (folder,) = place.cgroup.folders
        make_joined = Cgroup.make_joined

        def as_the_kernel_does(cgroup: Cgroup) -> None:
            make_joined(cgroup)
            for name in ("cgroup.procs", "cgroup.freeze", "cgroup.events"):
                (folder / name).write_text("")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cgroup, "make_joined", as_the_kernel_does)
            assert place.make(launcher, choose_ids(), ())
        assert await place.come(launcher)
        assert place.launched is not None
        assert not place.launched.is_born
        assert [len(place.ways[name]) for name in ("cgroup_fds", "born_fds", "freezer_fds")] == [1, 0, 2]
    finally:
        for name in ("cgroup.procs", "cgroup.freeze", "cgroup.events"):
            (folder / name).unlink()
        place.end(launcher)
        launcher.close()
    assert not place.trace.folder.exists()
