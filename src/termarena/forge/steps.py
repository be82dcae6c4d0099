"""Slicing: which commands of a session make up its solution, which only look, which went wrong; and why."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatch
from itertools import count
from typing import TYPE_CHECKING, Final

from termarena.core.errors import RecordingRefused
from termarena.forge.messages import with_message
from termarena.forge.repositories import clone_of
from termarena.shell.effects import EDITORS, INSTALLERS, Effect, effect_of
from termarena.shell.lines import parse_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from termarena.forge.places import Places
    from termarena.forge.transcript import Command
    from termarena.shell.lines import Line

__all__ = ["NOT_STARTED", "Role", "Step", "capture_answers", "promote_inputs", "resolve", "steps_of"]

GATE: Final = "synthesize"
MOST_ANSWERS: Final = 3
NOT_STARTED: Final = (126, 127)
"""The statuses of a program that is not there or cannot be run. Any other failure may have left something."""
_SUDO: Final = re.compile(r"(?<![\w/-])(?:sudo|doas)\s+(?:-[EHnSk]\s+|-u\s+root\s+)*(?=[\w./$\"'])")
_ERROR: Final = re.compile(
    r"command not found|No such file or directory|Permission denied|[Ss]yntax error|^usage: ", re.M
)
_SHOWING: Final = """
ls ll la cat pwd echo head tail tree date whoami id which type file stat printf sleep wait man help env printenv
hostname uname ps df du history bat
"""
_SHOWS: Final = frozenset(_SHOWING.split())
_CONTAINERS: Final = frozenset({"docker", "podman", "kubectl"})
_GATHERERS: Final = frozenset({"make", "git", "tar", "zip", "find", "cp", "rsync", "python3", "python", "gcc", "cmake"})


class Role(StrEnum):
    """What a command is to the task."""

    SOLVE = "solve"  # part of the solution
    INPUT = "input"  # makes what the solution works on: part of the environment
    ANSWER = "answer"  # its output is the result, and goes to a file
    FETCHED = "fetched"  # brings a repository: part of the environment, as it was on that day
    READ = "read"  # only looks: evidence for the replay, nothing else
    DROPPED = "dropped"  # not part of anything; `reason` says why


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the session, moved to the task's places."""

    number: int
    text: str
    line: Line
    effect: Effect
    cwd: str
    output: str = ""
    exit_status: int | None = None
    role: Role = Role.SOLVE
    reason: str = ""
    answer: str | None = None
    """Where an answer goes."""

    def cast_as(self, role: Role, reason: str = "") -> Step:
        """The same command in another role."""
        return replace(self, role=role, reason=reason)

    @property
    def changes(self) -> bool:
        """Whether leaving it out should be seen in the result."""
        return self.role is Role.ANSWER or (self.role is Role.SOLVE and self.effect is Effect.CHANGES)

    @property
    def first(self) -> str:
        """The name of its first program."""
        return _first(self.line)

    @property
    def names(self) -> list[str]:
        """Of its programs."""
        return _names(self.line)


def steps_of(commands: Sequence[Command], places: Places) -> tuple[Step, ...]:
    """The session's commands in their first roles.

    Raises `RecordingRefused` for what cannot be done again: a file edited by hand, input to another program, a network.
    """
    steps, cwd = [], places.workdir
    for number, command in enumerate(map(_told, _folded(commands)), 1):
        text = _SUDO.sub("", places.command(command.text.strip()))
        line = parse_line(text)
        effect = effect_of(line)
        if number > 1 and command.cwd is not None:
            cwd = places.folder(command.cwd)
        step = Step(number, text, line, effect, cwd, places.output(command.output), command.exit_status)
        steps.append(_first_role(step, command))
        cwd = _folder_after(line, cwd)
    return tuple(_corrected(steps))


def _told(command: Command) -> Command:
    """A commit whose message was written in an editor, with that message."""
    told = with_message(command.text, command.output)
    return command if told is None else command.model_copy(update={"text": told, "interactive": False})


def _folded(commands: Sequence[Command]) -> Iterable[Command]:
    """Lines typed into another program become its here-document, and what they printed its output."""
    waiting: Command | None = None
    typed: list[Command] = []
    for command in commands:
        if not command.shell and waiting is None:
            raise RecordingRefused(GATE, "the recording begins inside another program than a shell")
        if not command.shell:
            typed.append(command)
            continue
        if waiting is not None:
            yield _with_input(waiting, typed)
        waiting, typed = command, []
    if waiting is not None:
        yield _with_input(waiting, typed)


