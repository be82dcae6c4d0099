"""Dockerfiles as steps: BuildKit's own parser, then every instruction, flag and argument checked before anything runs.

What is not supported is an error that names the line; nothing is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import BuildError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Heredoc", "Instruction", "Recipe", "Stage", "names_folder", "parse_recipe", "parse_trigger", "refuse"]

FLAGS: Final[Mapping[str, frozenset[str]]] = {
    "FROM": frozenset({"platform"}),
    "RUN": frozenset({"mount", "network"}),
    "COPY": frozenset({"from", "chown", "chmod", "link"}),
    "ADD": frozenset({"chown", "chmod", "checksum", "link"}),
    "HEALTHCHECK": frozenset({"interval", "timeout", "start-period", "start-interval", "retries"}),
}
ONE_OR_MORE: Final = frozenset({"RUN", "CMD", "ENTRYPOINT", "ENV", "LABEL", "EXPOSE", "VOLUME", "ARG", "SHELL"})
EXACTLY_ONE: Final = frozenset({"WORKDIR", "USER", "STOPSIGNAL", "MAINTAINER"})
KNOWN: Final = ONE_OR_MORE | EXACTLY_ONE | {"FROM", "COPY", "ADD", "HEALTHCHECK", "ONBUILD"}
SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Heredoc:
    """The text of a here-document."""

    name: str
    content: str
    is_literal: bool
    """Whether its name was quoted: then no variable in it is filled in."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, as written: variables are filled in when it is carried out."""

    name: str
    words: tuple[str, ...]
    line: int
    text: str
    is_json: bool = False
    flags: tuple[tuple[str, str], ...] = ()
    heredocs: tuple[Heredoc, ...] = ()

    def flag(self, name: str) -> str | None:
        """The value of a flag; None where it is not given."""
        return dict(self.flags).get(name)

    @property
    def shown(self) -> str:
        """On one line, for people."""
        line = " ".join(self.text.split())
        return line if len(line) <= SHOWN else f"{line[:SHOWN]}…"


