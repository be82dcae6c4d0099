"""How a command line ends: statuses, and what is said on which stream."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from running import termarena
from termarena.cli import main as main_module
from termarena.cli.main import LazyCommand, main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A sub-command `broken` whose way of failing is its argument."""
    (tmp_path / "broken_command.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(main_module.COMMANDS, "broken", LazyCommand("broken_command", "Fail."))
    return "broken"


BROKEN = """
import os, signal, typer
from termarena.cli.output import JsonOption, print_line
from termarena.core.errors import TaskFormatError
app = typer.Typer(rich_markup_mode=None, add_completion=False)

@app.command()
def fail(how: str, *, json: JsonOption = False) -> None:
    if how == "task":
        raise TaskFormatError("task.toml", field="id", found="7", expected="text", hint="write it in quotes")
    if how == "defect":
        raise RuntimeError("first line\\nsecond line")
    if how == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)
    if how == "exit":
        raise typer.Exit(3)
    print_line("done")
"""


def test_an_error_of_ours_is_told_with_its_hint(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([broken, "task"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "error: task.toml: id: found 7; expected text\nhint: write it in quotes\n"


def test_with_json_an_error_is_one_object_on_stderr(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([broken, "task", "--json"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert json.loads(told.err) == {
        "error": {
            "kind": "TaskFormatError",
            "message": "task.toml: id: found 7; expected text",
            "hint": "write it in quotes",
            "file": "task.toml",
            "field": "id",
            "found": "7",
            "expected": "text",
        }
    }


def test_a_defect_is_one_line_and_the_way_to_the_traceback(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([broken, "defect"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: unexpected RuntimeError: first line second line",
        "hint: run again with --debug for the traceback: termarena --debug broken defect",
    ]


def test_debug_shows_the_traceback(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--debug", broken, "defect"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last):")
    assert 'raise RuntimeError("first line\\nsecond line")' in told
    assert told.splitlines()[-1] == "error: unexpected RuntimeError: first line second line"


def test_an_interrupt_is_130(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([broken, "interrupt"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_command_may_choose_its_status(broken: str) -> None:
    assert main([broken, "exit"]) == 3


def test_success_is_zero_and_silent_on_stderr(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([broken, "well"]) == 0
    assert capsys.readouterr() == ("done\n", "")


@pytest.mark.parametrize(
    ("arguments", "message", "path"),
    [
        (["doctoor"], "No such command 'doctoor'. Did you mean 'doctor'?", "termarena"),
        (["--verbose"], "No such option: --verbose (Possible options: --version)", "termarena"),
        (["doctor", "--dockr"], "No such option: --dockr (Possible options: --docker)", "termarena doctor"),
        (["doctor", "now"], "Got unexpected extra argument(s) (now)", "termarena doctor"),
    ],
)
def test_a_usage_error_is_2_with_the_way_to_the_help(arguments: list[str], message: str, path: str) -> None:
    done = termarena(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"error: {message}", f"hint: see {path} --help"]


def test_a_usage_error_is_json_too() -> None:
    done = termarena("docter", "--json")
    assert done.returncode == 2
    assert json.loads(done.stderr)["error"]["kind"] == "UsageError"
    assert (
        json.loads(termarena("settings", "--json", "nothing").stderr)["error"]["message"]
        == "No such command 'nothing'."
    )


def test_a_json_flag_after_two_dashes_is_somebody_elses() -> None:
    assert termarena("docter", "--", "--json").stderr.startswith("error: ")


@pytest.mark.parametrize("arguments", [["--help"], ["settings"], ["settings", "--json"]])
def test_a_reader_that_leaves_is_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "termarena", *arguments]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)  # noqa: S603
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def _on_a_terminal(*arguments: str, **environment: str) -> bytes:
    """What a command writes to a terminal 80 columns wide."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "termarena", *arguments]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", **environment}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=env) as process:  # noqa: S603
        os.close(theirs)
        written = b"".join(iter(lambda: _read(ours), b""))
        assert process.wait() == 0
    os.close(ours)
    return written


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux says EIO when the other side is gone
        return b""


def test_colour_is_for_terminals_only() -> None:
    assert b"\x1b[" in _on_a_terminal("settings")
    assert b"\x1b[3" not in _on_a_terminal("settings", NO_COLOR="1")
    assert "\x1b" not in termarena("settings").stdout


def test_a_name_that_is_not_utf8_does_not_crash_the_output(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102 - a name that pathlib could not be given
    done = termarena("settings", env={"TERMARENA_HOME": os.fsdecode(folder)})
    assert done.returncode == 0
    assert "caf\\udce9" in done.stdout


def test_the_output_survives_a_terminal_without_unicode(tmp_path: Path) -> None:
    done = termarena("settings", env={"TERMARENA_HOME": str(tmp_path / "é"), "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "\\xe9" in done.stdout


def test_json_is_json_in_every_encoding(tmp_path: Path) -> None:
    home = tmp_path / "é\x9b"
    done = termarena("settings", "--json", env={"TERMARENA_HOME": str(home), "PYTHONIOENCODING": "ascii"})
    assert json.loads(done.stdout)["settings"]["paths.home"]["value"] == str(home)