_TALKATIVE: Final = frozenset({"sqlite3", "python3", "python", "bc", "psql", "node", "ed", "bash", "sh", "cat"})
_GOODBYES: Final = frozenset({".quit", ".exit", "exit()", "quit()", "quit", "exit", ".q"})
_PROMPTED: Final = re.compile(r"^(?:>>>|\.\.\.) ?(.*)$", re.MULTILINE)


def _with_input(command: Command, typed: list[Command]) -> Command:
    shown = "".join(one.output for one in typed)
    lines = [one.text for one in typed]
    if not typed and _PROMPTED.match(command.output):
        lines = _PROMPTED.findall(command.output)
        shown = _PROMPTED.sub("", command.output).strip("\n")
    if not lines:
        return command
    line = parse_line(command.text)
    if not line.is_plain or _first(line) not in _TALKATIVE:
        raise RecordingRefused(GATE, f"lines were typed into `{_shown(command.text)}`, which cannot be fed again")
    text = "\n".join(one for one in lines if one.strip() not in _GOODBYES)
    end = next(word for word in _ends() if word not in text.split("\n"))
    return command.model_copy(update={"text": f"{command.text} <<'{end}'\n{text}\n{end}", "output": shown})


def _ends() -> Iterator[str]:
    """Words that may end a here-document, the usual one first: a line of what was typed may be the word itself."""
    yield "INPUT"
    yield from (f"INPUT_{number}" for number in count(2))


def _first_role(step: Step, command: Command) -> Step:
    if not step.text or step.text.startswith("#") or step.effect is Effect.NOTHING:
        return step.cast_as(Role.DROPPED, "does nothing that stays")
    if not step.line.is_sound:
        return step.cast_as(Role.DROPPED, "is not a command that bash could read")
    if step.effect is Effect.REACHES:
        return _reaching(step)
    if step.effect is Effect.TALKS or command.interactive:
        if any(name in EDITORS for name in _names(step.line)) or step.effect is Effect.CHANGES:
            raise RecordingRefused(GATE, f"`{_shown(step.text)}` was worked in by hand: what was done cannot be known")
        return step.cast_as(Role.DROPPED, "only shows something on the whole screen")
    return _role_of_a_sound_one(step)


def _role_of_a_sound_one(step: Step) -> Step:
    if step.exit_status in NOT_STARTED or (step.exit_status and step.effect is Effect.READS):
        return step.cast_as(Role.DROPPED, f"failed with status {step.exit_status}")
    if step.line.is_plain and step.first in _TALKATIVE and _waits(step.line.simples[0].words):
        return step.cast_as(Role.DROPPED, "waits for lines that the recording does not show")
    return step.cast_as(Role.READ, "only looks") if step.effect is Effect.READS else step


def _waits(words: tuple[str, ...]) -> bool:
    """Whether an interpreter was called without anything to interpret."""
    given = [word for word in words[1:] if not word.startswith("-")]
    most = 1 if words[0] == "sqlite3" else 0
    return len(given) <= most and not {"-c", "-m", "-e", "--version", "-V", "--help"} & set(words)


def _reaching(step: Step) -> Step:
    if step.exit_status:
        return step.cast_as(Role.DROPPED, f"failed with status {step.exit_status}")
    if any(name in INSTALLERS for name in _names(step.line)):
        return step.cast_as(Role.DROPPED, "installs: part of the environment")
    if step.line.is_plain and clone_of(step.line.simples[0].words, step.cwd):
        return step.cast_as(Role.FETCHED, "brings a repository: part of the environment")
    needed = "a container engine" if _CONTAINERS & set(_names(step.line)) else "a network beyond the machine"
    raise RecordingRefused(GATE, f"`{_shown(step.text)}` needs {needed}")


def _corrected(steps: list[Step]) -> Iterable[Step]:
    """Of two tries at the same command, the one that printed an error and was typed anew does not count."""
    for at, step in enumerate(steps):
        again = steps[at + 1 : at + 3]
        is_tried_again = any(_is_correction(step, later) for later in again)
        if step.role is Role.SOLVE and step.exit_status is None and _ERROR.search(step.output) and is_tried_again:
            yield step.cast_as(Role.DROPPED, "went wrong and was typed anew")
        else:
            yield step


def _is_correction(step: Step, later: Step) -> bool:
    words, others = set(step.text.split()), set(later.text.split())
    return later.first == step.first or 2 * len(words & others) >= max(len(words), len(others))


