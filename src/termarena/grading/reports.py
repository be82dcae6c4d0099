"""Results of single tests where a task writes them: CTRF, and JUnit's XML read without entities."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final
from xml.parsers import expat

from termarena.grading.contract import TestResult
from termarena.grading.parsers import LONGEST_MESSAGE, LONGEST_NAME, MOST_TESTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from termarena.grading.contract import TestState

__all__ = ["parse_ctrf", "parse_junit", "reported_tests"]

CTRF: Final = "ctrf.json"
REPORT_BYTES: Final = 16 << 20
MOST_XML: Final = 20
_CTRF_STATES: Final[Mapping[str, TestState]] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "pending": "skipped",
    "other": "unknown",
}


def reported_tests(folder: Path) -> tuple[TestResult, ...]:
    """What `ctrf.json` in the tests' logs says, else what the XML files there say; nothing where neither is sound."""
    content = _content(folder / CTRF)
    found = parse_ctrf(content) if content else ()
    if found:
        return found
    reports = sorted(folder.glob("*.xml"))[:MOST_XML] if folder.is_dir() else []
    results = [result for path in reports for result in parse_junit(_content(path) or b"")]
    return tuple(results[:MOST_TESTS])


def _content(path: Path) -> bytes | None:
    """A regular file's bytes; None for anything else and for one beyond 16 MiB."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > REPORT_BYTES:
        return None
    return path.read_bytes()


def parse_ctrf(content: bytes) -> tuple[TestResult, ...]:
    """The tests of a Common Test Report Format file; none where it is not one."""
    try:
        report = json.loads(content)
    except (ValueError, RecursionError):
        return ()
    results = report.get("results") if isinstance(report, dict) else None
    tests = results.get("tests") if isinstance(results, dict) else None
    rows = tests if isinstance(tests, list) else []
    return tuple(_ctrf_result(row) for row in rows[:MOST_TESTS] if isinstance(row, dict) and row.get("name"))


def _ctrf_result(row: Mapping[str, Any]) -> TestResult:
    return TestResult(
        name=_text(row["name"], LONGEST_NAME),
        state=_CTRF_STATES.get(str(row.get("status")), "unknown"),
        message=_text(row.get("message") or "", LONGEST_MESSAGE),
        duration_s=_seconds(row.get("duration"), unit=1000),
    )


def _text(value: object, longest: int) -> str:
    return str(value)[:longest].encode("utf-8", "replace").decode()


def _seconds(value: object, *, unit: int = 1) -> float | None:
    try:
        number = float(value) / unit  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def parse_junit(content: bytes) -> tuple[TestResult, ...]:
    """The test cases of a JUnit file, in order; none where it is not one, or brings a document type of its own."""
    reader = _JunitReader()
    try:
        reader.parser.Parse(content, True)  # noqa: FBT003 - expat takes no names
    except (expat.ExpatError, _Refused, RecursionError):
        return ()
    return tuple(reader.results())


class _Refused(Exception):
    """A document type: entities come with it."""


class _JunitReader:
    """Collects `<testcase>` elements; names and messages only, never text between them."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse
        self._cases: list[dict[str, str]] = []
        self._states: list[TestState] = []
        self._is_inside = False

    def _refuse(self, *_: object) -> None:
        raise _Refused

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "testcase":
            self._is_inside = True
            self._cases.append({**attributes, "message": ""})
            self._states.append("passed")
        elif self._is_inside and tag in ("failure", "error", "skipped"):
            self._states[-1] = _junit_state(tag, attributes)
            self._cases[-1]["message"] = attributes.get("message", "")
        if len(self._cases) > MOST_TESTS:
            raise _Refused

    def _end(self, tag: str) -> None:
        self._is_inside = self._is_inside and tag != "testcase"

    def results(self) -> Iterator[TestResult]:
        for number, case in enumerate(self._cases):
            name = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
            yield TestResult(
                name=name[:LONGEST_NAME] or "unnamed",
                state=self._states[number],
                message=case["message"][:LONGEST_MESSAGE],
                duration_s=_seconds(case.get("time")),
            )


def _junit_state(tag: str, attributes: Mapping[str, str]) -> TestState:
    if tag == "skipped":
        return "xfailed" if attributes.get("type") == "pytest.xfail" else "skipped"
    return "failed" if tag == "failure" else "error"
