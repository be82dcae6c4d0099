"""The instruction: whether it tells the agent what the tests ask for, and nothing that it should not."""

from __future__ import annotations

import posixpath
import re
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from termarena.tasks.lint import asserted
from termarena.tasks.lint.rule import Rule
from termarena.tasks.lint.view import alike

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.lint.asserted import Asserted
    from termarena.tasks.lint.view import Source, View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check"]

PATH_NOT_IN_INSTRUCTION = Rule(
    "path-not-in-instruction",
    "warning",
    "the tests ask for a path that the instruction does not name",
    "name the path in the instruction",
)
CLOCK_DEPENDENT = Rule(
    "clock-dependent",
    "info",
    "the verdict, or the answer, depends on the day it is given",
    "fix the date: faketime, or a date in the instruction",
)
ABSOLUTE_DATE = Rule(
    "absolute-date",
    "warning",
    "a test compares today's date with one that is written down",
    "compare fixed dates with each other, not with the clock",
)
TESTS_IN_INSTRUCTION = Rule(
    "tests-in-instruction",
    "warning",
    "the instruction names the hidden tests or the solution",
    "say what is wanted, not how it is graded",
)
LEAKED_SOLUTION = Rule(
    "leaked-solution-in-instruction",
    "warning",
    "the instruction holds lines of the solution",
    "describe the outcome, and leave the way to the agent",
)
RULES = (PATH_NOT_IN_INSTRUCTION, CLOCK_DEPENDENT, ABSOLUTE_DATE, TESTS_IN_INSTRUCTION, LEAKED_SOLUTION)

SHOWN_PATHS = 10
# Names that a tool makes by itself, so that nobody needs to be told of them.
_MADE_BY_TOOLS = """
.git .github .ssh .bashrc .profile .gitignore .gitconfig node_modules target build dist venv .venv __pycache__ Makefile
package.json package-lock.json Cargo.toml Cargo.lock build.rs Dockerfile README.md conftest.py index.html bin lib go.sum
build.ninja meson-info .nextflow.log Makefile.in aclocal.m4 configure config.status CMakeCache.txt .terraform
composer.lock
"""
_CONVENTIONAL = frozenset(_MADE_BY_TOOLS.split())
_COMPILED = frozenset({".class", ".o", ".so", ".a", ".pyc", ".exe", ".obj", ".gz", ".sig", ".asc", ".bak"})
_PLACEHOLDER = re.compile(r"[*>}\])](\.\w{1,8})\b")
_MIN_STEM = 5
# From the third part on, a folder belongs to a task and not to many.
_DEEP = 3
_NOW = re.compile(
    r"\b(?:datetime\.(?:datetime\.)?(?:now|today|utcnow)|date\.today|datetime\.date\.today|time\.strftime|Timestamp\.now)\("
)
_NOW_PART = re.compile(
    r"\b(?:datetime\.(?:datetime\.)?(?:now|today|utcnow)|date\.today|datetime\.date\.today)\([^()\n]{0,60}\)\.(?:year|month|day|date\(|strftime\([\"']%Y)"
)
_WRITTEN_DATE = re.compile(
    r"\b(?:date|datetime|Timestamp)\((?:20\d\d,|[\"']20\d\d)|[\"']20\d\d-\d\d-\d\d"
    r"|[<>=]=?[ \t]*20[2-9]\d\b|\b20[2-9]\d[ \t]*[<>=]=?"
)
_SHELL_DATE = re.compile(r"\bdate[ \t]+(?:-u[ \t]+)?[\"']?\+[\"']?%[Ymd]")
_TODAY = (
    "today's date",
    "current date",
    "current year",
    "current month",
    "as of today",
    "from today",
    "yesterday's date",
)
_GRADER_NAMES = ("test_outputs.py", "run-tests.sh", "/logs/verifier", "solution/solve.sh")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_COMMAND = re.compile(r"[$=|(>;]| -")
_MIN_LINE = 30
_MATCHES = 50


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    yield from _paths(view)
    yield from _clock(view)
    yield from _grader(view)
    yield from _leaked(view)


def _paths(view: View) -> Iterator[Finding]:
    known = _Known(view)
    seen: set[str] = set()
    for source in view.test_texts:
        for one in _asserted(source, known):
            if one.path in seen or known(one.path):
                continue
            seen.add(one.path)
            if len(seen) <= SHOWN_PATHS:
                message = (
                    f"{one.path[:200]} is asked for in {source.name}:{one.line}, and the instruction does not name it"
                )
                yield PATH_NOT_IN_INSTRUCTION.found(source.name, message, line=one.line)


def _asserted(source: Source, known: _Known) -> list[Asserted]:
    if not source.is_python:
        return asserted.shell_paths(source.statements) if "/" in source.text else []
    # For 5 kB of tests the syntax tree costs a millisecond, a look at quoted paths a tenth; most files need no more.
    if all(known(one) for one in asserted.python_candidates(source.text)):
        return []
    tree = asserted.parse_python(source.text)
    return [] if tree is None else asserted.python_paths(tree, known)


