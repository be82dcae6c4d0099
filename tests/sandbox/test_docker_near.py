"""Containers of this machine are touched by the machine's root: a hostile one must not lead it anywhere else."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.support import CONFORMANCE_ROOT, out, sh
from termarena.core.errors import SandboxBroken, SandboxFileError, SandboxFrozen
from termarena.sandbox import SandboxSpec
from termarena.sandbox.counters import UNIFIED, groups_in, hierarchies
from termarena.sandbox.docker import DockerDriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from termarena.sandbox.docker.box import DockerSandbox

pytestmark = [pytest.mark.needs("docker"), pytest.mark.usefixtures("as_root")]

CAPABILITY = (
    "import os; os.setxattr('/srv/tool', 'security.capability',"
    " bytes.fromhex('0100000200040000000000000000000000000000'))"
)


@pytest.fixture
async def engine(sandbox_home: Path) -> AsyncIterator[DockerDriver]:
    async with DockerDriver(home=sandbox_home, default_root=CONFORMANCE_ROOT) as made:
        yield made


@pytest.fixture
async def near(engine: DockerDriver) -> AsyncIterator[DockerSandbox]:
    async with engine.start(SandboxSpec()) as started:
        assert started.container.overlay is not None
        yield started


async def test_a_device_is_never_opened(near: DockerSandbox, tmp_path: Path) -> None:
    # Merely opening one can do harm: a watchdog restarts the machine.
    await out(
        near,
        "mkdir /srv/d; mknod /srv/d/dog c 10 200; mknod /srv/d/disk b 7 200; mkfifo /srv/d/pipe; echo >/srv/d/file",
    )
    for name in ("dog", "disk", "pipe"):
        with pytest.raises(SandboxFileError) as caught:
            await near.read(f"/srv/d/{name}")
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(SandboxFileError):
            await near.write(f"/srv/d/{name}", b"x")
    got = await near.get_tree("/srv/d", tmp_path / "got")
    assert sorted(path.name for path in (tmp_path / "got").iterdir()) == ["file"]
    assert set(got.skipped) == {"dog", "disk", "pipe"}
    kinds = {change.path: change.kind for change in (await near.diff()).changes}
    assert kinds["/srv/d/dog"] == kinds["/srv/d/disk"] == "device"


async def test_a_folder_that_turns_into_a_link_leads_nowhere(near: DockerSandbox, tmp_path: Path) -> None:
    (tmp_path / "tree/deep").mkdir(parents=True)
    (tmp_path / "tree/deep/planted").write_text("x")
    target = tmp_path / "outside"
    target.mkdir()
    # A moment's rest as a folder: on a busy machine the turns would otherwise leave no time for any write.
    turns = f"rm -rf b; mv -T a b; ln -sT /../../../../..{target} a; rm -f a; mv -T b a; sleep 0.01"
    turning = f"cd /srv; mkdir a; while :; do {turns}; done"
    await sh(near, f"({turning}) >/dev/null 2>&1 &")
    tried = written = put = 0
    while tried < 60 or (tried < 3000 and not (written and put)):
        tried += 1
        try:
            await near.write("/srv/a/deep/planted", b"x")
            written += 1
            await near.put_tree(tmp_path / "tree", "/srv/a")
            put += 1
        except SandboxFileError:
            continue
    assert written
    assert put
    assert list(target.iterdir()) == []


async def test_links_into_the_kernel_are_refused(near: DockerSandbox, tmp_path: Path) -> None:
    await out(near, "ln -s /proc/1/environ /srv/e; ln -s /proc/1/root /srv/r; ln -s /proc /srv/p; ln -s /sys /srv/s")
    for path in ("/srv/e", "/srv/r/etc/passwd", "/srv/p/version", "/srv/s/kernel/mm/ksm/run"):
        with pytest.raises(SandboxFileError):
            await near.read(path)
    for path in ("/srv/p", "/srv/s", "/srv/r/etc"):
        with pytest.raises(SandboxFileError):
            await near.get_tree(path, tmp_path / path.replace("/", "-"))


async def test_what_a_program_may_do_survives_a_fork(engine: DockerDriver, near: DockerSandbox) -> None:
    await out(near, f'cp /bin/true /srv/tool; python3 -c "{CAPABILITY}"')
    show = "python3 -c \"import os; print(os.getxattr('/srv/tool', 'security.capability').hex())\""
    before = await out(near, show)
    snapshot = await near.snapshot()
    async with engine.start(snapshot) as fork:
        assert await out(fork, show) == before
    snapshot.close()


async def test_files_of_an_ended_container(engine: DockerDriver) -> None:
    async with engine.start(SandboxSpec()) as box:
        await box.stop()
        with pytest.raises(SandboxBroken):
            await box.read("/etc/passwd")
        with pytest.raises(SandboxBroken):
            await box.snapshot()
        with pytest.raises(SandboxBroken):
            await box.diff()


async def test_changes_and_states_come_from_the_layer_itself(near: DockerSandbox) -> None:
    await out(near, "echo x >/srv/x")
    layers = near.container.overlay
    assert layers is not None
    assert [entry["path"] for entry in layers.changes()] == ["/srv/x"]
    snapshot = await near.snapshot()
    assert not hasattr(snapshot, "image")
    snapshot.close()


async def _state(box: DockerSandbox) -> str:
    told = (await box.container.engine.call("GET", f"/containers/{box.container.id}/json")).json()
    return str(told["State"]["Status"])


async def test_the_engine_pauses_only_what_runs(near: DockerSandbox) -> None:
    for _ in range(20):  # where processes of the machine end under every look, it is paused to be sure
        await near.freeze()
        with pytest.raises(SandboxFrozen):
            await sh(near, "true")
        found = await _state(near)
        await near.thaw()
        if found == "running":
            break
    assert found == "running"
    await sh(near, "sleep 1000 &")
    await near.freeze()
    assert await _state(near) == "paused"
    await near.thaw()
    assert await _state(near) == "running"


async def test_the_engine_pauses_who_is_in_another_pid_namespace(near: DockerSandbox) -> None:
    """As what a container with more rights has put there, and left; its control group has it all the same."""
    assert near.container.local is not None
    mounted = hierarchies(Path("/proc/self/mountinfo"))
    groups = groups_in(Path(f"/proc/{near.container.local.host_pid}/cgroup"))
    name = "freezer" if "freezer" in mounted else UNIFIED
    with subprocess.Popen(["sleep", "1000"]) as hidden:  # noqa: ASYNC220, S607 - begins at once
        try:
            (mounted[name] / groups[name].lstrip("/") / "cgroup.procs").write_text(str(hidden.pid))
            assert await near.processes() == ()
            await near.freeze()
            assert await _state(near) == "paused"
            await near.thaw()
        finally:
            hidden.kill()


@pytest.mark.needs("nsenter", "unshare")
async def test_a_pid_namespace_of_its_own_hides_no_process(near: DockerSandbox) -> None:
    """As on an engine without seccomp, where whoever is in a container can make one."""
    local = near.container.local
    assert local is not None
    inside = ["nsenter", f"--target={local.host_pid}", "--pid"]
    deep = ["unshare", "--pid", "--fork", "sh", "-c", "echo up; exec sleep 7215"]
    with subprocess.Popen([*inside, *deep], stdout=subprocess.PIPE) as nested:  # noqa: ASYNC220, S603 - begins at once
        try:
            assert nested.stdout is not None
            assert await asyncio.to_thread(nested.stdout.readline) == b"up\n"
            async with asyncio.timeout(60):
                # Between the two it is on its way from one program to the next.
                while ("sleep", "7215") not in [one.argv for one in await near.processes()]:  # noqa: ASYNC110 - nothing tells it
                    await asyncio.sleep(0.05)
            [deepest] = [one.host_pid for one in local.processes() if one.argv[0] == "sleep"]
            await near.seal()
            assert await near.processes() == ()
            assert not os.path.exists(f"/proc/{deepest}/exe")  # noqa: ASYNC240, PTH110 - a process that has ended has none
        finally:
            nested.kill()
