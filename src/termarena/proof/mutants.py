"""Mutants: what a solution would be with one thing wrong.

Pure functions of a script's text, and of a solution with the files that it brings. A mutant need not differ in what it
does: whoever runs it compares the end states, and leaves out those that came to the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from termarena.proof.constants import evenly, numbers_in, with_number
from termarena.shell.statements import Script
from termarena.tasks.files import FileTree, TreeFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.shell.statements import Span, Statement
    from termarena.tasks.model import Solution

__all__ = ["ELSEWHERE", "Mutant", "Operator", "SolutionMutant", "mutants_of", "mutants_of_solution", "with_file"]

Operator = Literal["left-out", "prefix", "emptied", "constant", "wrong-path", "stale"]
SHOWN: Final = 100
ELSEWHERE: Final = ".other"
"""What makes another name of a name."""
LARGEST_PROGRAM_BYTES: Final = 256 << 10
CONSTANTS_PER_FILE: Final = 4
MODES: Final = frozenset({"chmod", "install", "umask", "exit", "return"})
"""Their numbers are no quantities: a mode that is one higher is odd and harmless, a status just as much a failure."""
SPOKEN: Final = frozenset({"echo", "printf"})
_SYSTEM: Final = ("/usr/", "/bin/", "/sbin/", "/lib", "/dev/", "/proc/", "/sys/", "/etc/")
_BEFORE_STATUS: Final = re.compile(r"(?:\b(?:exit|return)\s+|[<>]&?)$")
_LETTER: Final = re.compile(r"(?<![\\%\w])[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A script with one thing wrong."""

    operator: Operator
    line: int
    """Of the original, from 1."""
    what: str
    """One line for people."""
    script: str


@dataclass(frozen=True, slots=True)
class SolutionMutant:
    """A solution with one thing wrong, in its script or in a file that it brings."""

    operator: Operator
    file: str
    line: int
    what: str
    solution: Solution

    @property
    def name(self) -> str:
        """`left-out solve.sh:5`, for people; not unique."""
        return f"{self.operator} {self.file}:{self.line}"


def mutants_of(text: str) -> tuple[Mutant, ...]:
    """Every mutant of a shell script, each text once; none of a script that does not parse.

    Raises `MissingExtra` without a parser.
    """
    script = Script.parse(text)
    if script is None:
        return ()
    found: dict[str, Mutant] = {}
    for mutant in (*_left_out(script), *_prefixes(script), *_outputs(script), *_paths(script), *_constants(script)):
        if mutant.script != text:
            found.setdefault(mutant.script.rstrip("\n"), mutant)
    return tuple(found.values())


def mutants_of_solution(solution: Solution) -> tuple[SolutionMutant, ...]:
    """Every mutant of a solution's script, then of the programs and data beside it: emptied, cut, a constant changed.

    None of a solution by keystrokes. Raises what `mutants_of` raises, `TaskFormatError` for a file that has gone.
    """
    entry = solution.files.get(solution.entry or "")
    if entry is None or not entry.path.endswith(".sh"):
        return ()
    text = entry.read().decode("utf-8", "surrogateescape")
    mutants = [
        SolutionMutant(one.operator, entry.path, one.line, one.what, with_file(solution, entry, one.script))
        for one in mutants_of(text)
    ]
    for file in solution.files:
        if file is not entry and file.kind == "file" and 0 < file.size_bytes <= LARGEST_PROGRAM_BYTES:
            mutants += _of_file(solution, file)
    return tuple(mutants)


# The script.


def _left_out(script: Script) -> Iterator[Mutant]:
    for one in script.statements:
        yield Mutant("left-out", one.line, f"left out: {_shown(one)}", script.replaced(one, ":"))


def _prefixes(script: Script) -> Iterator[Mutant]:
    for one in script.top[:-1]:
        yield Mutant("prefix", one.line, f"stopped after: {_shown(one)}", script.until(one))


def _outputs(script: Script) -> Iterator[Mutant]:
    """What a statement writes: nothing, or what was there before."""
    for one in script.statements:
        for target in one.targets:
            emptied = script.replaced(one, f"{{ {one.text}\n: >{target}\n}}")
            yield Mutant("emptied", one.line, f"{target} emptied after: {_shown(one)}", emptied)
            stale = script.replaced(one, f"touch {target}")
            yield Mutant("stale", one.line, f"{target} left as it was by: {_shown(one)}", stale)


