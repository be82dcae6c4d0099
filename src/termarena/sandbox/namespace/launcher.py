"""The harness's side of the fork server: starts it once and asks it for sandboxes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from termarena.core.errors import SandboxStartError
from termarena.sandbox.descriptors import until_readable
from termarena.sandbox.namespace.inside import wire

__all__ = ["Launched", "Launcher"]

# The path arrives as a first packet: an argument would show in the sandbox's list of processes.
BOOTSTRAP: Final = "import os,sys;sys.path[:0]=[os.read(0,4096).decode()];from inside import zygote;zygote.main()"
ANSWER_TIMEOUT_S: Final = 30.0
FULL_PAUSE_S: Final = 0.002
"""Before a request is sent again for which there was no room."""
STOP_TIMEOUT_S: Final = 5.0


@dataclass(slots=True)
class Launched:
    """A process 1 that waits to hear what it is to be; the receiver owns the descriptors."""

    pid: int
    pidfd: int
    is_born: bool
    """Whether it is in the cgroup that was given."""
    shift_fd: int | None
    """The user namespace with the ids of sandboxes, where folders can be lent with them."""


class Launcher:
    """One fork server, started when first needed; it ends with `close`, or with the harness."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def ensure(self) -> None:
        """Start the fork server unless it runs; call this from the thread that outlives all sandboxes.

        The kernel ties the parent-death signal to the thread that forked, so it is asked for in the main thread only;
        elsewhere the closing of the socket has to do.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(0)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program with fixed arguments
                [sys.executable, "-I", "-S", "-c", BOOTSTRAP], stdin=theirs.fileno(), env={}, start_new_session=True
            )
        except OSError as error:
            ours.close()
            raise SandboxStartError(f"the fork server could not be started: {error}") from error
        finally:
            theirs.close()
        ours.send(os.fsencode(Path(__file__).parent))
        is_main = threading.current_thread() is threading.main_thread()
        wire.send(ours, {"parent": os.getpid() if is_main else None})
        self._socket = ours

    async def until_answered(self, control: socket.socket) -> None:
        """Wait until `answer` need not. Raises `SandboxStartError`."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await until_readable(control.fileno())
        except TimeoutError as error:
            raise _mute(error) from error

    def answer(self, control: socket.socket) -> Launched:
        """What was asked for. Blocks until it is there; raises `SandboxStartError`."""
        control.settimeout(ANSWER_TIMEOUT_S)
        answer = _answer(control)
        pidfd, *shift = answer.fds
        return Launched(answer.message["pid"], pidfd, answer.message["is_born"], shift[0] if shift else None)

    def remove(self, folder: Path, ids: dict[str, Any]) -> int:
        """Have a folder removed by a process that may; a pidfd of that process, which the caller closes.

        Blocks for some milliseconds. Raises `SandboxStartError`.
        """
        give_up = time.monotonic() + ANSWER_TIMEOUT_S
        while (answers := self.try_asking({"op": "remove", "path": str(folder), "ids": ids}, ())) is None:
            if time.monotonic() > give_up:
                raise _mute(TimeoutError("no room for a request"))
            time.sleep(FULL_PAUSE_S)
        with answers:
            answers.settimeout(ANSWER_TIMEOUT_S)
            return _answer(answers).fds[0]

    def try_asking(self, request: dict[str, Any], fds: tuple[int, ...]) -> socket.socket | None:
        """Send a request; where its answer will come, or None if there is no room for it now.

        An ordinary user can have only so many descriptors on their way at once (ETOOMANYREFS).
        """
        server = self._socket
        if server is None:
            raise SandboxStartError("the fork server has been closed")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                wire.send(server, request, (theirs.fileno(), *fds))
            except OSError as error:
                ours.close()
                if error.errno in (errno.EAGAIN, errno.ETOOMANYREFS):
                    return None
                raise _mute(error) from error
        return ours

    def close(self) -> None:
        """End the fork server and with it every sandbox it made."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGKILL)
                self._process.wait()
            self._process = None


def _mute(error: OSError) -> SandboxStartError:
    return SandboxStartError(f"the fork server does not answer: {error}")


def _answer(answers: socket.socket) -> wire.Received:
    """What the fork server says to a request; raises `SandboxStartError`."""
    try:
        answer = wire.receive(answers)
    except OSError as error:
        raise _mute(error) from error
    if answer is None:
        raise SandboxStartError("the fork server has ended")
    if "problem" in answer.message:
        raise SandboxStartError(
            f"the kernel refused a sandbox: {answer.message['problem']}", hint="run: termarena doctor"
        )
    return answer
