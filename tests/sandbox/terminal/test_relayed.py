"""A driver that holds the terminal elsewhere and has only a socket to give: no process groups, no modes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from termarena.sandbox.terminal import TerminalOptions, open_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from termarena.sandbox import ExecResult, PtyProcess, Sandbox
    from termarena.sandbox.terminal import Terminal


class RelayedPty:
    """A terminal behind a socket."""

    def __init__(self, real: PtyProcess) -> None:
        self._real = real
        self._ours, self._theirs = socket.socketpair()
        for end in (self._ours, self._theirs):
            end.settimeout(0)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(real.master_fd, self._outwards)
        self._loop.add_reader(self._ours, self._inwards)

    def _outwards(self) -> None:
        with contextlib.suppress(BlockingIOError):
            try:
                self._ours.send(os.read(self._real.master_fd, 4096))
            except OSError as error:
                if isinstance(error, BlockingIOError):
                    raise
                self._stop()

    def _inwards(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if data := self._ours.recv(1024):
                os.write(self._real.master_fd, data)
            else:
                self._stop()

    def _stop(self) -> None:
        if self._ours.fileno() >= 0:
            self._loop.remove_reader(self._real.master_fd)
            self._loop.remove_reader(self._ours)
            self._ours.close()

    @property
    def master_fd(self) -> int:
        return self._theirs.fileno()

    @property
    def pid(self) -> int:
        return self._real.pid

    def resize(self, cols: int, rows: int) -> None:
        self._real.resize(cols, rows)

    async def wait(self) -> ExecResult:
        return await self._real.wait()

    async def kill(self) -> None:
        await self._real.kill()

    def close(self) -> None:
        self._stop()
        self._theirs.close()
        self._real.close()


def relay(box: Sandbox, patch: pytest.MonkeyPatch) -> None:
    """From now on the sandbox's terminals are behind sockets."""
    real = box.open_pty

    async def open_pty(argv: Sequence[str], **how: Any) -> RelayedPty:  # noqa: ANN401 - handed through
        return RelayedPty(await real(argv, **how))

    patch.setattr(box, "open_pty", open_pty)


@pytest.fixture
async def relayed(box: Sandbox, shell: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Terminal]:
    relay(box, monkeypatch)
    options = TerminalOptions(shell_argv=(shell,))
    async with open_terminal(box, options) as terminal:
        yield terminal


async def test_commands(relayed: Terminal) -> None:
    assert (await relayed.run("echo a; (exit 3)")).exit_status == 3
    assert (await relayed.run("echo $?")).text == "3\n"
    relayed.resize(100, 30)
    assert (await relayed.run("stty size")).text == "30 100\n"


async def test_timeout(relayed: Terminal, box: Sandbox) -> None:
    await box.write("/root/deaf", b"#!/bin/sh\ntrap '' INT\nwhile :; do sleep 60; done\n", mode=0o755)
    assert (await relayed.run("/root/deaf", timeout_s=0.2)).timed_out
    assert (await relayed.run("echo next")).text == "next\n"


async def test_broken_modes(relayed: Terminal) -> None:
    await relayed.run("stty raw -echo")
    assert (await relayed.run("echo x")).output == b"x\r\n"


async def test_wait_idle(relayed: Terminal) -> None:
    relayed.type_text("true\n")
    await relayed.wait_idle()