def _paths(script: Script) -> Iterator[Mutant]:
    """The last path of every command and every output, under another name."""
    for one in script.statements:
        places = [word for word in one.words if _is_path(word.text)]
        if places:
            changed = script.replaced(places[-1], _elsewhere(places[-1].text))
            yield Mutant("wrong-path", one.line, f"{places[-1].text} by another name in: {_shown(one)}", changed)
        for target in one.targets:
            at = one.text.rfind(target)
            text = one.text[:at] + _elsewhere(target) + one.text[at + len(target) :]
            yield Mutant(
                "wrong-path", one.line, f"{target} by another name in: {_shown(one)}", script.replaced(one, text)
            )


def _constants(script: Script) -> Iterator[Mutant]:
    modes = [one for one in script.statements if one.name in MODES]
    for number in script.numbers:
        is_mode = any(one.start <= number.start < one.end for one in modes)
        if number.text.isdigit() and not is_mode and not _is_status(script, number):
            yield _constant(script, number, str(int(number.text) + 1))
    for one in script.statements:
        if one.name in SPOKEN and one.targets:
            for word in one.words:
                if letter := _LETTER.search(word.text):
                    at = letter.start()
                    yield _constant(script, word, word.text[:at] + word.text[at].swapcase() + word.text[at + 1 :])
    for document in script.documents:
        for constant in evenly(tuple(numbers_in(document.text)), CONSTANTS_PER_FILE):
            line = document.line + document.text.count("\n", 0, constant.start)
            what = f"{constant.digits} changed in: {_line_at(document.text, constant.start)}"
            yield Mutant("constant", line, what, script.replaced(document, with_number(document.text, constant)))


def _constant(script: Script, span: Span, text: str) -> Mutant:
    return Mutant("constant", span.line, f"{span.text} changed to {text}"[:SHOWN], script.replaced(span, text))


def _is_status(script: Script, number: Span) -> bool:
    """Whether a number is what `exit` and `return` give back, or a descriptor."""
    before = script.text.encode("utf-8", "surrogateescape")[: number.start].decode("utf-8", "replace")
    return bool(_BEFORE_STATUS.search(before[-SHOWN:]))


def _is_path(word: str) -> bool:
    bare = word.strip("'\"")
    return bare.startswith("/") and len(bare) > 1 and not bare.startswith(_SYSTEM) and "*" not in bare


def _elsewhere(word: str) -> str:
    """The path with another last name, within the quotes it has."""
    quote = word[-1] if word[-1:] in ("'", '"') else ""
    bare = word.removesuffix(quote).rstrip("/") if quote else word.rstrip("/")
    return f"{bare}{ELSEWHERE}{quote}"


def _shown(statement: Statement) -> str:
    first, _, rest = statement.text.partition("\n")
    return first[:SHOWN] + (" …" if rest or len(first) > SHOWN else "")


# The files beside it.


def _of_file(solution: Solution, file: TreeFile) -> Iterator[SolutionMutant]:
    text = file.read().decode("utf-8", "surrogateescape")
    if "\0" in text:
        return
    lines = text.splitlines(keepends=True)
    yield SolutionMutant("emptied", file.path, 1, f"{file.path} emptied", with_file(solution, file, ""))
    if len(lines) > 1:
        half = len(lines) // 2
        cut = with_file(solution, file, "".join(lines[:half]))
        yield SolutionMutant("prefix", file.path, half, f"{file.path} cut after {half} of {len(lines)} lines", cut)
    suffix = file.path.rpartition(".")[2]
    for constant in evenly(tuple(numbers_in(text, suffix=suffix)), CONSTANTS_PER_FILE):
        line = text.count("\n", 0, constant.start) + 1
        what = f"{constant.digits} changed in: {_line_at(text, constant.start)}"
        changed = with_file(solution, file, with_number(text, constant))
        yield SolutionMutant("constant", file.path, line, what, changed)


def _line_at(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0].strip()[:SHOWN]


def with_file(solution: Solution, file: TreeFile, text: str) -> Solution:
    """The solution with another text in one of its files."""
    content = text.encode("utf-8", "surrogateescape")
    changed = TreeFile.inline(file.path, content, executable=file.executable)
    files = FileTree.of(changed if one.path == file.path else one for one in solution.files)
    return solution.model_copy(update={"files": files})
