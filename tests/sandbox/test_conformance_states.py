"""The sandbox contract: freezing and thawing, and what a sandbox tells of its use of the machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox.support import out, sh
from termarena.core.errors import SandboxFrozen
from termarena.sandbox import Limits, SandboxSpec

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox import Driver, ExecResult, Sandbox

# Each round is a new process, so that holding only those that were seen at first would not do.
RESTLESS = "(while :; do sh -c 'echo x >>/tmp/ticks'; done) >/dev/null 2>&1 & echo $!"


async def _ticks(box: Sandbox) -> int:
    return len(await box.read("/tmp/ticks"))  # noqa: S108 - inside the sandbox


async def _until_more(box: Sandbox, before: int) -> int:
    while (now := await _ticks(box)) <= before:
        pass
    return now


async def test_nothing_runs_while_frozen(box: Sandbox) -> None:
    await box.write("/tmp/ticks", b"")  # noqa: S108 - inside the sandbox
    await out(box, RESTLESS)
    await _until_more(box, 0)
    for _ in range(3):
        await box.freeze()
        frozen = await _ticks(box)
        before = {one.pid for one in await box.processes()}
        assert before
        snapshot = await box.snapshot()
        snapshot.close()
        assert {one.pid for one in await box.processes()} == before
        assert await _ticks(box) == frozen
        await box.thaw()
        await _until_more(box, frozen)


async def test_frozen_sandbox_refuses_what_would_run(box: Sandbox, tmp_path: Path) -> None:
    await box.freeze()
    await box.freeze()
    with pytest.raises(SandboxFrozen, match=box.id):
        await box.exec(["true"])
    with pytest.raises(SandboxFrozen):
        await box.open_pty(["sh"])
    with pytest.raises(SandboxFrozen):
        await box.write("/tmp/a", b"")  # noqa: S108 - inside the sandbox
    with pytest.raises(SandboxFrozen):
        await box.put_tree(tmp_path, "/tmp/tree")  # noqa: S108 - inside the sandbox
    await box.thaw()
    await box.thaw()
    assert (await box.exec(["true"])).exit_status == 0


async def test_snapshot_and_diff_of_a_frozen_sandbox(driver: Driver, box: Sandbox) -> None:
    await out(box, "echo before >/tmp/kept; sleep 1000 >/dev/null 2>&1 &")
    await box.freeze()
    assert "/tmp/kept" in (await box.diff()).of("added")  # noqa: S108 - inside the sandbox
    snapshot = await box.snapshot()
    async with driver.start(snapshot) as fork:
        assert await fork.read("/tmp/kept") == b"before\n"  # noqa: S108 - inside the sandbox
        assert await fork.processes() == ()
        await fork.write("/tmp/kept", b"after\n")  # noqa: S108 - inside the sandbox
    snapshot.close()
    await box.thaw()
    assert await out(box, "cat /tmp/kept") == "before"
    assert len(await box.processes()) == 1


async def test_frozen_processes_can_be_ended(box: Sandbox) -> None:
    await out(box, "trap '' TERM; for i in 1 2 3; do setsid sleep 1000 >/dev/null 2>&1 & done")
    await box.freeze()
    assert await box.kill_processes() >= 3
    assert await box.processes() == ()
    assert (await box.exec(["true"])).exit_status == 0


async def test_seal_of_a_frozen_sandbox_lets_nothing_run_again(box: Sandbox) -> None:
    await box.write("/tmp/ticks", b"")  # noqa: S108 - inside the sandbox
    await out(box, RESTLESS)
    await _until_more(box, 0)
    await box.freeze()
    frozen = await _ticks(box)
    await box.seal()
    assert await box.processes() == ()
    assert await _ticks(box) == frozen


async def test_frozen_sandbox_can_be_stopped(driver: Driver) -> None:
    async with driver.start(SandboxSpec()) as box:
        await out(box, "sleep 1000 >/dev/null 2>&1 &")
        await box.freeze()
    assert box.id not in {record.id for record in driver.list()}


async def test_stopped_jobs_stay_stopped_after_a_thaw(box: Sandbox) -> None:
    await out(box, "sleep 1000 >/dev/null 2>&1 & kill -STOP $!; until grep -q ') T ' /proc/$!/stat; do :; done")
    await box.freeze()
    await box.thaw()
    assert [one.state for one in await box.processes()] == ["T"]


async def test_command_goes_on_after_a_thaw(box: Sandbox) -> None:
    await sh(box, "mkfifo /tmp/gate")
    await out(box, "(cat /tmp/gate; echo done >/tmp/end) >/dev/null 2>&1 &")
    await box.freeze()
    await box.thaw()
    await out(box, "echo >/tmp/gate; until [ -s /tmp/end ]; do :; done")


async def _begun(box: Sandbox, *, timeout_s: float | None) -> asyncio.Task[ExecResult]:
    """A command that never ends, past its beginning."""
    await box.write("/tmp/ticks", b"")  # noqa: S108 - inside the sandbox
    script = "trap '' TERM; while :; do echo x >>/tmp/ticks; done"
    running = asyncio.create_task(sh(box, script, timeout_s=timeout_s))
    await _until_more(box, 0)
    return running


async def test_time_limit_that_is_over_while_frozen(box: Sandbox) -> None:
    running = await _begun(box, timeout_s=1)
    await box.freeze()
    frozen = await _ticks(box)
    # Some drivers end it at once, others when it thaws.
    await asyncio.wait({running}, timeout=3)
    assert box.is_alive
    assert await _ticks(box) == frozen
    await box.thaw()
    assert (await running).timed_out
    assert await box.processes() == ()
    assert (await box.exec(["true"])).exit_status == 0


async def test_cancelled_while_frozen(box: Sandbox) -> None:
    running = await _begun(box, timeout_s=None)
    await box.freeze()
    running.cancel()
    async with asyncio.timeout(60):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert box.is_alive
    await box.thaw()
    while await box.processes():
        pass
    assert (await box.exec(["true"])).exit_status == 0


async def test_usage_counts_what_ran(box: Sandbox) -> None:
    before = await box.usage()
    await out(box, "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; head -c 3000000 /dev/zero >/tmp/file")
    after = await box.usage()
    for name in ("cpu_s", "memory_peak_bytes", "disk_bytes"):
        earlier, later = getattr(before, name), getattr(after, name)
        assert (earlier is None) == (later is None)
        assert earlier is None or earlier <= later
    assert after.cpu_s is None or after.cpu_s > (before.cpu_s or 0)
    assert after.oom_kills == 0
    assert after.disk_full in (False, None)
    await box.seal()
    sealed = await box.usage()
    assert sealed.cpu_s is None or sealed.cpu_s >= (after.cpu_s or 0)
    await box.stop()
    last = await box.usage()
    assert last.cpu_s is None or last.cpu_s >= (after.cpu_s or 0)
    assert last.disk_bytes == sealed.disk_bytes


async def test_usage_tells_of_a_limit_that_was_met(driver: Driver) -> None:
    limits = Limits(memory_bytes=64 << 20, pids=20, disk_bytes=16 << 20)
    async with driver.start(SandboxSpec(limits=limits)) as box:
        await sh(box, "for i in 1 2 3 4 5; do for k in 1 2 3 4 5; do sleep 1000 & done; done >/dev/null 2>&1")
        await box.kill_processes()
        used = await box.usage()
        assert used.pids_limit_hits is None or used.pids_limit_hits >= 1
        assert used.oom_kills == 0
        await sh(box, "head -c 200000000 /dev/zero | tail -c 150000000 | wc -c", timeout_s=60)
        # An engine tells of it a moment later, and may do so twice.
        while (await box.usage()).oom_kills == 0:
            pass


async def test_usage_tells_of_throttling(driver: Driver) -> None:
    async with driver.start(SandboxSpec(limits=Limits(cpus=0.1))) as box:
        # On a busy machine the limit is not met at the first try.
        while (used := await box.usage()).cpu_throttled_s == 0:
            await out(box, "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done")
        assert (used.cpu_throttled_s is None) == (used.cpu_throttled_periods is None)
        assert used.cpu_throttled_periods is None or used.cpu_throttled_periods >= 1
