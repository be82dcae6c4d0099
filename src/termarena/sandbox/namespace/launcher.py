"""The harness's side of the fork server: starts it once and asks it for sandboxes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from termarena.core.errors import SandboxStartError
from termarena.sandbox.namespace.inside import wire

__all__ = ["Launched", "Launcher"]

# The path arrives as a first packet: an argument would show in the sandbox's list of processes.
BOOTSTRAP: Final = "import os,sys;sys.path[:0]=[os.read(0,4096).decode()];from inside import zygote;zygote.main()"
ANSWER_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Launched:
    """A process 1 that is assembling its sandbox: the socket to it, and a pidfd; the receiver owns both."""

    control: socket.socket
    pidfd: int
    pid: int


class Launcher:
    """One fork server, started when first needed; it ends with `close`, or with the harness."""

    def __init__(self) -> None:
        """Starts nothing yet."""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def ensure(self) -> None:
        """Start the fork server unless it runs; call this from the thread that outlives all sandboxes.

        The kernel ties the parent-death signal to the thread that forked, so it is asked for in the main thread only;
        elsewhere the closing of the socket has to do.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_TIMEOUT_S)
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

    def launch(self, plan: dict[str, Any], fds: tuple[int, ...]) -> Launched:
        """Ask for one sandbox; blocks for some milliseconds. Raises `SandboxStartError`."""
        answer = self._ask({"op": "start", "plan": plan}, fds)
        control, pidfd = answer.fds
        return Launched(socket.socket(fileno=control), pidfd, answer.message["pid"])

    def remove(self, folder: Path, ids: dict[str, Any]) -> int:
        """Have a folder removed by a process that may; a pidfd of that process, which the caller closes.

        Raises `SandboxStartError`.
        """
        return self._ask({"op": "remove", "path": str(folder), "ids": ids}, ()).fds[0]

    def _ask(self, request: dict[str, Any], fds: tuple[int, ...]) -> wire.Received:
        with self._lock:
            if self._socket is None:
                raise SandboxStartError("the fork server has been closed")
            try:
                wire.send(self._socket, request, fds)
                answer = wire.receive(self._socket)
            except OSError as error:
                raise SandboxStartError(f"the fork server does not answer: {error}") from error
        if answer is None:
            raise SandboxStartError("the fork server has ended")
        if "problem" in answer.message:
            raise SandboxStartError(
                f"the kernel refused a sandbox: {answer.message['problem']}", hint="run: termarena doctor"
            )
        return answer

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
