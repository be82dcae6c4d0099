"""What a session needs around it: programs and their packages, and the files that were there before it began."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.forge.steps import Role, files_of
from termarena.shell.effects import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.forge.steps import Step

__all__ = ["InputFile", "Installed", "commands_of", "inputs_shown", "installed_by"]

LONGEST_INPUT: Final = 64 << 10
HEAD_LINES: Final = 10
"""What `head` and `tail` show; of a file with fewer lines, all."""
_BUILTINS: Final = frozenset(
    """
    cd pushd popd export declare typeset local readonly unset alias unalias set shopt umask source . hash trap eval echo
    printf test [ [[ true false : type command builtin read exit return break continue shift let wait jobs kill times
    exec mapfile readarray getopts ulimit pwd dirs history help bg fg disown
    """.split()  # noqa: SIM905 - a table that people read
)
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the start state, as the recording shows it."""

    path: str
    content: str


def commands_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """The programs that the solution and its inputs call by name, and Python, which the tests are written in."""
    kept = [step for step in steps if step.role in (Role.SOLVE, Role.ANSWER, Role.INPUT)]
    words = [simple.bare for step in kept for simple in step.line.simples]
    named = {one[0] for one in words if one and "/" not in one[0]}
    defined = {name for step in kept for name in step.line.functions}
    found = {name for name in named if _PROGRAM.fullmatch(name) and name not in _BUILTINS | defined}
    return tuple(sorted(found | {"bash", "python3"}))


@dataclass(frozen=True, slots=True)
class Installed:
    """Packages that a session installed itself: part of the image, not of the solution."""

    debian: tuple[str, ...] = ()
    python: tuple[str, ...] = ()


def installed_by(steps: Iterable[Step]) -> Installed:
    """What `apt-get install` and `pip install` of a session brought."""
    debian: set[str] = set()
    python: set[str] = set()
    calls = [simple.bare for step in steps if step.effect is Effect.REACHES for simple in step.line.simples]
    for words in calls:
        names = [word for word in words[2:] if _PROGRAM.fullmatch(word.partition("==")[0])]
        if words[:1] and words[0] in ("apt", "apt-get", "aptitude") and "install" in words:
            debian.update(name for name in names if name != "install")
        elif words[:2] in (("pip", "install"), ("pip3", "install")):
            python.update(names)
    return Installed(tuple(sorted(debian)), tuple(sorted(python)))


def inputs_shown(steps: Sequence[Step]) -> tuple[InputFile, ...]:
    """Files that the session reads before anything made them, where it shows all of their text."""
    made: set[str] = set()
    names: set[str] = set()
    found: dict[str, InputFile] = {}
    for step in steps:
        shown = _shown_file(step)
        if shown is not None and shown not in made and posixpath.basename(shown) not in names and shown not in found:
            found[shown] = InputFile(shown, _text_of(step.output))
        made.update(files_of(step))
        if step.effect is Effect.CHANGES:
            names.update(_mentioned(step))
    return tuple(found.values())


def _shown_file(step: Step) -> str | None:
    """The one file whose whole text a command printed."""
    if not step.line.is_plain or step.exit_status not in (0, None) or not step.output.strip():
        return None
    words = step.line.simples[0].words
    if len(words) != 2 or words[1].startswith("-"):  # noqa: PLR2004 - the program and one file
        return None
    is_whole = words[0] == "cat" or (words[0] in ("head", "tail") and step.output.count("\n") < HEAD_LINES)
    if not is_whole:
        return None
    if "No such file" in step.output or len(step.output) > LONGEST_INPUT:
        return None
    return posixpath.normpath(posixpath.join(step.cwd, words[1]))


def _text_of(output: str) -> str:
    return "\n".join(line.rstrip() for line in output.replace("\r\n", "\n").rstrip("\n").split("\n")) + "\n"


def _mentioned(step: Step) -> set[str]:
    return {posixpath.basename(word) for word in re.split(r"[\s'\"=;|&<>()]+", step.text) if word}
