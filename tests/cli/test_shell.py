"""`termarena shell` as a person meets it: on a terminal of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.folders import harbor
from support.person import PATIENCE_S, Person
from termarena.sandbox.terminal import read_cast

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("user-namespaces")


def test_a_session(tmp_path: Path) -> None:
    with Person("shell", "--record", str(tmp_path / "a.cast"), home=tmp_path / "home") as person:
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
    with Person(
        "shell", "ledger-bug", "--record", str(tmp_path / "a.cast"), "--record-input", home=tmp_path / "home"
    ) as person:
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
    with Person("shell", "--image", "debian:bookworm", "--shell", "/bin/sh", home=tmp_path / "home") as person:
        person.until(r"\(docker\); leave it")
        person.until(r"# ")
        person.type("stty size\r")
        person.until(r"30 90")
        person.type("exit\r")
        assert person.process.wait(PATIENCE_S) == 0


def test_the_terminal_is_put_back_when_the_program_is_ended(tmp_path: Path) -> None:
    with Person("shell", home=tmp_path / "home") as person:
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
    with Person("shell", *arguments, home=tmp_path / "home") as person:
        person.until(re.escape(message))
        assert person.process.wait(PATIENCE_S) == 2
        assert person.modes_now() == person.modes


@pytest.mark.needs("docker")
def test_a_task_in_a_container(tmp_path: Path) -> None:
    folder = harbor(tmp_path / "task")
    (folder / "environment/Dockerfile").write_text("FROM debian:bookworm\nWORKDIR /app\nCOPY note /app/note\n")
    (folder / "environment/note").write_text("from the context")
    with Person("shell", str(folder), "--driver", "docker", home=tmp_path / "home") as person:
        person.until(r"Write 1 to /app/one.txt")
        person.until(r"\(docker\); leave it with exit[^\n]*\n")
        person.until(r"[#$] ")
        person.type("pwd; cat note; ls -d /tests /solution; echo $((6 * 7))\r")
        person.until(r"/app\r\nfrom the context")
        person.until(r"42\r\n")
        person.type("exit\r")
        person.until(r"ended with status")
        assert person.process.wait(PATIENCE_S) == 0
