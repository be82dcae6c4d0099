"""Commands: what every driver promises about exec, processes and limits."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from sandbox.support import READY, cut_off, has, out, read_until, sh
from termarena.core.errors import CapabilityMissing, NotFound, SandboxBroken, SandboxFileError, TerminalSizeError
from termarena.sandbox import Driver, Feature, Limits, Sandbox, SandboxSpec

MIB = 1 << 20


async def test_output_is_byte_exact_and_apart(box: Sandbox) -> None:
    result = await sh(box, r"printf 'out\000\377'; printf 'err\001' >&2")
    assert (result.stdout, result.stderr, result.exit_status) == (b"out\x00\xff", b"err\x01", 0)
    assert (result.stdout_bytes, result.stderr_bytes) == (5, 4)
    assert not result.stdout_truncated


async def test_no_newline_is_added(box: Sandbox) -> None:
    assert (await sh(box, "printf x")).stdout == b"x"


async def test_no_output_is_no_bytes(box: Sandbox) -> None:
    result = await box.exec(["true"])
    assert (result.stdout, result.stderr, result.exit_status) == (b"", b"", 0)


@pytest.mark.parametrize("status", [0, 1, 2, 42, 124, 126, 127, 137, 255])
async def test_exit_status_passes_through(box: Sandbox, status: int) -> None:
    result = await sh(box, f"exit {status}")
    assert (result.exit_status, result.timed_out, result.oom_killed, result.signal) == (status, False, False, None)


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "ABRT", "HUP"])
async def test_end_by_signal_is_told(box: Sandbox, name: str) -> None:
    number = int(getattr(signal, f"SIG{name}"))
    result = await sh(box, f"kill -{name} $$")
    assert (result.exit_status, result.signal) == (128 + number, number)


async def test_missing_program_is_127(box: Sandbox) -> None:
    result = await box.exec(["no-such-program"])
    assert result.exit_status == 127
    assert b"no-such-program" in result.stderr


async def test_program_without_permission_is_126(box: Sandbox) -> None:
    await box.write("/root/data", b"text", mode=0o644)
    assert (await box.exec(["/root/data"])).exit_status == 126


async def test_script_without_interpreter_line_runs_in_sh(box: Sandbox) -> None:
    await box.write("/root/script", b"echo from $0\n", mode=0o755)
    assert (await box.exec(["/root/script"])).stdout == b"from /root/script\n"


async def test_arguments_are_not_interpreted(box: Sandbox) -> None:
    words = ["$HOME", "*", "a b", "", "-n", "'\"\\", "new\nline", "ü"]
    result = await box.exec(["printf", "%s|", *words])
    assert result.stdout.decode() == "|".join(words) + "|"


async def test_long_argument(box: Sandbox) -> None:
    result = await box.exec(["printf", "%s", "x" * 100_000])
    assert result.stdout_bytes == 100_000


@pytest.mark.parametrize("argv", [[], ["a\0b"]])
async def test_impossible_command_is_refused(box: Sandbox, argv: list[str]) -> None:
    with pytest.raises(ValueError, match="word"):
        await box.exec(argv)


async def test_binary_stdin(box: Sandbox) -> None:
    content = bytes(range(256)) * 4000
    assert (await box.exec(["cat"], stdin=content)).stdout == content


async def test_no_stdin_is_an_empty_one(box: Sandbox) -> None:
    assert (await box.exec(["cat"], timeout_s=10)).stdout == b""


async def test_stdin_that_nobody_reads(box: Sandbox) -> None:
    assert (await box.exec(["true"], stdin=bytes(4 * MIB), timeout_s=10)).exit_status == 0


async def test_a_million_lines(box: Sandbox) -> None:
    result = await box.exec(["seq", "1000000"])
    assert result.stdout_bytes == 6_888_896
    assert result.stdout.endswith(b"\n1000000\n")


async def test_output_cap_keeps_the_beginning_and_counts_all(box: Sandbox) -> None:
    result = await box.exec(["seq", "1000000"], max_output_bytes=1000)
    assert len(result.stdout) == 1000
    assert result.stdout.startswith(b"1\n2\n3\n")
    assert (result.stdout_bytes, result.stdout_truncated) == (6_888_896, True)


async def test_output_tail_keeps_the_end_too(box: Sandbox) -> None:
    result = await box.exec(["seq", "1000000"], max_output_bytes=1000, tail_bytes=2000)
    assert (len(result.stdout), len(result.stdout_tail)) == (1000, 2000)
    assert result.stdout.startswith(b"1\n2\n3\n")
    assert result.stdout_tail.endswith(b"\n999999\n1000000\n")
    assert (result.stdout_bytes, result.stdout_truncated) == (6_888_896, True)


async def test_output_tail_repeats_nothing_of_the_beginning(box: Sandbox) -> None:
    result = await box.exec(["printf", "abcdefgh"], max_output_bytes=5, tail_bytes=100)
    assert (result.stdout, result.stdout_tail) == (b"abcde", b"fgh")
    assert not result.stdout_truncated


async def test_environment_is_clean(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMARENA_TEST_SECRET", "hidden")
    names = {line.partition("=")[0] for line in (await out(box, "env")).splitlines()}
    assert names == {"PATH", "HOME", "USER", "LOGNAME", "LANG", "PWD"}


async def test_environment_of_spec_and_call(driver: Driver) -> None:
    async with driver.start(SandboxSpec(env={"A": "spec", "B": "spec"})) as box:
        result = await box.exec(["sh", "-c", "echo $A $B $C"], env={"B": "call", "C": "new\nline"})
        assert result.stdout == b"spec call new line\n"


async def test_working_folder(box: Sandbox) -> None:
    assert (await box.exec(["pwd"])).stdout == b"/root\n"
    assert (await box.exec(["pwd"], cwd="/usr/bin")).stdout == b"/usr/bin\n"


async def test_working_folder_of_spec_is_made(driver: Driver) -> None:
    async with driver.start(SandboxSpec(workdir="/srv/deep/er")) as box:
        assert (await box.exec(["pwd"])).stdout == b"/srv/deep/er\n"


async def test_missing_working_folder(box: Sandbox) -> None:
    with pytest.raises(SandboxFileError, match="/nowhere"):
        await box.exec(["pwd"], cwd="/nowhere")


async def test_hostname(driver: Driver) -> None:
    async with driver.start(SandboxSpec(hostname="arena")) as box:
        assert await out(box, "uname -n") == "arena"


async def test_users(driver: Driver, box: Sandbox) -> None:
    assert await out(box, "id -u") == "0"
    if not has(driver, Feature.USERS):
        with pytest.raises(CapabilityMissing, match="other than root"):
            await box.exec(["id"], user="nobody")
        return
    assert await out(box, "id -un; id -gn; echo $HOME", user="user") == "user\nuser\n/home/user"
    assert await out(box, "id -u; id -g", user="4321:99") == "4321\n99"
    assert (await sh(box, "echo x > /etc/passwd", user="user")).exit_status != 0


async def test_unknown_user(driver: Driver, box: Sandbox) -> None:
    with pytest.raises(NotFound if has(driver, Feature.USERS) else CapabilityMissing):
        await box.exec(["id"], user="nobody-has-this-name")


async def test_required_user_is_checked_before_start(driver: Driver) -> None:
    spec = SandboxSpec(requires=frozenset({Feature.SERVICES}))
    if has(driver, Feature.SERVICES):
        pytest.skip("this driver has everything")
    with pytest.raises(CapabilityMissing, match=r"several services.*docker"):
        async with driver.start(spec):
            raise AssertionError("started")


async def test_user_of_the_spec(driver: Driver) -> None:
    if not has(driver, Feature.USERS):
        with pytest.raises(CapabilityMissing, match="user user"):
            async with driver.start(SandboxSpec(user="user")):
                raise AssertionError("started")
        return
    async with driver.start(SandboxSpec(user="user")) as box:
        await box.write("/home/user/mine", b"")
        assert await out(box, "id -un; stat -c %U mine; pwd") == "user\nuser\n/home/user"


async def test_timeout_keeps_partial_output(box: Sandbox) -> None:
    started = time.monotonic()
    script = f"echo begun; echo bad >&2; : >{READY}; sleep 600; echo never"
    result = await cut_off(box, lambda limit_s: sh(box, script, timeout_s=limit_s), timeout_s=0.3)
    assert (result.exit_status, result.timed_out, result.stdout, result.stderr) == (124, True, b"begun\n", b"bad\n")
    assert time.monotonic() - started < 60


async def test_timeout_lets_a_command_clean_up(box: Sandbox) -> None:
    script = f"trap 'echo cleaned; exit 3' TERM; : >{READY}; while :; do sleep 0.05; done"
    result = await cut_off(box, lambda limit_s: sh(box, script, timeout_s=limit_s), timeout_s=0.3)
    assert (result.exit_status, result.timed_out, result.stdout) == (124, True, b"cleaned\n")


async def test_timeout_of_a_command_that_ignores_sigterm(box: Sandbox) -> None:
    script = f"trap '' TERM; echo deaf; : >{READY}; while :; do sleep 0.05; done"
    result = await cut_off(box, lambda limit_s: sh(box, script, timeout_s=limit_s), timeout_s=0.2)
    assert (result.timed_out, result.stdout, result.signal) == (True, b"deaf\n", signal.SIGKILL)
    assert await box.processes() == ()


async def test_timeout_reaches_daemons(box: Sandbox) -> None:
    script = "setsid sh -c 'trap \"\" TERM; (sleep 61 &) ; sleep 62' & (setsid sleep 63 &) ; sleep 64"
    result = await sh(box, script, timeout_s=0.5)
    assert result.timed_out
    assert await box.processes() == ()


async def test_timeout_spares_other_commands(box: Sandbox) -> None:
    await sh(box, "setsid sleep 65 >/dev/null 2>&1 &")
    assert (await sh(box, "sleep 66", timeout_s=0.2)).timed_out
    assert [process.argv for process in await box.processes()] == [("sleep", "65")]


async def test_daemon_outlives_its_command(box: Sandbox) -> None:
    result = await sh(box, "(while :; do echo alive; sleep 0.01; done) & echo started")
    assert result.exit_status == 0
    assert result.stdout.startswith((b"started", b"alive"))
    # It writes to a pipe that its command left: a closed one would kill it within a few of these.
    await sh(box, "sleep 0.1")
    assert any("while" in " ".join(process.argv) for process in await box.processes())


async def test_kill_processes(box: Sandbox) -> None:
    await sh(box, "setsid sh -c 'trap \"\" TERM; sleep 67' & sleep 68 & nohup sleep 69 >/dev/null 2>&1 &")
    assert await box.kill_processes() >= 3
    assert await box.processes() == ()
    assert (await box.exec(["true"])).exit_status == 0


async def test_processes_are_listed(box: Sandbox) -> None:
    await sh(box, "sleep 70 >/dev/null 2>&1 &")
    while (found := await box.processes())[0].argv != ("sleep", "70"):
        assert len(found) == 1
    assert (found[0].uid, len(found)) == (0, 1)


async def test_cancel_ends_the_command(box: Sandbox) -> None:
    running = asyncio.create_task(sh(box, "touch /root/begun; sleep 71 & sleep 72", timeout_s=None))
    while (await sh(box, "test -e /root/begun")).exit_status != 0:
        pass
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await box.processes() == ()
    assert (await box.exec(["true"])).exit_status == 0


async def test_stopped_mid_command(driver: Driver) -> None:
    async with driver.start(SandboxSpec()) as box:
        running = asyncio.create_task(sh(box, "sleep 73", timeout_s=None))
        while not await box.processes():
            pass
        await box.stop()
        with pytest.raises(SandboxBroken):
            await running
        assert not box.is_alive
        with pytest.raises(SandboxBroken):
            await box.exec(["true"])
        with pytest.raises(SandboxBroken):
            await box.read("/etc/passwd")


async def test_commands_run_side_by_side(box: Sandbox) -> None:
    results = await asyncio.gather(*(sh(box, f"echo {number}; sleep 0.2; echo {number}") for number in range(10)))
    assert [result.stdout for result in results] == [f"{number}\n{number}\n".encode() for number in range(10)]


async def test_fifty_sandboxes_at_once(driver: Driver) -> None:
    async def one(number: int) -> bytes:
        async with driver.start(SandboxSpec(hostname=f"box{number}")) as box:
            await box.write("/root/mine", str(number).encode())
            await sh(box, "sleep 0.2")
            return (await sh(box, "uname -n; cat /root/mine")).stdout

    found = await asyncio.gather(*(one(number) for number in range(50)))
    assert found == [f"box{number}\n{number}".encode() for number in range(50)]


async def test_memory_hog_is_killed_and_told(driver: Driver) -> None:
    if not has(driver, Feature.MEMORY_LIMIT):
        pytest.skip("no memory limit")
    async with driver.start(SandboxSpec(limits=Limits(memory_bytes=64 * MIB))) as box:
        script = "import time\nkeep=[bytearray(1<<20) for _ in range(400)]\ntime.sleep(60)"
        result = await box.exec(["/usr/bin/python3", "-c", script], timeout_s=30)
        assert result.oom_killed
        assert (result.exit_status, result.timed_out) == (137, False)
        after = await box.exec(["true"])
        assert (after.exit_status, after.oom_killed) == (0, False)


async def test_killed_without_memory_limit_is_no_memory_kill(box: Sandbox) -> None:
    result = await sh(box, "kill -9 $$")
    assert (result.exit_status, result.oom_killed) == (137, False)


async def test_fork_bomb_is_contained(driver: Driver) -> None:
    async with driver.start(SandboxSpec(limits=Limits(pids=40))) as box:
        # One fork only by the shell that waits: the bomb may already have taken every place when a second is due.
        result = await sh(box, "sh -c 'bomb() { bomb | bomb & }; bomb' & exec sleep 60", timeout_s=1)
        assert result.timed_out
        assert (await box.exec(["true"])).exit_status == 0
        assert await box.processes() == ()


async def test_process_limit_holds(driver: Driver) -> None:
    async with driver.start(SandboxSpec(limits=Limits(pids=20))) as box:
        await sh(box, "for i in $(seq 60); do sleep 74 & done", timeout_s=10)
        assert 5 < len(await box.processes()) <= 20


async def test_cpu_limit(driver: Driver) -> None:
    if not has(driver, Feature.CPU_LIMIT):
        with pytest.raises(CapabilityMissing):
            async with driver.start(SandboxSpec(requires=frozenset({Feature.CPU_LIMIT}))):
                pass
        return
    async with driver.start(SandboxSpec(limits=Limits(cpus=0.25))) as box:
        script = "import time\nend=time.process_time()+0.2\nwhile time.process_time()<end: pass"
        result = await box.exec(["/usr/bin/python3", "-c", script])
        assert result.duration_s > 0.5


async def test_disk_full(driver: Driver) -> None:
    async with driver.start(SandboxSpec(limits=Limits(disk_bytes=8 * MIB))) as box:
        result = await sh(box, "head -c 20000000 /dev/zero > /root/big")
        assert result.exit_status != 0
        assert b"No space left" in result.stderr
        assert 7 * MIB < int(await out(box, "stat -c %s /root/big")) <= 8 * MIB
        with pytest.raises(SandboxFileError, match="No space left"):
            await box.write("/root/more", bytes(9 * MIB))
        assert await out(box, "rm /root/*; echo fine") == "fine"


async def test_wall_time_ends_the_sandbox(driver: Driver) -> None:
    async with driver.start(SandboxSpec(limits=Limits(wall_s=0.5))) as box:
        with pytest.raises(SandboxBroken, match="wall time"):
            await sh(box, "sleep 60", timeout_s=None)
        assert not box.is_alive


async def test_many_long_requests_at_once(box: Sandbox) -> None:
    """More than the control socket holds: every sender that has to wait for room is woken."""
    word = "x" * 50_000
    results = await asyncio.gather(*(box.exec(["sh", "-c", f"echo {number}", word]) for number in range(60)))
    assert [result.stdout for result in results] == [f"{number}\n".encode() for number in range(60)]


async def test_stop_twice(driver: Driver) -> None:
    async with driver.start(SandboxSpec()) as box:
        await box.stop()
        await box.stop()


async def test_terminal_process(box: Sandbox) -> None:
    pty = await box.open_pty(["sh", "-c", "tty; stty size; read x; stty size; exit 5"], cols=100, rows=40)
    try:
        seen = await read_until(pty.master_fd, b"40 100")
        assert b"/dev/pts/0" in seen
        pty.resize(120, 50)
        os.write(pty.master_fd, b"go\n")
        await read_until(pty.master_fd, b"50 120")
        assert (await pty.wait()).exit_status == 5
    finally:
        pty.close()


async def test_terminal_interrupt_and_kill(box: Sandbox) -> None:
    pty = await box.open_pty(["sh", "-c", "trap 'echo got-int' INT; echo up; while :; do sleep 0.05; done"])
    try:
        await read_until(pty.master_fd, b"up")
        os.write(pty.master_fd, b"\x03")
        await read_until(pty.master_fd, b"got-int")
        await pty.kill()
        assert (await pty.wait()).signal == signal.SIGKILL
        assert await box.processes() == ()
    finally:
        pty.close()


@pytest.mark.parametrize(("cols", "rows"), [(0, 0), (80, 0), (-1, 24), (70_000, 24)])
async def test_terminal_of_no_size(box: Sandbox, cols: int, rows: int) -> None:
    with pytest.raises(TerminalSizeError, match=f"{cols}x{rows}") as caught:
        await box.open_pty(["sh"], cols=cols, rows=rows)
    assert "80x24" in (caught.value.hint or "")
