"""Changes of embedded sandboxes that do not fit in memory: where they go, who holds the limit, and that all goes."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
import tracemalloc
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.support import out, sh
from termarena.core.errors import SandboxBroken, SandboxFileError
from termarena.sandbox import Limits, SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.inside import room
from termarena.sandbox.namespace.launcher import Launcher
from termarena.sandbox.namespace.ondisk import hold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from termarena.sandbox import Snapshot
    from termarena.sandbox.namespace.box import NamespaceSandbox

MIB = 1 << 20
SMALL = SandboxSpec(limits=Limits(memory_bytes=64 * MIB, disk_bytes=96 * MIB))
"""More disk than memory has room for."""
FILLS = "while head -c 2000000 /dev/urandom >>/root/big; do :; done"
"""Ends only when something is refused."""


@pytest.fixture
async def on_disk(sandbox_home: Path) -> AsyncIterator[NamespaceDriver]:
    async with NamespaceDriver(home=sandbox_home) as driver:
        yield driver


def _layers(home: Path) -> set[str]:
    return {path.name for path in (home / "layers").iterdir()}


async def test_changes_go_to_disk_only_where_memory_has_no_room(on_disk: NamespaceDriver, sandbox_home: Path) -> None:
    async with on_disk.start(SandboxSpec()) as plain, on_disk.start(SMALL) as box:
        assert (plain.is_on_disk, box.is_on_disk) == (False, True)
        assert {one.id: one.changes for one in on_disk.list()} == {plain.id: "memory", box.id: "disk"}
        assert _layers(sandbox_home) == {box.id}
        await sh(box, "echo kept >/root/file; sync /root/file")
        found = sandbox_home / "layers" / box.id / "fs/u0/root/file"
        assert found.read_text() == "kept\n"
        assert found.stat().st_uid == on_disk.ids.root[0]
    await on_disk.aclose()
    assert _layers(sandbox_home) == set()


async def test_writing_is_refused_beyond_the_limit_until_there_is_room(on_disk: NamespaceDriver) -> None:
    async with on_disk.start(SMALL) as box:
        assert (await box.usage()).disk_full is False
        full = await sh(box, f"{FILLS}; echo the shell lives; echo no >/root/more", timeout_s=120)
        assert full.stdout == b"the shell lives\n"
        assert b"File too large" in full.stderr
        assert full.exit_status != 0
        used = await box.usage()
        assert used.disk_full is True
        assert used.disk_bytes is not None
        assert used.disk_bytes > SMALL.limits.disk_bytes - MIB
        with pytest.raises(SandboxFileError, match="No space left"):
            await box.write("/root/mine", bytes(10))
        # A command that waits for room finds it, and so does one that begins afterwards.
        await out(box, "rm /root/big; until echo yes >/root/more; do :; done 2>/dev/null")
        assert await out(box, "echo again >>/root/more; cat /root/more") == "yes\nagain"
        last = await box.usage()
        assert last.disk_full is True
        assert last.disk_bytes is not None
        assert last.disk_bytes < MIB


async def test_who_fills_the_disk_while_others_make_room_is_refused_and_not_ended(
    on_disk: NamespaceDriver, sandbox_home: Path
) -> None:
    theirs = sandbox_home / "theirs"
    with theirs.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 4 * SMALL.limits.disk_bytes)
    async with on_disk.start(SMALL) as box:
        theirs.unlink()
        full = await sh(box, f"{FILLS}; echo the shell lives", timeout_s=120)
        assert (full.stdout, full.exit_status) == (b"the shell lives\n", 0)
        used = await box.usage()
        assert used.disk_full is True
        assert used.disk_bytes is not None
        assert used.disk_bytes < SMALL.limits.disk_bytes + room.SLACK_BYTES


async def test_a_deleted_file_that_is_written_on_counts(on_disk: NamespaceDriver) -> None:
    script = (
        "import os, time\n"
        "fd = os.open('/root/f', os.O_CREAT | os.O_WRONLY)\n"
        "os.unlink('/root/f')\n"
        "try:\n"
        " for _ in range(100): os.write(fd, os.urandom(1 << 20)); time.sleep(0.01)\n"
        # No further: who is far beyond the limit is ended, and a file of twice its size is refused unseen by the watch,
        # which looks late where others make room on the same disk.
        " while True: os.pwrite(fd, b'x', 0); time.sleep(0.01)\n"
        "except OSError as error: print(error.errno == 27)\n"
    )
    async with on_disk.start(SMALL) as box:
        assert (await box.exec(["python3", "-c", script], timeout_s=120)).stdout == b"True\n"
        assert (await box.usage()).disk_full is True


async def test_names_count_although_they_take_no_block(on_disk: NamespaceDriver) -> None:
    script = "import os\nfor at in range(2000): os.close(os.open(f'/root/{at}', os.O_CREAT))"
    async with on_disk.start(SMALL) as box:
        await box.exec(["python3", "-c", script])
        used = await box.usage()
        assert used.disk_bytes is not None
        assert used.disk_bytes >= 2000 * 1024


def test_many_folders_of_long_paths_are_measured_in_little_memory(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*(letter * 250 for letter in "abcdefgh"))
    for at in range(1500):
        (deep / str(at)).mkdir(parents=True)
    root = os.open(tmp_path, os.O_RDONLY)
    tracemalloc.start()
    try:
        assert room.taken([root]) >= 1508 * room.LEAST_BYTES
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
        os.close(root)


def test_a_look_at_many_descriptors_can_be_left_and_gone_on_with(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file, ExitStack() as stack:
        file.write(bytes(100_000))
        file.flush()
        (tmp_path / "file").unlink()
        for _ in range(room.STRIDE):
            stack.callback(os.close, os.dup(file.fileno()))
        told = list(room.nameless({os.fstat(file.fileno()).st_dev}, most_mapped_bytes=0))
    assert len(told) > 1
    assert told[-1] >= 100_000


@contextmanager
def _mapped(path: Path, size: int) -> Iterator[None]:
    """A new file of this size, in memory and not open: `mmap` of Python's keeps a descriptor."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    with path.open("wb+") as file:
        file.truncate(size)
        place = libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
    try:
        yield
    finally:
        libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(size))


