"""What a session needs around it: programs, and the files that were there before it began."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

from termarena.forge.showing import InputFile, shown_by
from termarena.forge.steps import Role, files_of
from termarena.shell.effects import Effect
from termarena.shell.lines import parse_line
from termarena.shell.wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from termarena.forge.steps import Step

__all__ = ["BUILTINS", "commands_of", "commands_within", "inputs_shown"]

BUILTINS: Final = frozenset(
    """
    cd pushd popd export declare typeset local readonly unset alias unalias set shopt umask source . hash trap eval echo
    printf test [ [[ true false : type command builtin read exit return break continue shift let wait jobs kill times
    exec mapfile readarray getopts ulimit pwd dirs history help bg fg disown
    """.split()  # noqa: SIM905 - a table that people read
)
MOST_LINES: Final = 2000
_SCRIPT: Final = re.compile(r"#!/\S*(?:/env )?(?:ba|da)?sh\b(.*?)(?:\n(?:END|EOF)\b|\Z)", re.DOTALL)
_COMPILERS: Final = {"CC": "cc", "CXX": "c++"}
_COMPILER: Final = re.compile(r"\$[({](CC|CXX)[)}]")
_COMPILED: Final = {"c": "cc", "cpp": "c++", "cc": "c++"}
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")


def commands_of(steps: Iterable[Step]) -> tuple[str, ...]:
    """The programs that the solution and its inputs call by name, and Python, which the tests are written in."""
    kept = _kept(steps)
    words = [unwrapped(simple.words, through_xargs=True).words for step in kept for simple in step.line.simples]
    named = {one[0] for one in words if one and "/" not in one[0]}
    defined = {name for step in kept for name in step.line.functions}
    found = {name for name in named if _PROGRAM.fullmatch(name) and name not in BUILTINS | defined}
    fetches = {"git"} if any(step.role is Role.FETCHED for step in kept) else set()
    return tuple(sorted(found | fetches | {"bash", "python3"}))


def _kept(steps: Iterable[Step]) -> list[Step]:
    return [step for step in steps if step.role in (Role.SOLVE, Role.ANSWER, Role.INPUT, Role.FETCHED)]


def commands_within(steps: Iterable[Step], inputs: Iterable[InputFile], *, by_make: bool) -> set[str]:
    """Programs that scripts and recipes of make seem to call which the session wrote or showed: for an image, more is
    harmless. make compiles C and C++ without being told how."""
    texts = "\n".join([*(step.text for step in _kept(steps)), *(given.content for given in inputs)])
    plain = texts.replace("\\n", "\n").replace("\\t", "\t")
    lines = [line.strip() for script in _SCRIPT.findall(plain) for line in script.splitlines()]
    if by_make:
        lines += [line.strip().lstrip("@-") for line in plain.splitlines() if line.startswith("\t")]
    parsed = [parse_line(_COMPILER.sub(lambda found: _COMPILERS[found[1]], line)) for line in lines[:MOST_LINES]]
    named = {simple.bare[0] for line in parsed if line.is_sound for simple in line.simples if simple.bare}
    return named | {name for suffix, name in _COMPILED.items() if by_make and re.search(rf"\w\.{suffix}\b", plain)}


def inputs_shown(steps: Sequence[Step]) -> tuple[InputFile, ...]:
    """Files that the session reads before anything made them, where it shows all of their text."""
    made: set[str] = set()
    names: set[str] = set()
    found: dict[str, InputFile] = {}
    for step in steps:
        for shown in shown_by(step):
            if shown.path not in made and posixpath.basename(shown.path) not in names:
                found.setdefault(shown.path, shown)
        made.update(files_of(step))
        if step.effect is Effect.CHANGES:
            names.update(_mentioned(step))
    return tuple(found.values())


def _mentioned(step: Step) -> set[str]:
    return {posixpath.basename(word) for word in re.split(r"[\s'\"=;|&<>()]+", step.text) if word}
