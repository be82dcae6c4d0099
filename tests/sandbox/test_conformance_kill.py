"""Ending processes that hold out: what every driver promises about timeouts, `kill_processes` and `seal`."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from sandbox.support import cut_off, read_until, sh

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox import ExecResult, Sandbox
    from termarena.sandbox.contract import PtyProcess

IN_VFORK = """
import os
os.path.exists('/root/fifo') or os.mkfifo('/root/fifo')
print('begun', flush=True)
open('/root/ready', 'w').close()
actions = [(os.POSIX_SPAWN_OPEN, 0, '/root/fifo', os.O_RDONLY, 0)]
os.posix_spawn('/bin/true', ['true'], {}, file_actions=actions)
"""
"""It stays in the middle of `vfork`: its child waits for a writer before it executes anything."""

TRACED = """
import ctypes, os, signal, time
if os.fork() == 0:
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
print('begun', flush=True)
open('/root/ready', 'w').close()
time.sleep(600)
"""

FIRST_THREAD_ENDS = """
import ctypes, platform, threading, time
def go_on():
    n = 0
    while True:
        n += 1
        with open('/root/n', 'w') as out:
            out.write(f'{n:012}')
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall({'x86_64': 60}.get(platform.machine(), 93), 0)
"""
"""Its state is that of a zombie, and it works."""

NAMELESS = """
import ctypes, time
ctypes.CDLL(None).prctl(15, b'\\xff\\xfe', 0, 0, 0)
print('begun', flush=True)
open('/root/ready', 'w').close()
time.sleep(600)
"""

CHAIN = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    if (fork()) _exit(0);
    setsid();
    int out = open("/root/n", O_CREAT | O_WRONLY, 0644);
    for (long n = 0;; n++) {
        if (fork()) _exit(0);
        if (n % 20 == 0) {
            char text[32];
            pwrite(out, text, sprintf(text, "%012ld", n), 0);
        }
    }
}
"""
"""Every process of it forks the next and ends, faster than anyone can read a list of processes."""


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder: Path = tmp_path_factory.mktemp("chain")
    (folder / "chain.c").write_text(CHAIN)
    subprocess.run(["gcc", "-O2", "-static", "-o", "chain", "chain.c"], cwd=folder, check=True)  # noqa: S607 - a tool of the test machine
    return (folder / "chain").read_bytes()


async def _until_counting(box: Sandbox) -> None:
    while (await sh(box, "test -s /root/n")).exit_status != 0:
        pass


async def _counts(box: Sandbox) -> bool:
    before = await box.read("/root/n")
    await sh(box, "sleep 0.1")
    return await box.read("/root/n") != before


async def _cut_off(box: Sandbox, program: str) -> ExecResult:
    return await cut_off(box, lambda limit_s: box.exec(["python3", "-c", program], timeout_s=limit_s), timeout_s=1)


async def test_timeout_inside_vfork(box: Sandbox) -> None:
    result = await _cut_off(box, IN_VFORK)
    assert (result.timed_out, result.stdout) == (True, b"begun\n")
    assert await box.processes() == ()


async def test_timeout_of_a_traced_process(box: Sandbox) -> None:
    result = await _cut_off(box, TRACED)
    assert (result.timed_out, result.stdout) == (True, b"begun\n")
    assert await box.processes() == ()


async def test_timeout_of_a_process_with_a_strange_name(box: Sandbox) -> None:
    result = await _cut_off(box, NAMELESS)
    assert (result.timed_out, result.stdout) == (True, b"begun\n")
    assert await box.processes() == ()


async def test_kill_of_a_process_whose_first_thread_has_ended(box: Sandbox) -> None:
    await sh(box, f'python3 -c "{FIRST_THREAD_ENDS}" >/dev/null 2>&1 &')
    await _until_counting(box)
    assert len(await box.processes()) == 1
    assert await box.kill_processes() == 1
    assert not await _counts(box)


async def test_timeout_of_a_process_whose_first_thread_has_ended(box: Sandbox) -> None:
    result = await sh(box, f'python3 -c "{FIRST_THREAD_ENDS}" >/dev/null 2>&1 & sleep 60', timeout_s=1)
    assert result.timed_out
    assert not await _counts(box)


@pytest.mark.needs("gcc")
async def test_kill_of_a_chain_of_processes(box: Sandbox, chain: bytes) -> None:
    await box.write("/root/chain", chain, mode=0o755)
    for _ in range(3):
        await sh(box, ": >/root/n; /root/chain >/dev/null 2>&1")
        await _until_counting(box)
        await box.kill_processes()
        assert not await _counts(box)


# A race by nature: the processes of one command are found by looking, and a chain forks while that is done.
@pytest.mark.soak
@pytest.mark.needs("gcc")
async def test_timeout_of_a_chain_of_processes(box: Sandbox, chain: bytes) -> None:
    await box.write("/root/chain", chain, mode=0o755)
    for _ in range(3):
        result = await sh(box, ": >/root/n; /root/chain >/dev/null 2>&1; exec sleep 60", timeout_s=0.5)
        assert result.timed_out
        assert await box.read("/root/n")
        assert not await _counts(box)


ON_A_TERMINAL = "set -m; sh -c 'echo up; exec sleep 60'; echo went on >>/root/log"
"""With job control a shell sees that its job was stopped, and then does what comes next."""
SKIP_NUMBERS = "n=$(((14 - $$ % 8) % 8)); while [ $n != 0 ]; do true & n=$((n - 1)); done; wait"
"""The second process that begins after it has a multiple of eight as its number: with that a set of numbers begins."""


async def _on_a_terminal(box: Sandbox) -> PtyProcess:
    """A shell that waits for its job."""
    await sh(box, SKIP_NUMBERS)
    pty = await box.open_pty(["sh", "-c", ON_A_TERMINAL])
    await read_until(pty.master_fd, b"up")
    return pty


async def test_a_shell_on_a_terminal_that_is_killed_goes_on_with_nothing(box: Sandbox) -> None:
    for _ in range(5):
        pty = await _on_a_terminal(box)
        await pty.kill()
        pty.close()
    assert (await box.exec(["cat", "/root/log"])).stdout == b""


async def test_a_shell_on_a_terminal_does_not_go_on_when_it_was_held(box: Sandbox) -> None:
    for _ in range(5):
        pty = await _on_a_terminal(box)
        await box.freeze()
        await box.thaw()
        await pty.kill()
        pty.close()
    assert (await box.exec(["cat", "/root/log"])).stdout == b""
