"""`termarena shell` as a person meets it: on a terminal of their own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Self

import pytest

from running import termarena
from support.folders import harbor
from termarena.sandbox.terminal import read_cast

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 60
pytestmark = pytest.mark.needs("user-namespaces")


class Person:
    """A person at a terminal of 90x30 who has typed `termarena shell …`."""

    def __init__(self, *arguments: str, home: Path) -> None:
        self.master, self._slave = pty.openpty()
        self._resize(90, 30)
        self.modes = termios.tcgetattr(self._slave)
        self.seen = ""
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "termarena", "shell", *arguments],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**os.environ, "TERMARENA_HOME": str(home), "TERM": "xterm"},
            start_new_session=True,
        )

    def _resize(self, cols: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def resize(self, cols: int, rows: int) -> None:
        self._resize(cols, rows)
        self.process.send_signal(signal.SIGWINCH)

    def until(self, pattern: str) -> str:
        """Read until the pattern has come; what came before it is forgotten."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < deadline, self.seen
            if select.select([self.master], [], [], 0.5)[0]:
                self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
        self.seen = self.seen[found.end() :]
        return found[0]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def modes_now(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)


def test_a_session(tmp_path: Path) -> None:
    with Person("--record", str(tmp_path / "a.cast"), home=tmp_path / "home") as person:
        person.until(r"leave it with exit[^\n]*\n")
        person.until(r"[#$] ")
        assert person.modes_now() != person.modes
        person.type("stty size; id -un\r")
        person.until(r"30 90\r\nroot")
        person.resize(100, 40)
        person.type("stty size\r")
        person.until(r"40 100")
        person.type("sh -c 'echo up-$((40+2)); exec sleep 60'\r")
        person.until(r"up-42")  # the program itself says that it runs; the line as typed does not
        person.type("\x03")
        person.type("exit 7\r")
        person.until(r"ended with status 7")
        assert person.process.wait(PATIENCE_S) == 0
        assert person.modes_now() == person.modes
    cast = read_cast(tmp_path / "a.cast")
    assert (cast.cols, cast.rows) == (90, 30)
    assert "40 100" in cast.text()
    assert cast.text("r") == "100x40"
    assert cast.text("i") == ""


def test_a_task(tmp_path: Path) -> None:
    with Person("ledger-bug", "--record", str(tmp_path / "a.cast"), "--record-input", home=tmp_path / "home") as person:
        person.until(r"ledger-bug\r\n")
        person.until(r"[#$] ")
        person.type("pwd; ls /app | wc -l; ls -d /tmp/env* /tests /solution\r")
        person.until(r"/app\r\n[1-9]")
        for missing in ("/tmp/env", "/tests", "/solution"):  # noqa: S108 - what is looked for
            person.until(rf"{missing}[^\n]*No such file")
        person.type("exit\r")
        assert person.process.wait(PATIENCE_S) == 0
    assert "exit\r" in read_cast(tmp_path / "a.cast").text("i")


@pytest.mark.needs("docker")
def test_an_image(tmp_path: Path) -> None:
    with Person("--image", "debian:bookworm", "--shell", "/bin/sh", home=tmp_path / "home") as person:
        person.until(r"\(docker\); leave it")
        person.until(r"# ")
        person.type("stty size\r")
        person.until(r"30 90")
        person.type("exit\r")
        assert person.process.wait(PATIENCE_S) == 0


def test_the_terminal_is_put_back_when_the_program_is_ended(tmp_path: Path) -> None:
    with Person(home=tmp_path / "home") as person:
        person.until(r"[#$] ")
        person.type("printf '\\033[?1000h'\r")
        person.until(r"\x1b\[\?1000h")
        person.process.terminate()
        person.until(r"\x1b\[\?1000l")
        assert person.process.wait(PATIENCE_S) == 130
        assert person.modes_now() == person.modes


def test_without_a_terminal() -> None:
    done = termarena("shell")
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--root", "/no/such/root"], "/no/such/root"),
        (["--driver", "magic"], "namespace"),
        (["hello-world", "--root", "host"], "one root"),
        (["no-such-task"], "no-such-task"),
        (["--record", "/proc/nothing.cast"], "cannot record to /proc/nothing.cast"),
    ],
)
def test_what_cannot_be(tmp_path: Path, arguments: list[str], message: str) -> None:
    with Person(*arguments, home=tmp_path / "home") as person:
        person.until(re.escape(message))
        assert person.process.wait(PATIENCE_S) == 2
        assert person.modes_now() == person.modes


@pytest.mark.needs("docker")
def test_a_task_in_a_container(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "task")
    (folder / "environment/Dockerfile").write_text("FROM debian:bookworm\nWORKDIR /app\nCOPY note /app/note\n")
    (folder / "environment/note").write_text("from the context")
    with Person(str(folder), "--driver", "docker", home=tmp_path / "home") as person:
        person.until(r"Write 1 to /app/one.txt")
        person.until(r"\(docker\); leave it with exit[^\n]*\n")
        person.until(r"[#$] ")
        person.type("pwd; cat note; ls -d /tests /solution; echo $((6 * 7))\r")
        person.until(r"/app\r\nfrom the context")
        person.until(r"42\r\n")
        person.type("exit\r")
        person.until(r"ended with status")
        assert person.process.wait(PATIENCE_S) == 0
