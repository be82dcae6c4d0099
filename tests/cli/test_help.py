"""The overview: what it says, what it must not import to say it, and completion in real shells."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from running import termarena
from support.pages import Block, problems_of
from termarena import __version__
from termarena.cli.main import COMMANDS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Slow to import, and needed by no one who only asks what there is.
HEAVY = {"asyncio", "httpx", "pydantic", "pydantic_core", "rich", "rtoml", "tomli", "tomllib", "yaml"}
# Counted beyond those of a bare interpreter: 119 on Python 3.11, 120 on 3.12, 121 on 3.13, with Typer 0.29.
MODULES_CEILING = 125

COUNT = """
import sys
before = set(sys.modules)
from termarena.cli.main import main
status = main(sys.argv[1:])
imported = sorted(set(sys.modules) - before)
import json
sys.stderr.write(json.dumps([status, imported]))
"""


def _modules_of(*arguments: str) -> set[str]:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", COUNT, *arguments], capture_output=True, text=True, check=True
    )
    status, modules = json.loads(done.stderr)
    assert status == 0
    return set(modules)


def test_help_lists_every_command_on_stdout() -> None:
    done = termarena("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name, command in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert command.help in done.stdout


def test_version() -> None:
    done = termarena("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"termarena {__version__}\n", "")


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_the_overview_imports_little(flag: str) -> None:
    modules = _modules_of(flag)
    assert HEAVY & modules == set()
    assert len(modules) <= MODULES_CEILING
    assert {command.module for command in COMMANDS.values()} & modules == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_imports_little_and_is_plain(name: str) -> None:
    assert HEAVY & _modules_of(name, "--help") == set()
    done = termarena(name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: termarena {name} ")
    assert "╭" not in done.stdout


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer keeps its classes private
    below = getattr(command, "commands", {})
    yield from (found for name in sorted(below) for found in _commands(below[name], f"{path} {name}"))
    if not below:
        yield path, command


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_could_be_typed_and_json(name: str) -> None:
    for path, command in _commands(get_command(import_module(COMMANDS[name].module).app), f"termarena {name}"):
        examples = re.findall(r"^(termarena .+)$", cleandoc(command.help), re.MULTILINE)
        assert [line for line in examples if line.startswith(path)], path
        assert [problem for line in examples for problem in problems_of(Block(1, "sh", line, None, ""))] == []
        assert path == "termarena shell" or any("--json" in option.opts for option in command.params), path


def _helps(command: Any, path: str) -> Iterator[tuple[str, Any, str]]:  # noqa: ANN401 - as above
    context = command.context_class(command, info_name=path, terminal_width=80)
    yield path, command, context.get_help()
    for name, below in getattr(command, "commands", {}).items():
        yield from _helps(below, f"{path} {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_what_is_to_be_typed_and_cuts_nothing(name: str) -> None:
    for path, command, told in _helps(get_command(import_module(COMMANDS[name].module).app), f"termarena {name}"):
        assert re.findall(r"<(?:str|int|float|path|file|list|bool)\b.*", told) == [], path
        assert re.findall(r"\[\[|\{|\w,?\.\.\.$", told.removeprefix("Usage: ")) == [], path
        said = " ".join(told.split())
        for below in getattr(command, "commands", {}).values():
            assert " ".join(below.help.partition("\n\n")[0].split()) in said, path


def test_a_command_of_the_table_stands_below_one_heading() -> None:
    told = termarena("--help").stdout
    assert [told.count(f"\n{title}:\n") for title in SECTIONS] == [1] * len(SECTIONS)
    assert sum(map(len, SECTIONS.values())) == len(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_the_overview_is_cut(name: str) -> None:
    assert len(COMMANDS[name].help) <= 62
    assert COMMANDS[name].help.endswith(".")


@pytest.mark.parametrize("name", ["list", "show", "validate", "convert", "digest"])
def test_every_command_that_loads_tasks_can_be_strict_and_says_what_that_is(name: str) -> None:
    told = " ".join(termarena("tasks", name, "--help").stdout.split())
    assert "--strict / --no-strict Every warning of the loader is an error." in told


def test_nothing_asked_shows_the_help_as_a_usage_error() -> None:
    done = termarena()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: termarena ")


@pytest.fixture
def shell_path(tmp_path: Path) -> str:
    """A PATH on which `termarena` is a command, as completion scripts expect."""
    command = tmp_path / "bin" / "termarena"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m termarena "$@"\n')
    command.chmod(0o755)
    return f"{command.parent}:/usr/local/bin:/usr/bin:/bin"


def _in_shell(shell: str, script: str, path: str) -> str:
    done = subprocess.run(  # noqa: S603 - the shell under test
        ["/usr/bin/env", f"PATH={path}", *shell.split(), script], capture_output=True, text=True, check=True
    )
    return done.stdout


BASH = """
eval "$(termarena --show-completion)"
COMP_WORDS=(termarena {typed}); COMP_CWORD={position}
_termarena_completion termarena
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.needs("bash")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "position", "expected"),
    [
        ("''", 1, [*COMMANDS]),
        ("d", 1, ["datasets", "doctor", "docs"]),
        ("settings ''", 2, ["path"]),
        ("doctor --do", 2, ["--docker"]),
    ],
)
def test_bash_completes(shell_path: str, typed: str, position: int, expected: list[str]) -> None:
    found = _in_shell("bash --norc -c", BASH.format(typed=typed, position=position), shell_path)
    assert found.split() == expected


@pytest.mark.needs("fish")
@pytest.mark.slow
def test_fish_completes(shell_path: str) -> None:
    script = "termarena --show-completion | source; complete -C 'termarena d'"
    lines = _in_shell("fish --no-config -c", script, shell_path).splitlines()
    assert lines == [f"{name}\t{COMMANDS[name].help}" for name in ("datasets", "docs", "doctor")]


ZSH = """
autoload -Uz compinit && compinit -D
eval "$(termarena --show-completion)"
_arguments() { printf '%s\\n' "$@" }
words=(termarena d); CURRENT=2
_termarena_completion
"""


@pytest.mark.needs("zsh")
@pytest.mark.slow
def test_zsh_completes(shell_path: str) -> None:
    offered = _in_shell("zsh -f -c", ZSH, shell_path)
    assert '"datasets":' in offered
    assert '"doctor":' in offered
    assert '"tasks":' not in offered


@pytest.mark.needs("bash")
@pytest.mark.slow
def test_completion_installs_into_the_shells_own_files(shell_path: str, tmp_path: Path) -> None:
    script = f"export HOME={tmp_path}; termarena --install-completion; source {tmp_path}/.bashrc; complete -p termarena"
    told = _in_shell("bash --norc -c", script, shell_path)
    assert told.splitlines()[-1] == "complete -o default -F _termarena_completion termarena"
