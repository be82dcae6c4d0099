"""Single tests out of what a runner prints."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from termarena.grading.named_tests import named_in, unittest_summary

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """\
import sys
import unittest


class Sums(unittest.TestCase):
    def test_right(self):
        "It is told in words."
        print("a program speaks")

    def test_wrong(self):
        self.assertEqual(1, 2)

    def test_broken(self):
        raise OSError("gone")

    @unittest.skip("not here")
    def test_skipped(self): pass

    @unittest.expectedFailure
    def test_known(self):
        self.assertEqual(1, 2)

    def test_parts(self):
        for part in (1, 2):
            with self.subTest(part=part):
                self.assertEqual(part, 1)

    def test_loud(self):
        print("half a line", end="", file=sys.stderr)
"""


def _run(folder: Path) -> str:
    (folder / "test_outputs.py").write_text(SUITE)
    words = [sys.executable, "-B", "-m", "unittest", "discover", "-v", "-s", str(folder)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603 - our own interpreter
    return done.stdout


def test_what_unittest_says_is_understood(tmp_path: Path) -> None:
    assert {one.name: one.state for one in named_in(_run(tmp_path))} == {
        "Sums.test_broken": "error",
        "Sums.test_known": "xfailed",
        "Sums.test_loud": "passed",
        "Sums.test_parts": "failed",
        "Sums.test_right": "passed",
        "Sums.test_skipped": "skipped",
        "Sums.test_wrong": "failed",
    }


def test_a_program_that_prints_a_pass_does_not_hide_a_failure() -> None:
    text = (
        "test_a (m.C.test_a) ... test_a (m.C.test_a) ... ok\nFAIL\n\nFAIL: test_a (m.C.test_a)\nRan 1 test in 0.001s\n"
    )
    assert [(one.name, one.state) for one in unittest_summary(text)] == [("C.test_a", "failed")]


def test_a_run_that_did_not_come_to_its_end_names_nothing() -> None:
    assert unittest_summary("test_a (m.C.test_a) ... ok\n") == ()
