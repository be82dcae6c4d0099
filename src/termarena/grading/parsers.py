"""Terminal-Bench 1's parsers: results of tests out of what they printed.

A test's program prints too, so what is found can be forged by it. Everything after the first heading counts, and of two
states of one test the worse: a forged line can make a verdict worse, never better. What was left out after the first
heading may have held the worse one: that is `unknown`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.grading.contract import TestResult
from termarena.grading.output import GAP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.grading.contract import TestState
    from termarena.tasks.model import VerdictSource

__all__ = ["PARSERS", "all_passed", "is_open", "pytest_summary"]

LONGEST_NAME: Final = 400
LONGEST_MESSAGE: Final = 1000
LONGEST_LINE: Final = 4000
HEADING_WIDTH: Final = 40
MOST_TESTS: Final = 20_000
"""And as many again that did not pass: a thousand forged passes must not leave out one real failure."""

# Only patterns that take time in proportion to the text: a program under test chooses what is printed.
_HEADING: Final = re.compile(r"short test summary info", re.IGNORECASE)
_LINE: Final = re.compile(r"(PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR):?\s+(\S.*)")
_COUNT: Final = re.compile(r"\[\d+\]\s+(?=\S)")
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_STATES: Final[Mapping[str, TestState]] = {
    "PASSED": "passed",
    "FAILED": "failed",
    "SKIPPED": "skipped",
    "XFAIL": "xfailed",
    "XPASS": "xpassed",
    "ERROR": "error",
}
_HARMLESS: Final = frozenset({"passed", "xfailed"})
_WORST_FIRST: Final = ("error", "failed", "xpassed", "unknown", "skipped", "xfailed", "passed")


def pytest_summary(text: str) -> tuple[TestResult, ...]:
    """The tests named in pytest's short summary (`-rA`); none where there is no summary."""
    found: dict[str, _Row] = {}
    for line in _below_heading(_ESCAPES.sub("", text)):
        row = _row_of(line[:LONGEST_LINE])
        if row is None or (row.name not in found and not _has_room(found, row)):
            continue
        known = found.get(row.name, row)
        found[row.name] = min(known, row, key=lambda one: _WORST_FIRST.index(one.state))
    return tuple(TestResult(name=row.name, state=row.state, message=row.message) for row in found.values())


def all_passed(tests: tuple[TestResult, ...]) -> bool:
    """Whether the tests solve the task: at least one passed, every other one passed too or failed as it was to fail.

    Terminal-Bench counts a skipped test as a pass; here it is none.
    """
    states = {test.state for test in tests}
    return "passed" in states and states <= _HARMLESS


def is_open(tests: tuple[TestResult, ...]) -> bool:
    """Whether nothing speaks against a pass but that some of the results were left out."""
    states = {test.state for test in tests}
    return "unknown" in states and states <= _HARMLESS | {"unknown"}


def _below_heading(text: str) -> list[str]:
    """The lines after the first heading of a summary: its words between signs of equality."""
    for heading in _HEADING.finditer(text):
        before = text[max(0, heading.start() - HEADING_WIDTH) : heading.start()].rstrip()
        after = text[heading.end() : heading.end() + HEADING_WIDTH].lstrip()
        if before.endswith("=") and after.startswith("="):
            return text[heading.end() :].splitlines()
    return []


class _Row(NamedTuple):
    name: str
    state: TestState
    message: str


def _has_room(found: Mapping[str, _Row], row: _Row) -> bool:
    return len(found) < (MOST_TESTS if row.state in _HARMLESS else 2 * MOST_TESTS)


def _row_of(line: str) -> _Row | None:
    if GAP.fullmatch(line):
        return _Row(line, "unknown", "")
    match = _LINE.match(line)
    return _row(match[1], match[2].strip()) if match else None


def _row(word: str, rest: str) -> _Row | None:
    state = _STATES[word]
    if state == "skipped":
        rest = _COUNT.sub("", rest, count=1)
        name, message = rest, ""
    else:
        name, message = _split_message(rest)
    name = name.split("::", maxsplit=1)[-1][:LONGEST_NAME].strip()
    return _Row(name, state, message[:LONGEST_MESSAGE]) if name else None


def _split_message(rest: str) -> tuple[str, str]:
    """A test's name and what pytest says of it; a parameter in brackets may hold the dash that parts them."""
    at = rest.find(" - ")
    while at >= 0 and rest.count("[", 0, at) > rest.count("]", 0, at):
        further = rest.find(" - ", at + 1)
        if further < 0 and "]" not in rest[at:]:
            break
        at = further
    return (rest, "") if at < 0 else (rest[:at], rest[at + 3 :])


def _between_marks(name: str) -> Callable[[str], tuple[TestResult, ...]]:
    start, end = f"{name} results starts here", f"{name} results ends here"

    def parse(text: str) -> tuple[TestResult, ...]:
        if start not in text or end not in text:
            return ()
        below = text.split(start, 1)[1]
        block = below.rsplit(end, 1)[0].strip()
        return (_whole("tests", is_passed=block == _EXPECTED.get(name, "PASSED"), below=below),)

    return parse


_EXPECTED: Final = {"MLEBench": "ALL TESTS PASSED"}


def _swelancer(text: str) -> tuple[TestResult, ...]:
    """Both words at once are a failure: a program can print one, the test's own word is the other."""
    lower = text.lower()
    has_failed = "swe lancer failure" in lower
    word = "swe lancer success" if "swe lancer success" in lower else "user_tool"
    has_succeeded = word in lower and (word != "user_tool" or "completed" in lower)
    if not (has_failed or has_succeeded):
        return ()
    return (_whole("swelancer_task", is_passed=not has_failed, below=lower.partition(word)[2]),)


def _whole(name: str, *, is_passed: bool, below: str) -> TestResult:
    """`below` is what stands after the first word of a result."""
    if not is_passed:
        return TestResult(name=name, state="failed")
    return TestResult(name=name, state="unknown" if GAP.search(below) else "passed")


PARSERS: Final[Mapping[VerdictSource, Callable[[str], tuple[TestResult, ...]]]] = {
    "pytest": pytest_summary,
    "swebench": _between_marks("SWEBench"),
    "sweperf": _between_marks("SWE-Perf"),
    "mlebench": _between_marks("MLEBench"),
    "swelancer": _swelancer,
}
"""By the name that `task.yaml` gives them. Each returns no result where the output does not say."""
