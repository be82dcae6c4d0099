"""Command lines as far as reading them tells: their programs, what they name, and whether they change anything.

A guess from words, made for reading what an agent did; nothing is decided or graded by it.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Effect", "Line", "read_line"]

Effect = Literal["look", "change", "idle"]
"""What a command is for: to see something, to do something, or neither."""

QUIET_TARGETS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "&1", "&2")
_BORDER: Final = frozenset((";", "&&", "||", "|", "|&", "&", "\n", ";;", "(", ")"))
_REDIRECTION: Final = re.compile(r"^(?:\d*|&)>>?\|?$")
_OPTION: Final = re.compile(r"-|\d+(?:\.\d+)?[smhd]?$")
_ASSIGNMENT: Final = re.compile(r"^[A-Za-z_]\w*\+?=")
_HEREDOC: Final = re.compile(r"<<-?\s*+(['\"]?)(\w++)\1.*?^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_NAMES_SOMETHING: Final = re.compile(r"(?!-|/\w*$|(?:install|update|build|run|start|add)$)\S{2,}$")
LONGEST_READ: Final = 20_000


class _Programs(NamedTuple):
    """`programs.json`: what programs are for, as their names tell."""

    looking: frozenset[str]
    idle: frozenset[str]
    asking: frozenset[str]
    """Their failure is an answer, not an error."""
    wrapping: frozenset[str]
    """They run the program that follows."""
    keywords: frozenset[str]
    writing_words: dict[str, tuple[str, ...]]
    """Words that make a looking program write."""


@cache
def _programs() -> _Programs:
    told = json.loads((resources.files(__package__) / "programs.json").read_text())
    writing = {program: tuple(words) for program, words in told.pop("writing_words").items()}
    return _Programs(**{name: frozenset(words) for name, words in told.items()}, writing_words=writing)


@dataclass(frozen=True, slots=True)
class Line:
    """What one command line says."""

    programs: tuple[str, ...]
    """By their names, without folders."""
    objects: frozenset[str]
    """Words that name something: paths also by their last part, addresses, names."""
    effect: Effect
    is_question: bool
    """It ends with a program whose failure is an answer."""


def read_line(text: str) -> Line:
    """Read a command line, however long or broken; one that cannot be read is taken for a change."""
    shown = _HEREDOC.sub(" ", text[:LONGEST_READ])
    try:
        words = list(_words(shown))
    except ValueError:  # an open quote
        words = shown.split()
    effect: Effect
    found = list(_commands(words))
    commands = [command for command in found if command.words]
    if not commands:
        effect = "change" if any(command.writes for command in found) else "idle"
        return Line((), frozenset(), effect, is_question=False)
    effects = [command.effect for command in commands]
    effect = "change" if "change" in effects else "look" if "look" in effects else "idle"
    objects = frozenset(name for command in commands for name in command.objects())
    programs = tuple(command.program for command in commands)
    return Line(programs, objects, effect, is_question=programs[-1] in _programs().asking)


@dataclass(slots=True)
class _Command:
    words: list[str]
    writes: list[str]
    """What redirections name."""

    @property
    def program(self) -> str:
        return PurePosixPath(self.words[0]).name or self.words[0]

    @property
    def effect(self) -> Effect:
        if any(not target.startswith(QUIET_TARGETS) for target in self.writes):
            return "change"
        program = self.program
        if program in _programs().idle:
            return "idle"
        if program not in _programs().looking:
            return "look" if _asks_about_itself(self.words) else "change"
        writing = _programs().writing_words.get(program, ())
        return "change" if any(word.startswith(writing) for word in self.words[1:]) else "look"

    def objects(self) -> Iterator[str]:
        if self.program in ("cd", "pushd", "for"):
            return
        for word in (*self.words[0 if "/" in self.words[0] else 1 :], *self.writes):
            if _NAMES_SOMETHING.match(word) and not word.startswith(QUIET_TARGETS):
                yield word
                yield PurePosixPath(word).name


def _asks_about_itself(words: list[str]) -> bool:
    return len(words) == 2 and words[1] in ("--version", "-V", "--help", "-h", "version", "help")  # noqa: PLR2004


def _words(text: str) -> Iterator[str]:
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";|&()<>\n")
    lexer.whitespace = " \t\r"
    lexer.commenters = ""
    lexer.whitespace_split = True
    return iter(lexer)


def _commands(words: list[str]) -> Iterator[_Command]:
    """Simple commands, with what they redirect to; wrappers, keywords and assignments before a program are left out."""
    known = _programs()
    command = _Command([], [])
    target_of: str | None = None
    is_wrapped = False
    for word in words:
        if target_of is not None:
            if ">" in target_of:
                command.writes.append(word)
            target_of = None
        elif word in _BORDER or set(word) <= {";", "\n", "&", "|", "(", ")"}:
            yield command
            command = _Command([], [])
        elif _REDIRECTION.match(word) or word in ("<", "<<", "<<<", ">&", "<&", "&>", "&>>"):
            if command.words and command.words[-1].isdigit() and len(command.words) > 1:
                command.words.pop()
            target_of = word if word not in (">&", "<&") else "<"
        elif command.words or not (
            word in known.keywords or _ASSIGNMENT.match(word) or (is_wrapped and _OPTION.match(word))
        ):
            is_wrapped = not command.words and word in known.wrapping
            command.words += [] if is_wrapped else [word]
    yield command