def _nameless(device: int, *, most_mapped_bytes: int) -> int:
    return list(room.nameless({device}, most_mapped_bytes=most_mapped_bytes))[-1]


@pytest.mark.parametrize("name", ["file", "file (deleted)"])
def test_a_deleted_file_that_is_only_mapped_counts(tmp_path: Path, name: str) -> None:
    device, size = tmp_path.stat().st_dev, 1 << 30
    before = _nameless(device, most_mapped_bytes=2 * size)
    with _mapped(tmp_path / name, size):
        assert _nameless(device, most_mapped_bytes=2 * size) - before < size // 4
        (tmp_path / name).unlink()
        assert _nameless(device, most_mapped_bytes=2 * size) - before > size // 4 * 3
        assert _nameless(device, most_mapped_bytes=size // 2) - before < size // 4 * 3


async def test_who_gets_around_the_refusal_is_ended(on_disk: NamespaceDriver) -> None:
    script = (
        "import os, resource\n"
        "out = open('/root/f', 'wb', 0)\n"
        "while True:\n"
        " resource.setrlimit(resource.RLIMIT_FSIZE, (resource.getrlimit(resource.RLIMIT_FSIZE)[1],) * 2)\n"
        " try: out.write(bytes(1 << 20))\n"
        " except OSError: pass\n"
        " if out.tell() > 160 << 20: out = open('/root/g', 'wb', 0)\n"
    )
    async with on_disk.start(SMALL) as box:
        ended = await box.exec(["python3", "-c", script], timeout_s=120)
        assert (ended.signal, ended.timed_out) == (9, False)
        assert (await box.usage()).disk_full is True
        assert await out(box, "rm /root/?; echo fine") == "fine"


async def test_who_lowers_its_own_limit_meanwhile_ends_nothing(on_disk: NamespaceDriver) -> None:
    script = (
        "import os, resource\n"
        "out = open('/root/f', 'wb', 0)\n"
        "try:\n"
        " for _ in range(98): out.write(bytes(1 << 20))\n"
        "except OSError: pass\n"
        "while resource.getrlimit(resource.RLIMIT_FSIZE)[0]: pass\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 1000))\n"
        "os.remove('/root/f')\n"
        "out.close()\n"
        "while not resource.getrlimit(resource.RLIMIT_FSIZE)[0]: pass\n"
        "print(resource.getrlimit(resource.RLIMIT_FSIZE))\n"
    )
    async with on_disk.start(SMALL) as box:
        assert (await box.exec(["python3", "-c", script], timeout_s=120)).stdout == b"(1000, 1000)\n"


async def test_layers_stay_as_long_as_a_fork_lies_on_them(on_disk: NamespaceDriver, sandbox_home: Path) -> None:
    async with AsyncExitStack() as stack:
        async with on_disk.start(SMALL) as first:
            await sh(first, "echo 1 >/root/one")
            await first.seal()
            snapshot = await first.snapshot()
            second = await stack.enter_async_context(on_disk.start(snapshot))
            await sh(second, "echo 2 >/root/two")
            await second.seal()
            later = await second.snapshot()
            last = await stack.enter_async_context(on_disk.start(later))
            snapshot.close()
        assert _layers(sandbox_home) == {first.id, second.id, last.id}
        async with NamespaceDriver(home=sandbox_home) as other:
            other.sweep()
            assert {one.id for one in other.list()} == {second.id, last.id}
        later.close()
        await second.stop()
        assert _layers(sandbox_home) == {first.id, second.id, last.id}
        assert await out(last, "cat /root/one /root/two; rm /root/one; ls /root") == "1\n2\ntwo"
    await on_disk.aclose()
    assert _layers(sandbox_home) == set()
    with pytest.raises(SandboxBroken, match="removed"):
        hold(sandbox_home / "layers" / first.id)


HOSTILE = (
    "import os\n"
    "os.chdir('/root')\n"
    "for _ in range(1200): os.mkdir('d'); os.chdir('d')\n"
    "open('bottom', 'w').write('x' * 5000)\n"
    "os.makedirs('/srv/shut/inner'); open('/srv/shut/inner/f', 'w').close()\n"
    "os.symlink('/etc', '/srv/shut/inner/etc')\n"
    "for path in ('/srv/shut/inner', '/srv/shut'): os.chmod(path, 0)\n"
)


async def test_a_hostile_tree_is_measured_and_removed(on_disk: NamespaceDriver, sandbox_home: Path) -> None:
    async with on_disk.start(SMALL) as box:
        assert (await box.exec(["python3", "-c", HOSTILE])).exit_status == 0
        assert (await box.usage()).disk_full is False
    await on_disk.aclose()
    assert _layers(sandbox_home) == set()


async def test_files_of_users_are_removed_too(on_disk: NamespaceDriver, sandbox_home: Path) -> None:
    if not on_disk.ids.has_users:
        pytest.skip("this user has one id to give")
    async with on_disk.start(SMALL) as box:
        await out(box, "mkdir -m 700 /srv/mine; echo x >/srv/mine/x; chown -R 4321:4321 /srv/mine; chmod 000 /srv/mine")
    await on_disk.aclose()
    assert _layers(sandbox_home) == set()


async def test_files_that_cannot_be_removed_are_told_and_go_with_the_next_sweep(
    on_disk: NamespaceDriver, sandbox_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = Launcher.remove
    with monkeypatch.context() as patched:
        patched.setattr(Launcher, "remove", lambda server, folder, ids: removed(server, folder / "other", ids))
        async with on_disk.start(SMALL) as box:
            await sh(box, "echo kept >/root/file")
        await on_disk.aclose()
    layer = sandbox_home / "layers" / box.id
    assert (layer / "fs/u0/root/file").read_text() == "kept\n"
    assert [(one.is_alive, one.changes) for one in on_disk.list() if one.id == box.id] == [(False, "disk")]
    assert str(layer) in " ".join(on_disk.capabilities().notes)
    assert on_disk.sweep() == 1
    assert not layer.exists()
    assert str(layer) not in " ".join(on_disk.capabilities().notes)


CHAIN = 60


async def _next(driver: NamespaceDriver, stack: AsyncExitStack, snapshot: Snapshot | None, step: int) -> Snapshot:
    started = driver.start(SandboxSpec() if snapshot is None else snapshot)
    box: NamespaceSandbox = await stack.enter_async_context(started)
    # One name is a file and a folder by turns, one folder is made anew each time, one file is there every second time.
    turn = "echo file >turn" if step % 2 else "mkdir turn; echo folder >turn/f"
    script = f"cd /srv; echo {step} >n{step}; rm -rf turn; {turn}; rm -rf new; mkdir new; echo {step} >new/{step}"
    flips = "rm -f /etc/flip" if step % 2 else f"echo {step} >/etc/flip"
    assert (await sh(box, f"{script}; {flips}; rm -f n{step - 5}; echo {step} >/usr/step")).exit_status == 0
    await box.seal()
    taken = await box.snapshot()
    stack.callback(taken.close)
    return taken


async def test_forks_of_forks_of_forks(on_disk: NamespaceDriver) -> None:
    """Deeper than layers can be handed over one by one, and deeper than a snapshot keeps them apart."""
    async with AsyncExitStack() as stack:
        snapshot: Snapshot | None = None
        for step in range(CHAIN):
            snapshot = await _next(on_disk, stack, snapshot, step)
        assert snapshot is not None
        async with on_disk.start(snapshot) as last:
            shown = await out(last, "cd /srv; ls; cat turn; ls new; cat /usr/step; ls /etc/flip 2>&1 || :")
            names = [f"n{step}" for step in range(CHAIN - 5, CHAIN)]
            assert shown.split("\n")[:-1] == [*names, "new", "turn", "file", str(CHAIN - 1), str(CHAIN - 1)]
            assert "No such file" in shown
            assert (await last.diff()).changes == ()


def _in_a_small_home(size: str, program: str) -> dict[str, object]:
    """Run a program whose home (its first argument) is on a file system of its own; what it prints as JSON."""
    script = Path(__file__).with_name("small_home.py")
    command = ["unshare", "-m", sys.executable, str(script), size, program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # noqa: S603 - our own program
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.usefixtures("as_root")
def test_a_home_that_cannot_keep_changes_leaves_them_in_memory() -> None:
    found = _in_a_small_home("ramfs", "start")
    assert found["is_on_disk"] is False
    assert "files stay in memory" in str(found["notes"])
    assert found["fact"] is False


@pytest.mark.usefixtures("as_root")
def test_a_sandbox_ends_before_the_hosts_disk_is_full_and_makes_room() -> None:
    found = _in_a_small_home("400m", "fill")
    assert "the disk of this machine is nearly full" in str(found["problem"])
    assert (found["disk_full"], found["left"]) == (None, [])
    assert int(str(found["room"])) > 300 * MIB


@pytest.mark.usefixtures("as_root")
def test_a_sandbox_ends_before_the_hosts_disk_can_have_no_more_files() -> None:
    found = _in_a_small_home("400m,nr_inodes=20000", "litter")
    assert "the disk of this machine is nearly full" in str(found["problem"])
    assert found["left"] == []


def test_whoever_removes_can_be_waited_for_also_where_there_is_nothing_to_remove(
    on_disk: NamespaceDriver, tmp_path: Path
) -> None:
    server, ids = Launcher(), on_disk.ids.as_plan()
    server.ensure()
    try:
        for _ in range(200):  # that process is ready sooner than others can look for it, one time in twenty
            os.close(server.remove(tmp_path / "nothing", ids))
    finally:
        server.close()


async def test_what_strayed_into_the_home_is_no_sandbox_and_in_nobodys_way(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("strayed")
    for name in ("sandboxes/stray", "sandboxes/.stray", "layers/stray", "layers/ta-odd/of-somebody"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("")
    (home / "layers/ta-zzz").mkdir()
    os.utime(home / "sandboxes/.stray", (0, 0))
    async with NamespaceDriver(home=home) as driver:
        async with driver.start(SMALL) as box:
            assert await out(box, "echo fine") == "fine"
        assert {record.id for record in driver.list()} == {"ta-odd"}
    assert _layers(home) == {"stray", "ta-odd"}