@dataclass(frozen=True, slots=True)
class Stage:
    """What follows one FROM."""

    base: Instruction
    name: str
    """Empty where it has none."""
    steps: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A checked Dockerfile."""

    source: str
    arguments: tuple[Instruction, ...]
    """The ARGs before the first FROM."""
    stages: tuple[Stage, ...]
    escape: str = field(default="\\")


def refuse(source: str, line: int, problem: str, *, text: str = "") -> BuildError:
    """The error for a line of a Dockerfile."""
    return BuildError(source, f"line {line}: {problem}", step=text, log_tail="", cause="task")


def names_folder(path: str) -> bool:
    """Whether a destination is a folder by its spelling, as BuildKit has it."""
    return path == "." or path.endswith(("/", "/."))


def parse_recipe(text: str, source: str) -> Recipe:
    """Raises `BuildError` with the line for what is no Dockerfile or asks for what is not supported."""
    instructions = _parse(text, source)
    for instruction in instructions:
        _check(instruction, source)
    first = next((at for at, one in enumerate(instructions) if one.name == "FROM"), None)
    if first is None:
        raise refuse(source, 1, "there is no FROM")
    for one in instructions[:first]:
        if one.name != "ARG":
            raise refuse(source, one.line, f"{one.name} before the first FROM", text=one.shown)
    return Recipe(source, tuple(instructions[:first]), _stages(instructions[first:], source), _escape(text))


def parse_trigger(text: str, source: str) -> Instruction:
    """An instruction that an image brings with ONBUILD."""
    found = _parse(text, source)
    if len(found) != 1 or found[0].name in ("FROM", "ONBUILD", "MAINTAINER"):
        raise refuse(source, 1, f"the base image brings `ONBUILD {text}`")
    _check(found[0], source)
    return found[0]


def _parse(text: str, source: str) -> list[Instruction]:
    try:
        import dockerfile  # noqa: PLC0415 - an extra; its import starts threads
    except ImportError as error:
        raise MissingExtra("dockerfile", extra="images", purpose="building a Dockerfile") from error
    try:
        found = dockerfile.parse_string(text)
    except dockerfile.GoParseError as error:
        raise BuildError(source, f"is no Dockerfile: {error}", step="", log_tail="", cause="task") from error
    return [_instruction(one, source) for one in found]


def _instruction(told: Any, source: str) -> Instruction:  # noqa: ANN401 - the parser's own type
    name = str(told.cmd).upper()
    flags = []
    for flag in told.flags:
        key, _, value = str(flag).removeprefix("--").partition("=")
        flags.append((key, value))
    first = str(told.original).split("\n", 1)[0]
    heredocs = tuple(Heredoc(h.name, h.content, _is_quoted(h.name, first)) for h in told.heredocs)
    if name == "ONBUILD":
        inner = str(told.original).split(None, 1)
        return Instruction(name, (inner[1] if len(inner) > 1 else "",), told.start_line, told.original)
    if name not in KNOWN:
        raise refuse(source, told.start_line, f"{told.cmd} is no instruction", text=first.strip()[:SHOWN])
    return Instruction(name, tuple(told.value), told.start_line, told.original, told.json, tuple(flags), heredocs)


def _is_quoted(name: str, line: str) -> bool:
    return any(f"<<{dash}{quote}{name}{quote}" in line for dash in ("", "-") for quote in ("'", '"'))


def _check(one: Instruction, source: str) -> None:
    allowed = FLAGS.get(one.name, frozenset())
    for flag, _ in one.flags:
        if flag not in allowed:
            raise refuse(source, one.line, f"{one.name} --{flag} is not supported", text=one.shown)
    count = len([word for word in one.words if word])
    if one.name in EXACTLY_ONE and not count:
        raise refuse(source, one.line, f"{one.name} needs an argument", text=one.shown)
    if one.name in ONE_OR_MORE and not count and not (one.is_json and one.name in ("CMD", "ENTRYPOINT")):
        raise refuse(source, one.line, f"{one.name} needs an argument", text=one.shown)
    if one.name in ("COPY", "ADD") and count < 2:  # noqa: PLR2004 - a source and a destination
        raise refuse(source, one.line, f"{one.name} needs a source and a destination", text=one.shown)
    if one.name in ("COPY", "ADD") and count > 2 and not names_folder(one.words[-1]):  # noqa: PLR2004 - several sources
        raise refuse(source, one.line, "with several sources the destination must end with /", text=one.shown)
    if one.name == "SHELL" and not one.is_json:
        raise refuse(source, one.line, "SHELL takes a list in JSON", text=one.shown)
    if one.name == "ONBUILD":
        parse_trigger(one.words[0], source)


def _stages(instructions: list[Instruction], source: str) -> tuple[Stage, ...]:
    stages: list[Stage] = []
    steps: list[Instruction] = []
    base = instructions[0]
    for one in [*instructions[1:], None]:
        if one is not None and one.name != "FROM":
            steps.append(one)
            continue
        stages.append(Stage(base, _stage_name(base, source), tuple(steps)))
        steps = []
        base = one or base
    return tuple(stages)


def _stage_name(base: Instruction, source: str) -> str:
    words = base.words
    if len(words) == 1:
        return ""
    if len(words) != 3 or words[1].upper() != "AS":  # noqa: PLR2004 - image AS name
        raise refuse(source, base.line, "FROM takes an image, and AS with a name", text=base.shown)
    return words[2].lower()


def _escape(text: str) -> str:
    for line in text.removeprefix("\ufeff").splitlines():
        key, _, value = line.removeprefix("#").partition("=")
        if not line.startswith("#") or not value:
            return "\\"
        if key.strip().lower() == "escape":
            return "`" if value.strip() == "`" else "\\"
    return "\\"
