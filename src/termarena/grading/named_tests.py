"""Results of single tests out of what runners print: pytest's summary, else what unittest says with `-v`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from termarena.grading.contract import TestResult
from termarena.grading.parsers import LONGEST_NAME, MOST_TESTS, pytest_summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.grading.contract import TestState

__all__ = ["named_in", "unittest_summary"]

# Each pattern looks at one line: a program under test chooses what is printed.
_BEGINS: Final = re.compile(r"(?P<name>test\w*) \((?P<where>[\w.]+)\)", re.ASCII)
# What a test prints stands between its name and its state.
_ENDS: Final = re.compile(r"(?P<word>ok|FAIL|ERROR|skipped '.*'|skipped \".*\"|expected failure|unexpected success)$")
_HEADS: Final = re.compile(r"(?P<word>FAIL|ERROR): (?P<name>test\w*) \((?P<where>[\w.]+)\)", re.ASCII)
_RAN: Final = re.compile(r"(?m)^Ran \d+ tests? in ")
_STATES: Final[Mapping[str, TestState]] = {
    "ok": "passed",
    "FAIL": "failed",
    "ERROR": "error",
    "skipped": "skipped",
    "expected failure": "xfailed",
    "unexpected success": "xpassed",
}
_LONGEST_LINE: Final = 2000


def named_in(text: str) -> tuple[TestResult, ...]:
    """The single tests that an output names; they do not change a reward."""
    return pytest_summary(text) or unittest_summary(text)


def unittest_summary(text: str) -> tuple[TestResult, ...]:
    """The tests that unittest names; none where it did not come to its end (`Ran 3 tests in 0.1s`).

    A failure that is told once is one, whatever else is printed under that name.
    """
    if not _RAN.search(text):
        return ()
    found: dict[str, TestState] = {}
    current: str | None = None
    for line in text.splitlines():
        short = line[:_LONGEST_LINE]
        begins = _BEGINS.match(short)
        current = _name(begins) if begins else current
        ends = _ENDS.search(short.rstrip()) if current is not None else None
        if ends is not None and current is not None and len(found) < MOST_TESTS:
            found.setdefault(current, _state(ends["word"]))
            current = None
        if (head := _HEADS.match(short)) is not None and len(found) < 2 * MOST_TESTS:
            found[_name(head)] = _state(head["word"])
    return tuple(TestResult(name=name, state=state) for name, state in found.items())


def _name(match: re.Match[str]) -> str:
    """`Class.test_name`: newer Pythons repeat the test's name after its class's, older ones do not."""
    where, name = match["where"], match["name"]
    owner = where.removesuffix(f".{name}").rpartition(".")[2]
    return f"{owner}.{name}"[:LONGEST_NAME]


def _state(word: str) -> TestState:
    return _STATES.get(word) or _STATES[word.split(" ", maxsplit=1)[0]]