class _Known:
    """Whether the agent can know a path: from the instruction, from the environment, or because a tool names it so."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.told = alike(view.instruction)
        self.lower = self.told.lower()
        self.cache: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        found = self.cache.get(path)
        if found is None:
            found = self.cache[path] = self._look_up(path)
        return found

    def _look_up(self, path: str) -> bool:
        name = posixpath.basename(path.rstrip("/"))
        parts = path.strip("/").split("/")
        if not _CONVENTIONAL.isdisjoint(parts) or name in (".", "..", "") or path.rstrip("/") == self.view.workdir:
            return True
        plain = alike(name)
        if plain in self.view.environment_names or name in self.view.hidden_names:
            return True
        plain = plain.lower()
        if plain in self.lower:
            return True
        return self._is_described(plain) or self._is_in_environment(path, name)

    def _is_described(self, name: str) -> bool:
        """Whether words stand for it: `<id>.json`, "summary report" for summary_report.txt, Main.java for its class."""
        stem, suffix = posixpath.splitext(name)
        if suffix and any(match[1].lower() == suffix for match in _PLACEHOLDER.finditer(self.told)):
            return True
        if len(stem) >= _MIN_STEM and any(sign in stem for sign in "_-0"):
            spoken = stem.replace("_", " ").replace("-", " ")
            if stem in self.lower or (" " in spoken and spoken in self.lower):
                return True
        if suffix in _COMPILED:
            return stem in self.lower or stem in self._environment_stems
        return bool(suffix) and suffix in self.lower and stem in self._environment_stems

    @cached_property
    def _environment_stems(self) -> frozenset[str]:
        return frozenset(posixpath.splitext(name)[0].lower() for name in self.view.environment_names)

    def _is_in_environment(self, path: str, name: str) -> bool:
        folder = posixpath.dirname(path)
        for recipe in self.view.recipes:
            if name in recipe.source.text or (folder.count("/") >= _DEEP and _is_filled(folder, recipe.source.text)):
                return True
        return name in self.view.environment_text


def _is_filled(folder: str, recipe: str) -> bool:
    """Whether the Dockerfile does more with a folder than make it: a download may have put anything there."""
    return folder in recipe and any(
        folder in line and "mkdir" not in line and "WORKDIR" not in line for line in recipe.split("\n")
    )


def _clock(view: View) -> Iterator[Finding]:
    told = view.instruction.lower()
    for words in _TODAY:
        place = told.find(words)
        # "The current date is 2024-01-15" fixes the clock.
        if place >= 0 and not _YEAR.search(told, place, place + 120):
            where = view.told_at(view.instruction[place : place + len(words)])
            message = f"`{words}`: the right answer changes with the day"
            yield CLOCK_DEPENDENT.found(where.file, message, line=where.line)
            break
    for source in view.test_texts:
        if source.is_python:
            yield from _python_clock(source)
        elif "date" in source.text:
            line_found = next((one.line for one in source.statements if _SHELL_DATE.search(one.text)), None)
            if line_found is not None:
                yield CLOCK_DEPENDENT.found(source.name, "the script asks for today's date", line=line_found)


def _python_clock(source: Source) -> Iterator[Finding]:
    text = source.text
    if not ("now(" in text or "today(" in text):
        return
    for match in islice(_NOW.finditer(text), _MATCHES):
        start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
        line = text[start : end if end >= 0 else len(text)][:1000]
        if "#" in line[: match.start() - start]:
            continue
        if _WRITTEN_DATE.search(line):
            yield ABSOLUTE_DATE.found(
                source.name, f"`{line.strip()[:80]}` will not hold for ever", line=source.line_of(match.start())
            )
            return
        if _NOW_PART.search(line):
            yield CLOCK_DEPENDENT.found(
                source.name, f"`{line.strip()[:80]}` depends on the day", line=source.line_of(match.start())
            )
            return


def _grader(view: View) -> Iterator[Finding]:
    names = [*_GRADER_NAMES]
    if "/tests/" in view.instruction:
        names += [f"/tests/{source.file.path}" for suite in view.suites for source in suite.sources]
    for name in names:
        if name in view.instruction and name.rpartition("/")[2] not in view.environment_names:
            where = view.told_at(name)
            yield TESTS_IN_INSTRUCTION.found(where.file, f"it names {name[:80]}", line=where.line)
            return


def _leaked(view: View) -> Iterator[Finding]:
    lines: set[str] = set()
    for solution, sources in view.solutions:
        for source in sources:
            if source.file.path == solution.entry:
                lines |= {line.strip() for line in source.text.split("\n")}
    lines = {line for line in lines if len(line) >= _MIN_LINE and line[0] not in "#\"'|" and _COMMAND.search(line)}
    if not lines:
        return
    shared = lines & {line.strip().strip("`$ ") for line in view.instruction.split("\n")}
    if len(shared) >= 3 and 4 * len(shared) >= len(lines):  # noqa: PLR2004 - tuned on public tasks: formats shown in both are shorter
        first = min(shared, key=view.instruction.index)
        where = view.told_at(first)
        message = f"{len(shared)} lines of the solution stand in it, such as `{first[:60]}`"
        yield LEAKED_SOLUTION.found(where.file, message, line=where.line)
