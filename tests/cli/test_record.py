"""`termarena record` as a person meets it: real shells on a terminal, and what reading gets out of the recording."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.person import PATIENCE_S, Person
from termarena.forge.reading import read
from termarena.sandbox.terminal import read_cast

if TYPE_CHECKING:
    from pathlib import Path

# The marks tell when a shell waits for the next line: no test has to guess.
AT_PROMPT = r"133;B"
PASSWORD = "hunter2-hunter2"  # noqa: S105 - typed blind, and looked for


def _type(person: Person, *lines: str) -> None:
    for line in lines:
        person.type(f"{line}\r")
        person.until(AT_PROMPT)


def _leave(person: Person, title: str) -> None:
    person.type("exit\r")
    person.until("as a title")
    person.type(f"{title}\r")
    person.until("forge read")
    assert person.process.wait(PATIENCE_S) == 0
    assert person.modes_now() == person.modes


@pytest.mark.parametrize(
    "shell",
    [
        pytest.param("bash", marks=pytest.mark.needs("bash")),
        pytest.param("zsh", marks=pytest.mark.needs("zsh")),
        pytest.param("fish", marks=pytest.mark.needs("fish")),
    ],
)
@pytest.mark.slow
def test_every_shell_marks_its_commands(tmp_path: Path, shell: str) -> None:
    path = tmp_path / "a.cast"
    lines = [
        "echo 'wörld; 100%'",
        "cd /tmp",
        "false",
        " echo spaced",
        "printf 'no newline'",
        "for i in 1 2; echo $i; end" if shell == "fish" else "for i in 1 2; do echo $i; done",
    ]
    with Person("record", str(path), "--shell", f"/usr/bin/{shell}", home=tmp_path / "home", cwd=tmp_path) as person:
        person.until(AT_PROMPT)
        _type(person, *lines)
        if shell != "fish":
            person.type("cat > note.txt <<'EOF'\r")
            person.type("  two words\r")
            _type(person, "EOF")
        _leave(person, "A few steps")
    found = read(path)
    assert found.title == "A few steps"
    texts = [command.text for command in found.commands]
    wanted = [line.strip() for line in lines] + (
        [] if shell == "fish" else ["cat > note.txt <<'EOF'\n  two words\nEOF"]
    )
    assert texts == [*wanted, "exit"]
    assert [command.exit_status for command in found.commands][:6] == [0, 0, 1, 0, 0, 0]
    assert [command.output for command in found.commands][:6] == ["wörld; 100%", "", "", "spaced", "no newline", "1\n2"]
    assert [command.cwd for command in found.commands][1:3] == [str(tmp_path), "/tmp"]  # noqa: S108 - where cd went
    assert {command.confidence for command in found.commands} == {1.0}


@pytest.mark.needs("bash")
def test_keys_are_recorded_on_request_and_passwords_never(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    with Person("record", str(path), "--input", "--v3", "--shell", "/bin/bash", home=tmp_path / "home") as person:
        person.until(AT_PROMPT)
        person.process.send_signal(signal.SIGSTOP)  # so that it finds both at once
        person.resize(100, 40)
        person.type("stty size; read -rsp 'Secret: ' word; echo got-$(( 40 + 2 ))\r")
        person.process.send_signal(signal.SIGCONT)
        person.until(r"40 100[\s\S]*Secret: ")
        person.type(f"{PASSWORD}\r")
        person.until("got-42")
        person.until(AT_PROMPT)
        _leave(person, "")
    cast = read_cast(path)
    assert PASSWORD not in path.read_text()
    assert "read -rsp" in cast.text("i")
    assert cast.text("r") == "100x40"
    assert next(event.code for event in cast.events if event.code in "ir") == "r"  # it was typed on the new size
    assert (cast.version, cast.cols, cast.rows, cast.text("x")) == (3, 90, 30, "0")
    assert "title" not in cast.header


@pytest.mark.needs("bash")
def test_what_was_recorded_stays_when_the_recorder_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    with Person("record", str(path), "--shell", "/bin/bash", home=tmp_path / "home") as person:
        person.until(AT_PROMPT)
        _type(person, "echo kept-$(( 40 + 2 ))")
        person.process.terminate()
        assert person.process.wait(PATIENCE_S) == 130
        assert person.modes_now() == person.modes
    assert "kept-42" in read_cast(path).text()
    assert [command.text for command in read(path).commands] == ["echo kept-$(( 40 + 2 ))"]


@pytest.mark.needs("bash")
def test_interrupts_and_empty_lines_are_no_commands(tmp_path: Path) -> None:
    path = tmp_path / "a.cast"
    with Person("record", str(path), "--shell", "/bin/bash", home=tmp_path / "home") as person:
        person.until(AT_PROMPT)
        person.type("echo never run")
        person.until("never run")
        person.interrupt()
        person.until(AT_PROMPT)
        _type(person, "", "echo run")
        _leave(person, "")
    assert [command.text for command in read(path).commands] == ["echo run", "exit"]


@pytest.mark.needs("bash")
def test_the_users_own_start_up_file_comes_first_and_their_history_is_left_alone(tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.write_text("echo older\n")
    (tmp_path / ".bashrc").write_text(
        f"PS1='mine> '\nHISTFILE={history}\nHISTCONTROL=ignoreboth\nalias hey='echo hi-there'\n"
    )
    path = tmp_path / "a.cast"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))
        patch.setenv("SHELL", "/bin/bash")
        with Person("record", str(path), home=tmp_path / "home") as person:
            person.until(r"mine> ")
            person.until(AT_PROMPT)
            person.type("hey\r")
            person.until("hi-there")
            person.until(AT_PROMPT)
            _type(person, " hey", "\x1b[A")
            _leave(person, "")
    assert [command.text for command in read(path).commands] == ["hey", "hey", "hey", "exit"]
    assert history.read_text() == "echo older\n"


@pytest.mark.needs("user-namespaces")
@pytest.mark.slow
def test_in_a_sandbox(tmp_path: Path) -> None:
    path, mine = tmp_path / "a.cast", tmp_path / "mine.txt"
    with Person("record", str(path), "--sandbox", "--title", "Inside", home=tmp_path / "home") as person:
        person.until(AT_PROMPT)
        _type(person, f"echo x > {mine} || echo refused", "hostname > /root/name", "cat /root/name")
        person.type("exit\r")
        person.until("forge read")
        assert person.process.wait(PATIENCE_S) == 0
    found = read(path)
    assert (found.title, found.commands[1].text, found.commands[1].exit_status) == (
        "Inside",
        "hostname > /root/name",
        0,
    )
    assert not mine.exists()


def test_what_cannot_be_recorded_is_said(tmp_path: Path) -> None:
    piped = termarena("record", str(tmp_path / "a.cast"), "--json")
    assert piped.returncode == 2
    assert "needs a terminal" in json.loads(piped.stderr.splitlines()[-1])["error"]["message"]
    (tmp_path / "old.cast").write_text("mine")
    with Person("record", str(tmp_path / "old.cast"), home=tmp_path / "home") as person:
        person.until("cannot record to")
        assert person.process.wait(PATIENCE_S) == 2
    assert (tmp_path / "old.cast").read_text() == "mine"


@pytest.mark.needs("bash")
def test_a_recorded_shell_is_not_recorded_again(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERMARENA_RECORDING", "1")
        with Person("record", str(tmp_path / "a.cast"), home=tmp_path / "home") as person:
            person.until("recorded already")
            assert person.process.wait(PATIENCE_S) == 2
    assert not (tmp_path / "a.cast").exists()
