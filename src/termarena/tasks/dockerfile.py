"""A small parser for Dockerfiles, after BuildKit's rules for continuations, here-documents, flags and variables.

It never fails: a line that is no instruction stays in the list under the name it bears, for a rule to report.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Copy", "Dockerfile", "Heredoc", "Instruction", "Stage", "parse_dockerfile"]

_INSTRUCTIONS = """
ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME
WORKDIR
"""
KNOWN = frozenset(_INSTRUCTIONS.split())
_WITH_HEREDOCS = frozenset({"ADD", "COPY", "RUN"})
_DIRECTIVE = re.compile(r"#[ \t]*([A-Za-z]+)[ \t]*=[ \t]*(\S+)[ \t]*")
_FLAG = re.compile(r"--([a-z][a-z-]*)(?:=(\S*))?(?:\s+|$)")
# A word of its own: BuildKit takes `<<EOF` and `<<-"EOF"`, but neither `<< EOF` nor `cat<<EOF`.
_HEREDOC = re.compile(r"\d*<<(-?)([^<]+)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?([-+])([^{}]*))?\}|(\w+))")
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*'|["'\\])+""", re.DOTALL)
_ASSIGNMENT = re.compile(r"""([A-Za-z_]\w*)=("(?:[^"\\]|\\.)*"|'[^']*'|(?:[^\s"'\\]|\\.)*)""", re.DOTALL)


