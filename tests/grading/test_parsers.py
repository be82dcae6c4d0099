"""Terminal-Bench 1's parsers, on what such tests print and on what somebody prints to fool them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.grading.output import TestOutput
from termarena.grading.parsers import MOST_TESTS, PARSERS, all_passed, is_open, pytest_summary

if TYPE_CHECKING:
    from termarena.tasks.model import VerdictSource

SUMMARY = """\
============================= test session starts ==============================
collected 9 items

../tests/test_outputs.py .F.sxX                                          [100%]

=========================== short test summary info ============================
PASSED ../tests/test_outputs.py::test_a
PASSED ../tests/test_outputs.py::TestGroup::test_b[x - y]
SKIPPED [1] ../tests/test_outputs.py:12: no network
XFAIL ../tests/test_outputs.py::test_known - to be mended
XPASS ../tests/test_outputs.py::test_surprise
ERROR ../tests/test_outputs.py::test_setup - RuntimeError: no
ERROR ../tests/test_broken.py
FAILED ../tests/test_outputs.py::test_c - AssertionError: 1 - 2
============= 1 failed, 2 passed, 1 skipped, 1 xfailed, 1 xpassed in 0.05s =====
"""


def test_every_state_of_a_pytest_summary_is_kept_under_its_name() -> None:
    found = {one.name: one.state for one in pytest_summary(SUMMARY)}
    assert found == {
        "test_a": "passed",
        "TestGroup::test_b[x - y]": "passed",
        "../tests/test_outputs.py:12: no network": "skipped",
        "test_known": "xfailed",
        "test_surprise": "xpassed",
        "test_setup": "error",
        "../tests/test_broken.py": "error",
        "test_c": "failed",
    }
    assert {one.name: one.message for one in pytest_summary(SUMMARY)}["test_c"] == "AssertionError: 1 - 2"


HEADING = "=== short test summary info ===\n"
VERDICTS = [
    ("PASSED t.py::a\nPASSED t.py::b\n", True),
    ("PASSED t.py::a\nXFAIL t.py::b\n", True),
    ("PASSED t.py::a\nFAILED t.py::b\n", False),
    ("PASSED t.py::a\nERROR t.py::b\n", False),
    ("PASSED t.py::a\nXPASS t.py::b\n", False),
    ("PASSED t.py::a\nSKIPPED [1] t.py:3: why\n", False),
    ("SKIPPED [1] t.py:3: why\n", False),
    ("XFAIL t.py::b\n", False),
]


@pytest.mark.parametrize(("lines", "is_solved"), VERDICTS)
def test_a_task_is_solved_if_something_passed_and_nothing_else_happened(lines: str, is_solved: bool) -> None:  # noqa: FBT001 - a column of the table
    assert all_passed(pytest_summary(HEADING + lines)) == is_solved


def test_nothing_at_all_solves_nothing() -> None:
    assert not all_passed(())
    assert pytest_summary("PASSED t.py::a\n") == ()


def test_colours_and_carriage_returns_do_not_hide_results() -> None:
    text = "\x1b[36m=== short test summary info ===\x1b[0m\r\n\x1b[32mPASSED\x1b[0m t.py::\x1b[1ma\x1b[0m\r\n"
    assert [(one.name, one.state) for one in pytest_summary(text)] == [("a", "passed")]


def test_a_forged_summary_before_the_real_one_does_not_help() -> None:
    """A failing test's output stands above the summary, with whatever the agent's program printed."""
    text = f"{HEADING}PASSED t.py::a\n{HEADING}FAILED t.py::a - no\n"
    assert [(one.name, one.state) for one in pytest_summary(text)] == [("a", "failed")]


def test_forged_passes_without_number_do_not_crowd_a_real_failure_out() -> None:
    forged = "".join(f"PASSED t.py::forged_{number}\n" for number in range(MOST_TESTS))
    assert not all_passed(pytest_summary(f"{HEADING}{forged}{HEADING}FAILED t.py::a - no\n"))


@pytest.mark.parametrize(
    ("parser", "forged"),
    [
        ("pytest", f"{HEADING}PASSED t.py::a\n"),
        ("pytest", HEADING),
        ("swebench", "SWEBench results starts here\nPASSED\nSWEBench results ends here\n"),
        ("mlebench", "MLEBench results starts here\nALL TESTS PASSED\nMLEBench results ends here\n"),
        ("swelancer", "SWE Lancer Success\n"),
        ("swelancer", "user_tool completed\n"),
    ],
)
def test_a_forged_result_before_what_was_left_out_is_not_known_to_be_a_pass(parser: VerdictSource, forged: str) -> None:
    """The noise of a program can push the real result into the part that is not kept."""
    output = TestOutput(forged.encode() + b"x" * 10, b"x\nPASSED t.py::b\nnoise", 9_000_000)
    found = PARSERS[parser](output.text())
    assert (all_passed(found), is_open(found)) == (False, True)


def test_a_forged_summary_after_the_real_one_does_not_help() -> None:
    text = f"{HEADING}FAILED t.py::a - no\n=== 1 failed ===\n{HEADING}PASSED t.py::a\n"
    assert [(one.name, one.state) for one in pytest_summary(text)] == [("a", "failed")]


def test_a_hundred_thousand_lines_are_bounded() -> None:
    text = HEADING + "".join(f"PASSED t.py::test_{number}\n" for number in range(100_000))
    assert len(pytest_summary(text)) == 20_000


HOSTILE = {
    "signs of equality": "=" * 2_000_000,
    "headings without end": "= short test summary info " * 100_000,
    "an open bracket": f"{HEADING}FAILED a[{' - ' * 500_000}",
    "escapes without end": "\x1b[" + "1;" * 1_000_000,
    "blanks": f"{HEADING}PASSED {' ' * 2_000_000}",
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_output_takes_no_longer_than_its_length(what: str) -> None:
    """Each of these takes minutes where time grows with the square of the length."""
    assert len(pytest_summary(HOSTILE[what])) <= 1


MARKED = [
    ("swebench", "SWEBench", "PASSED"),
    ("sweperf", "SWE-Perf", "PASSED"),
    ("mlebench", "MLEBench", "ALL TESTS PASSED"),
]


@pytest.mark.parametrize(("parser", "name", "word"), MARKED)
def test_results_between_marks(parser: str, name: str, word: str) -> None:
    start, end = f"{name} results starts here", f"{name} results ends here"
    parse = PARSERS[parser]  # type: ignore[index]  # names of the table above
    cases = {
        f"x\n{start}\n{word}\n{end}\ny": True,
        f"{start}\nFAILED\n{end}": False,
        f"{start}\n{end}": False,
        f"{start}\n{word}\n{end}\n{start}\nFAILED\n{end}": False,
        f"{start}\nFAILED\n{end}\n{start}\n{word}\n{end}": False,
    }
    for text, is_passed in cases.items():
        assert [(one.name, one.state) for one in parse(text)] == [("tests", "passed" if is_passed else "failed")], text
    assert [parse(text) for text in (word, f"{start}\n{word}", f"{word}\n{end}", "")] == [()] * 4


def test_swelancer_words() -> None:
    parse = PARSERS["swelancer"]
    assert [one.state for one in parse("… SWE Lancer Success …")] == ["passed"]
    assert [one.state for one in parse("user_tool has completed")] == ["passed"]
    assert [one.state for one in parse("swe lancer failure")] == ["failed"]
    assert [one.state for one in parse("swe lancer success\nswe lancer failure")] == ["failed"]
    assert parse("nothing of the kind") == ()


def test_every_parser_of_the_format_is_there() -> None:
    assert set(PARSERS) == {"pytest", "swebench", "sweperf", "mlebench", "swelancer"}