def _folder_after(line: Line, cwd: str) -> str:
    for simple in line.simples:
        if simple.name in ("cd", "pushd") and simple.is_literal:
            target = next((word for word in simple.words[1:] if not word.startswith("-")), "/root")
            cwd = posixpath.normpath(posixpath.join(cwd, target.replace("~", "/root", 1)))
    return cwd


def _names(line: Line) -> list[str]:
    return [words[0].rpartition("/")[2] for words in (simple.bare for simple in line.simples) if words]


def _first(line: Line) -> str:
    return next(iter(_names(line)), "")


def _shown(text: str) -> str:
    return text.split("\n", 1)[0][:60]


# Roles that depend on the whole session.


def promote_inputs(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Files that were written out at the beginning and worked on afterwards become part of the environment."""
    end = next((at for at, step in enumerate(steps) if step.changes and not _writes_literally(step)), len(steps))
    later = [step for step in steps[end:] if step.changes]
    used = {at for at in range(end) if steps[at].changes and any(_uses(one, steps[at]) for one in later)}
    kept = {
        at for at in range(end) if steps[at].first == "mkdir" and any(_is_inside(steps[at], steps[i]) for i in used)
    }
    return tuple(
        step.cast_as(Role.INPUT, "makes what the solution works on") if at in used | kept else step
        for at, step in enumerate(steps)
    )


def _writes_literally(step: Step) -> bool:
    """Whether it only puts down what stands in the command itself."""
    if step.line.is_compound or step.exit_status or not all(simple.is_literal for simple in step.line.simples):
        return False
    names = set(_names(step.line))
    copies = any(simple.name == "cat" and len(simple.words) > 1 for simple in step.line.simples)
    if not names <= _WRITERS or copies or ("cat" in names and not step.line.has_heredoc):
        return False
    return bool(step.line.written) or names <= {"mkdir", "touch"}


_WRITERS: Final = frozenset({"mkdir", "touch", "cat", "echo", "printf", "seq"})


def files_of(step: Step) -> list[str]:
    """The files that a literal writer makes, as absolute paths."""
    named = [word for simple in step.line.simples if simple.name == "touch" for word in simple.words[1:]]
    return [posixpath.normpath(posixpath.join(step.cwd, path)) for path in (*step.line.written, *named)]


def _uses(later: Step, writer: Step) -> bool:
    if _writes_literally(later):
        return False
    files = files_of(writer)
    words = [word for simple in later.line.simples for word in simple.words if "*" in word or "?" in word]
    mentioned = any(posixpath.basename(path) in later.text for path in files)
    matched = any(fnmatch(path, posixpath.join(later.cwd, word)) for path in files for word in words)
    return bool(files) and (mentioned or matched or bool(_GATHERERS & set(_names(later.line))))


def _is_inside(folder: Step, writer: Step) -> bool:
    made = [word for simple in folder.line.simples for word in simple.words[1:] if not word.startswith("-")]
    places = [posixpath.normpath(posixpath.join(folder.cwd, path)) for path in made]
    return any(path.startswith(f"{place}/") for path in files_of(writer) for place in places)


def capture_answers(steps: Sequence[Step], workdir: str) -> tuple[Step, ...]:
    """Where nothing but inputs is made, the last commands that computed something are the result: into files."""
    if any(step.changes and not step.exit_status and not _writes_literally(step) for step in steps):
        return tuple(steps)
    found = [at for at, step in enumerate(steps) if _computes(step)][-MOST_ANSWERS:]
    if not found:
        return tuple(steps)
    base = "" if workdir == "/" else workdir
    names = {at: f"{base}/answer{f'-{n}' if len(found) > 1 else ''}.txt" for n, at in enumerate(found, 1)}
    return tuple(
        replace(step, role=Role.ANSWER, reason="its output is the result", answer=names[at]) if at in names else step
        for at, step in enumerate(steps)
    )


def _computes(step: Step) -> bool:
    is_shown = step.role is Role.READ and bool(step.output.strip())
    return is_shown and not set(_names(step.line)) <= _SHOWS and step.exit_status in (0, None)


def resolve(steps: Sequence[Step], workdir: str) -> tuple[Step, ...]:
    """The roles of a whole session: answers, inputs, and no change of the shell behind the last real step.

    Raises `RecordingRefused` where nothing remains to be done.
    """
    cast = promote_inputs(capture_answers(steps, workdir))
    last = max((at for at, step in enumerate(cast) if step.changes), default=None)
    if last is None:
        raise RecordingRefused(GATE, "no command of it changes anything or computes a result")
    return tuple(
        step.cast_as(Role.DROPPED, "nothing follows that needs it") if at > last and step.role is Role.SOLVE else step
        for at, step in enumerate(cast)
    )