class Heredoc(NamedTuple):
    """The lines of a here-document, and where they begin."""

    name: str
    body: str
    line: int
    is_closed: bool = True


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: continuation lines joined by a space, flags set apart, the rest as written."""

    name: str
    """In capitals. An ONBUILD instruction bears the name of the one it holds."""
    value: str
    line: int
    flags: dict[str, str] = field(default_factory=dict)
    heredocs: tuple[Heredoc, ...] = ()
    is_onbuild: bool = False

    def json_words(self) -> list[str] | None:
        """The arguments of the JSON form, or None when this is not that form."""
        if not self.value.startswith("["):
            return None
        try:
            words = json.loads(self.value)
        except (ValueError, RecursionError):
            return None
        return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None

    def words(self) -> list[str]:
        """The arguments, from either form, without quotes."""
        listed = self.json_words()
        return [_unquoted(word) for word in _WORD.findall(self.value)] if listed is None else listed

    def script(self) -> str:
        """What a RUN hands to the shell: its line, and the bodies of its here-documents."""
        return "\n".join([self.value, *(heredoc.body for heredoc in self.heredocs)])

    def assignments(self) -> dict[str, str]:
        """The names that ENV or ARG sets; an ARG without a default has the value "" ."""
        found = {name: _unquoted(value) for name, value in _ASSIGNMENT.findall(self.value)}
        if self.name == "ENV" and not found and len(parts := self.value.split(None, 1)) > 1:
            return {parts[0]: parts[1]}
        return found or ({self.value: ""} if self.name == "ARG" and self.value.isidentifier() else {})


class Copy(NamedTuple):
    """A COPY or ADD with its arguments apart; `sources` leaves out here-documents."""

    sources: tuple[str, ...]
    destination: str
    instruction: Instruction

    @property
    def is_from_context(self) -> bool:
        """Whether it takes from the build context, and not from another stage or image."""
        return "from" not in self.instruction.flags


@dataclass(slots=True)
class Stage:
    """What follows one FROM."""

    image: str
    """With the variables that are known filled in; or the name of an earlier stage."""
    name: str | None
    instruction: Instruction
    instructions: list[Instruction] = field(default_factory=list)

    def copies(self) -> list[Copy]:
        """Its COPY and ADD instructions, with the variables of the stage filled in."""
        values: dict[str, str] = {}
        found = []
        for instruction in self.instructions:
            if instruction.name in ("ENV", "ARG"):
                values.update(instruction.assignments())
            elif instruction.name in ("COPY", "ADD"):
                words = [substituted(word, values) for word in instruction.words()]
                sources = tuple(word for word in words[:-1] if not word.startswith("<<"))
                found.append(Copy(sources, words[-1] if words else "", instruction))
        return found

    def last(self, name: str) -> Instruction | None:
        """The last instruction of this name."""
        return next((i for i in reversed(self.instructions) if i.name == name and not i.is_onbuild), None)

    def workdir(self) -> str:
        """Where the stage ends up; `/` if it never says."""
        place = "/"
        for instruction in self.instructions:
            if instruction.name == "WORKDIR" and not instruction.is_onbuild:
                place = posixpath.join(place, _unquoted(instruction.value.strip()))
        return posixpath.normpath(place)


@dataclass(slots=True)
class Dockerfile:
    """A parsed Dockerfile."""

    instructions: list[Instruction]
    stages: list[Stage]

    @property
    def image_stages(self) -> list[Stage]:
        """The last stage and those it is built upon with FROM: whatever they copy is in the image."""
        found = self.stages[-1:]
        while found and (below := next((s for s in self.stages if s.name and s.name == found[0].image.lower()), None)):
            if below in found:
                break
            found.insert(0, below)
        return found


def parse_dockerfile(text: str) -> Dockerfile:
    """Parse; whatever the text, in time linear in its length."""
    lines = text.removeprefix("\ufeff").split("\n")
    escape = _escape(lines)
    instructions = []
    number = 0
    while number < len(lines):
        found, number = _instruction(lines, number, escape)
        if found is not None:
            instructions.append(found)
    return Dockerfile(instructions, _stages(instructions))


def substituted(text: str, values: dict[str, str]) -> str:
    """The text with the variables that are known filled in; others stay as they stand."""
    if "$" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        known = values.get(match[1] or match[4])
        if match[2] == "+":
            return match[3] if known else ""
        return known or (match[3] if match[2] else match[0])

    return _VARIABLE.sub(value, text)


def _escape(lines: list[str]) -> str:
    for line in lines:
        match = _DIRECTIVE.fullmatch(line.strip())
        if match is None:
            return "\\"
        if match[1].lower() == "escape" and match[2] == "`":
            return "`"
    return "\\"


def _instruction(lines: list[str], number: int, escape: str) -> tuple[Instruction | None, int]:
    """The instruction that begins at this line, if one does, and the number of the line after it."""
    start = number + 1
    parts: list[str] = []
    while number < len(lines):
        line = lines[number].rstrip("\r \t")
        number += 1
        bare = line.lstrip()
        if not bare or bare.startswith("#"):
            if not parts:
                return None, number
            continue
        if not line.endswith(escape):
            parts.append(bare)
            break
        parts.append(line[:-1].strip())
    return _built(" ".join(parts), start, lines, number)


def _built(logical: str, line: int, lines: list[str], number: int) -> tuple[Instruction | None, int]:
    name, _, value = logical.strip().partition(" ")
    if not name:
        return None, number
    if "\t" in name:
        name, _, value = logical.strip().partition("\t")
    value = value.strip()
    is_onbuild = name.upper() == "ONBUILD"
    if is_onbuild:
        name, _, value = value.partition(" ")
        value = value.strip()
    heredocs: list[Heredoc] = []
    if name.upper() in _WITH_HEREDOCS and "<<" in value:
        for match in filter(None, map(_HEREDOC.fullmatch, _WORD.findall(value))):
            heredoc, number = _heredoc(_unquoted(match[2]), lines, number, strips_tabs=bool(match[1]))
            heredocs.append(heredoc)
    flags, value = _flags(value)
    return Instruction(name.upper(), value, line, flags, tuple(heredocs), is_onbuild), number


def _heredoc(name: str, lines: list[str], number: int, *, strips_tabs: bool) -> tuple[Heredoc, int]:
    start = number
    while number < len(lines):
        line = lines[number].rstrip("\r")
        number += 1
        if (line.lstrip("\t") if strips_tabs else line) == name:
            return Heredoc(name, "\n".join(lines[start : number - 1]), start + 1), number
    return Heredoc(name, "\n".join(lines[start:]), start + 1, is_closed=False), number


def _flags(value: str) -> tuple[dict[str, str], str]:
    flags: dict[str, str] = {}
    place = 0
    while match := _FLAG.match(value, place):
        flags[match[1]] = match[2] or ""
        place = match.end()
    return flags, value[place:] if place else value


def _stages(instructions: list[Instruction]) -> list[Stage]:
    stages: list[Stage] = []
    values: dict[str, str] = {}
    for instruction in instructions:
        if instruction.name == "FROM" and not instruction.is_onbuild:
            words = instruction.words()
            image = substituted(words[0], values) if words else ""
            named = len(words) > 2 and words[1].lower() == "as"  # noqa: PLR2004 - image, AS, name
            stages.append(Stage(image, words[2].lower() if named else None, instruction))
        elif stages:
            stages[-1].instructions.append(instruction)
        elif instruction.name == "ARG":
            values.update(instruction.assignments())
    return stages


def _unquoted(word: str) -> str:
    if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'":
        return word[1:-1]
    return word
