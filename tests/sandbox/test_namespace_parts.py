"""The parts of the namespace driver that can be looked at one by one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.support import make_rootfs, out
from termarena.core.errors import ImageError, NotFound, SandboxBroken, SandboxStartError
from termarena.sandbox import Limits, Mount, Root, SandboxSpec, Usage
from termarena.sandbox.namespace import NamespaceDriver, cgroups, channel, ids, images, probe
from termarena.sandbox.namespace import commands as namespace_commands
from termarena.sandbox.namespace import files as namespace_files
from termarena.sandbox.namespace.inside import syscalls, wire
from termarena.sandbox.namespace.ondisk import DiskLayers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from termarena.sandbox.namespace.box import NamespaceSandbox

GIB = 1 << 30
ODD_IDS = "echo root:x:$(printf %05000d 7):0:root:/root:/bin/sh >/etc/passwd; echo nobody:x:-1:x:::: >>/etc/passwd"
V2_FILES = (
    "cgroup.procs", "cgroup.subtree_control", "cgroup.controllers", "memory.max", "memory.swap.max", "memory.events",
    "pids.max", "cpu.max", "cgroup.freeze", "cgroup.events",
)  # fmt: skip


@pytest.fixture
def second_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which new folders get the files that the kernel makes in a version 2 hierarchy."""
    real_mkdir = Path.mkdir

    def kernel_mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as pathlib has it
        real_mkdir(self, mode, parents, exist_ok)
        for name in V2_FILES:
            (self / name).write_text("")

    monkeypatch.setattr(Path, "mkdir", kernel_mkdir)
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    own = tmp_path / "cg/user.slice/me.scope"
    real_mkdir(own, parents=True)
    for name in V2_FILES:
        (own / name).write_text("")
    (own / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (tmp_path / "mountinfo").write_text(f"30 24 0:26 / {tmp_path}/cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n")
    (tmp_path / "own").write_text("0::/user.slice/me.scope\n")
    return tmp_path


def _find(folder: Path) -> cgroups.CgroupHost:
    return cgroups.find_cgroups(mountinfo=folder / "mountinfo", own=folder / "own")


def test_second_version_is_prepared(second_version: Path) -> None:
    own = second_version / "cg/user.slice/me.scope"
    host = _find(second_version)
    assert host.version == 2
    assert set(host.parents) == {"memory", "pids", "cpu"}
    assert (own / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    assert (own / "termarena-harness/cgroup.procs").read_text() == str(os.getpid())


def test_second_version_limits(second_version: Path) -> None:
    host = _find(second_version)
    made = host.plan("termarena-x")
    assert made is not None
    made.make_joined()
    made.limit(Limits(cpus=1.5, memory_bytes=GIB, pids=77))
    (folder,) = made.folders
    assert folder == second_version / "cg/user.slice/me.scope/termarena-x"
    found = {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max")}
    assert found == {"memory.max": str(GIB), "memory.swap.max": "0", "pids.max": "77", "cpu.max": "150000 100000"}
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\noom_group_kill 0\n")
    assert made.oom_kills() == 3
    (way_in,) = made.open_procs()
    assert Path(f"/proc/self/fd/{way_in}").readlink() == folder / "cgroup.procs"
    os.close(way_in)
    freezer = made.open_freezer()
    assert [Path(f"/proc/self/fd/{fd}").readlink().name for fd in freezer] == ["cgroup.freeze", "cgroup.events"]
    for fd in freezer:
        os.close(fd)
    made.remove()
    assert not folder.exists()


def test_second_version_usage(second_version: Path) -> None:
    made = _find(second_version).plan("termarena-x")
    assert made is not None
    made.make_joined()
    made.limit(Limits())
    (folder,) = made.folders
    (folder / "memory.events").write_text("oom 2\noom_kill 3\n")
    (folder / "memory.peak").write_text("12345678\n")
    (folder / "pids.events").write_text("max 4\n")
    (folder / "cpu.stat").write_text("usage_usec 2500000\nnr_periods 9\nnr_throttled 7\nthrottled_usec 500000\n")
    assert made.usage() == Usage(
        cpu_s=2.5,
        memory_peak_bytes=12345678,
        oom_kills=3,
        pids_limit_hits=4,
        cpu_throttled_s=0.5,
        cpu_throttled_periods=7,
    )


def test_second_version_without_delegation(second_version: Path) -> None:
    (second_version / "cg/user.slice/me.scope/cgroup.controllers").write_text("cpuset io\n")
    host = _find(second_version)
    assert host.version is None
    assert "not delegated" in host.problem
    assert "systemd-run" in host.remedy


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text("24 1 0:20 / /proc rw - proc proc rw\n")
    (tmp_path / "own").write_text("")
    host = _find(tmp_path)
    assert (host.version, host.problem) == (None, "no cgroup file system is mounted")
    assert host.plan("x") is None


async def test_a_kernel_that_cannot_fork_into_a_cgroup(
    sandbox_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group looks right and cannot be forked into: nothing is counted there, and processes are held by signals."""
    real_mkdir = Path.mkdir

    def kernel_mkdir(self: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as pathlib has it
        real_mkdir(self, mode, parents, exist_ok)
        for name in V2_FILES if self.is_relative_to(tmp_path) else ():
            (self / name).write_text("")

    monkeypatch.setattr(Path, "mkdir", kernel_mkdir)
    async with NamespaceDriver(home=sandbox_home) as driver:
        driver._cgroups = cgroups.CgroupHost(1, {}, unified=tmp_path)  # noqa: SLF001 - another machine
        driver._ids = ids.choose_ids()  # noqa: SLF001 - as above
        async with driver.start(SandboxSpec()) as box:
            assert (await box.usage()).cpu_s is None
            await box.exec(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])
            await box.freeze()
            assert [one.state for one in await box.processes()] == ["T"]
            await box.thaw()


async def test_cgroup_that_cannot_be_made(sandbox_home: Path, tmp_path: Path) -> None:
    driver = NamespaceDriver(home=sandbox_home)
    driver._cgroups = cgroups.CgroupHost(1, {"memory": tmp_path / "missing"})  # noqa: SLF001 - a broken machine
    driver._ids = ids.choose_ids()  # noqa: SLF001 - as above
    async with driver:
        with pytest.raises(SandboxStartError, match="No such file") as caught:
            async with driver.start(SandboxSpec()):
                raise AssertionError("started")
        assert caught.value.hint == "run: termarena doctor"
        assert driver.list() == ()


async def test_home_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with NamespaceDriver(home=tmp_path / "file") as driver:
        with pytest.raises(SandboxStartError, match="Not a directory") as caught:
            async with driver.start(SandboxSpec()):
                raise AssertionError("started")
    assert "TERMARENA_HOME" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "USR1"])
async def test_signals_that_the_harness_ignores_end_a_command(sandbox_home: Path, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        async with NamespaceDriver(home=sandbox_home) as driver, driver.start(SandboxSpec()) as box:
            assert (await box.exec(["sh", "-c", f"kill -{name} $$"])).signal == number
    finally:
        signal.signal(number, before)


async def test_process_1_killed_mid_command(sandbox_home: Path) -> None:
    async with NamespaceDriver(home=sandbox_home) as driver:
        async with driver.start(SandboxSpec()) as box:
            running = asyncio.create_task(box.exec(["sleep", "60"]))
            while not await box.processes():
                pass
            os.kill(box.host_pid, signal.SIGKILL)
            with pytest.raises(SandboxBroken, match="process 1 has ended"):
                await running
        assert driver.list() == ()


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_fork_server_killed(sandbox_home: Path) -> None:
    async with NamespaceDriver(home=sandbox_home) as driver:
        async with driver.start(SandboxSpec()) as box:
            os.kill(_parent_of(box.host_pid), signal.SIGKILL)
            with pytest.raises(SandboxBroken):
                await box.exec(["sleep", "60"])
        async with driver.start(SandboxSpec()) as box:
            assert (await box.exec(["true"])).exit_status == 0


FORBIDDEN = """
import asyncio, sys
from pathlib import Path
from termarena.core.errors import SandboxStartError
from termarena.sandbox import SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver, probe
from termarena.sandbox.namespace.inside import seccomp, syscalls
async def main():
    async with NamespaceDriver(home=Path(sys.argv[1])) as driver:
        try:
            async with driver.start(SandboxSpec()): pass
        except SandboxStartError as error: print(error.message, error.hint, sep=" | ")
        assert driver.list() == ()
    fact = probe(Path(sys.argv[1])).get("user_namespaces")
    print(fact.is_there, fact.remedy[:10])
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
syscalls.install_filter(seccomp.assemble())
asyncio.run(main())
"""


def test_machine_without_user_namespaces(sandbox_home: Path) -> None:
    """Our own filter forbids them to a harness, as Docker's does."""
    command = [sys.executable, "-c", FORBIDDEN, str(sandbox_home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own program
    said, fact = done.stdout.splitlines()
    assert "Operation not permitted" in said
    assert said.endswith("run: termarena doctor")
    assert fact == "False allow them"


def test_root_is_never_mapped_to_root() -> None:
    chosen = ids.choose_ids()
    assert all(line[1] != 0 for line in (*chosen.uid_lines, *chosen.gid_lines))


def test_sweep_removes_abandoned_builds(tmp_path: Path) -> None:
    old, fresh = tmp_path / "rootfs/.host-old", tmp_path / "rootfs/.host-fresh"
    for folder in (old, fresh):
        (folder / "closed").mkdir(parents=True)
        (folder / "closed").chmod(0)
    os.utime(old, (0, 0))
    assert NamespaceDriver(home=tmp_path).sweep() == 0
    assert (old.exists(), fresh.exists()) == (False, True)


def test_probe_says_what_works(sandbox_home: Path) -> None:
    facts = probe(sandbox_home)
    assert facts.can_run, facts
    needed = tuple(fact for fact in facts.facts if fact.is_needed)
    assert [fact.name for fact in needed] == ["user_namespaces", "overlay", "proc", "seccomp"]
    assert probe(sandbox_home, only_needed=True).facts == needed
    assert all(fact.is_there or fact.remedy for fact in facts.facts)


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, target, 0o755
    return member


@pytest.mark.parametrize("name", ["../escaped", "a/../../escaped"])
def test_archive_with_a_climbing_name(tmp_path: Path, name: str) -> None:
    archive = _tar(tmp_path / "bad.tar", (_member("bin", tarfile.DIRTYPE), b""), (_member(name), b"x"))
    (tmp_path / "target").mkdir()
    with pytest.raises(ImageError, match="climbs"):
        images.unpack_image(archive, tmp_path / "target")
    assert not (tmp_path / "escaped").exists()


def test_archive_that_writes_through_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = _tar(
        tmp_path / "links.tar",
        (_member("bin", tarfile.DIRTYPE), b""),
        (_member(str(outside), tarfile.DIRTYPE), b""),
        (_member("outside", tarfile.DIRTYPE), b""),
        (_member("abs", tarfile.SYMTYPE, str(outside)), b""),
        (_member("up", tarfile.SYMTYPE, "../../outside"), b""),
        (_member("file", tarfile.SYMTYPE, str(outside / "file")), b""),
        (_member("abs/one"), b"1"),
        (_member("up/two"), b"2"),
        (_member("file"), b"3"),
        (_member("hard", tarfile.LNKTYPE, "file"), b""),
        (_member("dev/sda", tarfile.BLKTYPE), b""),
    )
    target = tmp_path / "target"
    target.mkdir()
    images.unpack_image(archive, target)
    assert list(outside.iterdir()) == []
    assert (target / "hard").read_bytes() == b"3"
    assert (target / str(outside).lstrip("/") / "one").read_bytes() == b"1"
    assert (target / "outside/two").read_bytes() == b"2"
    assert not (target / "dev/sda").exists()


def test_hard_link_to_the_host_is_refused(tmp_path: Path) -> None:
    archive = _tar(
        tmp_path / "hard.tar",
        (_member("bin", tarfile.DIRTYPE), b""),
        (_member("x", tarfile.LNKTYPE, "../../etc/passwd"), b""),
    )
    (tmp_path / "target").mkdir()
    with pytest.raises(ImageError, match="climbs"):
        images.unpack_image(archive, tmp_path / "target")


async def test_docker_save_archive(sandbox_home: Path, rootfs: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "first.tar", "w") as layer:
        layer.add(rootfs, ".")
    whiteouts = [(_member("etc/.wh.motd"), b""), (_member("home/.wh..wh..opq"), b""), (_member("home/new"), b"n")]
    _tar(tmp_path / "second.tar", *whiteouts)
    manifest = json.dumps([{"Config": "c.json", "Layers": ["a/layer.tar", "b/layer.tar"]}]).encode()
    _tar(
        tmp_path / "image.tar",
        (_member("manifest.json"), manifest),
        (_member("a/layer.tar"), (tmp_path / "first.tar").read_bytes()),
        (_member("b/layer.tar"), (tmp_path / "second.tar").read_bytes()),
    )
    spec = SandboxSpec(root=Root(kind="archive", path=tmp_path / "image.tar"))
    async with NamespaceDriver(home=sandbox_home) as driver, driver.start(spec) as box:
        assert await out(box, "ls /home; ls /etc/motd 2>/dev/null || echo gone") == "new\ngone"


@contextlib.asynccontextmanager
async def sandbox_whose_first_process_is_stopped(home: Path) -> AsyncIterator[NamespaceSandbox]:
    """The body has thirty seconds: it must not hang for want of an answer."""
    async with NamespaceDriver(home=home) as driver, driver.start(SandboxSpec()) as box, asyncio.timeout(30):
        os.kill(box.host_pid, signal.SIGSTOP)
        yield box


async def test_first_process_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "ANSWER_TIMEOUT_S", 0.2)
    async with sandbox_whose_first_process_is_stopped(tmp_path) as box:
        with pytest.raises(SandboxBroken, match="does not answer"):
            await box.processes()
        assert not box.is_alive


async def test_first_process_that_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "ANSWER_TIMEOUT_S", 0.2)
    async with sandbox_whose_first_process_is_stopped(tmp_path) as box:
        commands = [box.exec(["true", "x" * 50_000]) for _ in range(60)]
        results = await asyncio.gather(*commands, return_exceptions=True)
        assert {type(result) for result in results} == {SandboxBroken}


async def test_terminal_that_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_commands, "ANSWER_TIMEOUT_S", 0.2)
    async with sandbox_whose_first_process_is_stopped(tmp_path) as box:
        with pytest.raises(SandboxBroken, match="did not open a terminal"):
            await box.open_pty(["true"])


async def test_tree_whose_carrier_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace_files, "JOB_TIMEOUT_S", 0.2)
    monkeypatch.setattr(namespace_commands, "BACKSTOP_S", 0.2)
    (tmp_path / "in").mkdir()
    async with sandbox_whose_first_process_is_stopped(tmp_path) as box:
        with pytest.raises(SandboxBroken, match="did not end a command in time"):
            await box.put_tree(tmp_path / "in", "/srv/in")


ACCESS = [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 7, 0, 0, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255]
ACCESS += [16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255]
SET_ACCESS = f"import os; os.mkdir('/srv/s'); os.setxattr('/srv/s', 'system.posix_acl_default', bytes({ACCESS}))"
GET_ACCESS = "import os; print(list(os.getxattr('/srv/s', 'system.posix_acl_default')))"


@pytest.mark.needs("user-namespaces", "python3")
async def test_lists_of_access_are_in_a_snapshot(tmp_path: Path) -> None:
    async with NamespaceDriver(home=tmp_path) as driver, driver.start(SandboxSpec()) as box:
        assert (await box.exec(["python3", "-c", SET_ACCESS])).exit_status == 0
        with contextlib.closing(await box.snapshot()) as snapshot:
            await snapshot.save(tmp_path / "saved")
        with contextlib.closing(driver.load(tmp_path / "saved")) as saved:
            async with driver.start(saved) as fork:
                told = await fork.exec(["python3", "-c", GET_ACCESS])
                assert told.stdout.decode().strip() == str(ACCESS)


@pytest.mark.parametrize("seconds", [9_000_000_000, 999_999_999_999, -5])
async def test_a_file_of_a_far_day_breaks_no_archive(tmp_path: Path, seconds: int) -> None:
    async with NamespaceDriver(home=tmp_path / "home") as driver, driver.start(SandboxSpec()) as box:
        await out(box, f"mkdir /srv/t && touch -d @{seconds} /srv/t/f && echo last > /srv/t/g")
        await box.get_tree("/srv/t", tmp_path / "got")
        assert sorted(path.name for path in (tmp_path / "got").iterdir()) == ["f", "g"]
        snapshot = await box.snapshot()
        await snapshot.save(tmp_path / "saved")
        snapshot.close()
        loaded = driver.load(tmp_path / "saved")
        async with driver.start(loaded) as fork:
            assert await out(fork, "stat -c %Y /srv/t/f; cat /srv/t/g") == f"{seconds}\nlast"
        loaded.close()


async def test_a_large_file_of_the_root_is_replaced_without_being_copied(sandbox_home: Path, tmp_path: Path) -> None:
    make_rootfs(tmp_path / "root")
    (tmp_path / "root/large").write_bytes(b"x" * (8 << 20))
    spec = SandboxSpec(root=Root(kind="folder", path=tmp_path / "root"), limits=Limits(disk_bytes=4 << 20))
    async with NamespaceDriver(home=sandbox_home) as driver, driver.start(spec) as box:
        await box.write("/large", b"small")
        assert await out(box, "cat /large; echo >>/large") == "small"
        assert await box.read("/large") == b"small\n"


async def test_users_are_as_the_files_have_them_at_that_moment(sandbox_home: Path) -> None:
    line = "root:x:0:0:root:{}:/bin/sh\n"
    async with NamespaceDriver(home=sandbox_home) as driver, driver.start(SandboxSpec()) as box:
        assert [await out(box, "echo $HOME") for _ in range(3)] == ["/root"] * 3
        for number in range(30):
            home = ("/srv", "/usr/lib")[number % 2]
            await box.write("/etc/passwd", line.format(home).encode())
            assert await out(box, "echo $HOME") == home
        await box.exec(["touch", "-d", "2020-01-01", "/etc/passwd", "/etc/group"])
        await asyncio.sleep(1.1)
        assert [await out(box, "echo $HOME") for _ in range(2)] == ["/usr/lib"] * 2
        await box.exec(["sh", "-c", "sed -i s,/usr/lib,/usr/bin, /etc/passwd; touch -d 2020-01-01 /etc/passwd"])
        assert await out(box, "echo $HOME") == "/usr/bin"


@pytest.mark.parametrize("accounts", ["rm -f /etc/passwd; mkdir /etc/passwd", ODD_IDS])
async def test_files_of_accounts_that_are_none_end_no_sandbox(sandbox_home: Path, accounts: str) -> None:
    async with NamespaceDriver(home=sandbox_home) as driver, driver.start(SandboxSpec()) as box:
        await box.exec(["sh", "-c", accounts])
        await box.seal()
        with contextlib.closing(await box.snapshot()) as snapshot:
            async with driver.start(snapshot) as fork:
                assert await out(fork, "id -u") == "0"
                with pytest.raises(NotFound, match="no user nobody"):
                    await fork.exec(["true"], user="nobody")


async def test_what_process_1_said_before_it_ended_is_heard() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    heard = channel.Channel("ta-x", ours, on_event=lambda _: None)
    wire.send(ours, {"never": "read"})
    wire.send(theirs, {"failed": "the reason"})
    theirs.close()
    first = heard.open()
    assert (await asyncio.wait_for(first, 20)).message == {"failed": "the reason"}
    heard.close("it has been heard")


async def test_who_does_not_wait_for_files_to_be_removed_ends_the_sandboxes_all_the_same(
    sandbox_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settling, settled = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def settle(_: DiskLayers) -> None:
        loop.call_soon_threadsafe(settling.set)
        settled.wait()

    monkeypatch.setattr(DiskLayers, "settle", settle)
    driver = NamespaceDriver(home=sandbox_home)
    starting = driver.start(SandboxSpec())
    box = await starting.__aenter__()
    closing = asyncio.create_task(driver.aclose())
    await settling.wait()
    closing.cancel()
    try:
        with pytest.raises(asyncio.CancelledError):
            await closing
    finally:
        settled.set()
    async with asyncio.timeout(60):
        with pytest.raises(SandboxBroken):
            await box.exec(["sleep", "60"])
        with contextlib.suppress(SandboxBroken):
            await starting.__aexit__(None, None, None)
    assert driver.list() == ()


LEASES = """
import fcntl, os, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open("/srv/f", os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
os.rename("/srv/f.py", "/srv/held")
signal.pause()
"""


async def test_a_lease_on_a_file_holds_up_nobody_who_writes_it(sandbox_home: Path) -> None:
    async with NamespaceDriver(home=sandbox_home) as driver, driver.start(SandboxSpec()) as box:
        await box.write("/srv/f", b"old")
        await box.write("/srv/f.py", LEASES.encode())
        await out(box, "setsid python3 /srv/f.py >/dev/null 2>&1 & until test -e /srv/held; do :; done")
        async with asyncio.timeout(30):  # the kernel gives up a lease after 45 s
            await box.write("/srv/f", b"new")
        assert await box.read("/srv/f") == b"new"


async def test_a_mounted_folder_does_not_tell_where_it_lies_on_the_host(tmp_path: Path) -> None:
    lent = tmp_path / "a-secret-place"
    lent.mkdir()
    (lent / "run").write_text("#!/bin/sh\necho ran\n")
    (lent / "run").chmod(0o755)
    spec = SandboxSpec(mounts=(Mount(source=lent, target="/opt/lent"), Mount(source=lent, target="/opt/again")))
    async with NamespaceDriver(home=tmp_path / "home") as driver, driver.start(spec) as box:
        assert (
            await out(box, "/opt/lent/run; cat /opt/again/run > /dev/null; touch /opt/lent/x || echo kept")
            == "ran\nkept"
        )
        assert "a-secret-place" not in await out(box, "cat /proc/self/mountinfo /proc/mounts")
    assert [path.name for path in lent.iterdir()] == ["run"]


RENAMES = "import os\nos.mkdir('x')\nos.write(1, b'x')\nwhile True: os.rename('x', 'y'); os.rename('y', 'x')"


def test_a_path_with_dots_opens_while_something_else_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/f").touch()
    root = os.open(tmp_path, os.O_PATH)
    command = [sys.executable, "-c", RENAMES]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as renaming:  # noqa: S603 - ours
        try:
            assert renaming.stdout is not None
            assert renaming.stdout.read(1) == b"x"
            for _ in range(5000):
                os.close(syscalls.openat2(root, "/a" + "/b/.." * 8 + "/f", os.O_PATH, resolve=syscalls.RESOLVE_IN_ROOT))
        finally:
            renaming.kill()
            os.close(root)


@pytest.mark.parametrize("words", ["few", "many" * wire.PACKET_LIMIT])
def test_a_message_whose_descriptors_do_not_all_fit_is_not_taken_for_one_with_fewer(words: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ours, theirs:
        wire.send(ours, {"re": 1, "words": words}, (0,) * 5)
        next_free = os.dup(0)
        os.close(next_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_free + 3, before[1]))
        try:
            cut = wire.receive(theirs)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert cut is not None
        assert cut.fds == []
        assert cut.message == {"re": 1, "words": words, "errno": errno.EMFILE, "problem": "Too many open files"}
        wire.send(ours, {}, (0,))
        whole = wire.receive(theirs)
        assert whole is not None
        assert whole.fds == [next_free]
        os.close(next_free)
