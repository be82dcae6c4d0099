"""`report.json` and `report.md` as files: whole, the same every time, and harmless whatever a task is called."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.reported import trial, view
from termarena.core.errors import TaskFormatError
from termarena.core.run_folder import RunFolder
from termarena.reports import as_json, as_markdown, build_report, read_report, write_report

TESTS = Path(__file__).parent.parent
HOSTILE = "a|b`<img src=x>\n# [go](http://x) \x1b[2J*b* _c_ &amp;"


def test_the_record_has_its_numbers_at_the_top_and_reads_back(tmp_path: Path) -> None:
    report = build_report(view(["a", "b"], [trial("a", "solved"), trial("b", "unscored")]))
    folder = RunFolder(tmp_path)
    write_report(report, folder)
    top = json.loads(folder.report.read_text())
    assert (top["kind"], top["schema_version"], top["accuracy"]) == ("report", 1, 1.0)
    assert (top["accuracy_low"], top["accuracy_high"], top["pass_at_1"]) == (0.5, 1.0, 1.0)
    assert (top["solved"], top["unsolved"], top["unscored"], top["total"], top["tasks"], top["attempts"]) == (
        1,
        0,
        1,
        2,
        2,
        1,
    )
    assert read_report(folder.report) == report
    before = folder.report.read_bytes(), folder.report_text.read_bytes()
    write_report(report, folder)
    assert (folder.report.read_bytes(), folder.report_text.read_bytes()) == before


def test_a_report_that_is_none_says_where(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(
        as_json(build_report(view(["a"], []))).replace(b'"total": 1', b'"total": "x"')
    )
    with pytest.raises(TaskFormatError, match="total"):
        read_report(tmp_path / "report.json")


def test_the_page_tells_how_many_trials_were_graded_beside_processes_of_the_agent() -> None:
    trials = [trial("a", "solved", graded_in="live"), trial("b", "solved")]
    assert "- graded live: 1 trial, beside what the agent had left running\n" in as_markdown(
        build_report(view(["a", "b"], trials))
    )
    assert "graded live" not in as_markdown(build_report(view(["b"], trials[1:])))


def test_the_page_lists_no_unknown_tokens_of_an_agent_without_a_model() -> None:
    page = as_markdown(build_report(view(["a"], [trial("a", "solved")])))
    assert "- tokens, cost: not told by the agent, which was given no model\n" in page
    assert [line for line in page.splitlines() if line.startswith("- ") and "unknown" in line] == []
    told = as_markdown(build_report(view(["a"], [trial("a", "solved", input_tokens=1200, output_tokens=30)])))
    assert "- tokens: 1,200 in, 30 out\n- cost: unknown\n" in told
    assert "1,200 tokens in, 30 out\n" in told


def test_the_page_tells_the_headline_tables_unscored_and_tampered() -> None:
    trials = [
        trial("a1", "solved", tests_passed=4, tests_total=4),
        trial("a2", "unsolved", tests_passed=3, tests_total=4),
        trial("b1", "unscored", message="no space left on device"),
        trial("b2", "unsolved", is_tampered=True, failure_mode="TAMPERED"),
    ]
    page = as_markdown(build_report(view(["a1", "a2", "b1", "b2"], trials)))
    assert (
        "**accuracy 33.3 % (between 25.0 % and 50.0 %): 1 solved, 2 unsolved, 1 unscored of 4 trials at 4 tasks" in page
    )
    assert "| a1 | a | unknown | 100.0 % | 1 solved, 0 unsolved | 4 of 4 | 2.0 s |  |" in page
    assert "| a | 2 | 50.0 % | 1 | 1 | 0 |" in page
    assert "- b1, attempt 1: INFRA_FAULT: no space left on device" in page
    assert "## Tampered" in page
    assert "- b2/1" in page


def test_an_unfinished_run_says_how_to_go_on() -> None:
    page = as_markdown(build_report(view(["a"], [])))
    assert "termarena resume r" in page
    assert "1 not run yet" in page


def test_no_name_or_message_becomes_markup() -> None:
    report = build_report(view([HOSTILE], [trial(HOSTILE, "unscored", message=HOSTILE)]))
    page = as_markdown(report)
    assert re.findall(r"(?<!\\)[<`*]", page.replace("**", "")) == []
    assert [line for line in page.splitlines() if line.startswith("#")] == [
        line for line in page.splitlines() if re.fullmatch(r"#{1,2} [A-Z].*|# script:a.sh on set", line)
    ]
    assert all(ord(character) >= 32 or character == "\n" for character in page)
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3, 9}


@pytest.mark.parametrize(
    ("share", "shown"), [(1.0, "100.0 %"), (0.9999, "99.9 %"), (0.0, "0.0 %"), (0.0001, "0.1 %"), (0.125, "12.5 %")]
)
def test_almost_all_is_not_all_and_almost_nothing_is_not_nothing(share: float, shown: str) -> None:
    from termarena.reports.telling import percent  # noqa: PLC0415 - the one function

    assert percent(share) == shown


MANY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from support.reported import trial, view
from termarena.core.run_folder import RunFolder
from termarena.reports import build_report, write_report
tasks, attempts = int(sys.argv[3]), int(sys.argv[4])
names = [f"task-{number}" for number in range(tasks)]
trials = (trial(name, "unscored", k, message="x" * 200) for k in range(1, attempts + 1) for name in names)
write_report(build_report(view([*names], trials, attempts=attempts)), RunFolder(Path(sys.argv[2])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def _memory_mb(folder: Path, *, tasks: int, attempts: int) -> int:
    folder.mkdir()
    words = [sys.executable, "-c", MANY, str(TESTS), str(folder), str(tasks), str(attempts)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - our own


def test_a_report_of_many_trials_is_as_small_as_one_of_few(tmp_path: Path) -> None:
    few_mb = _memory_mb(tmp_path / "few", tasks=50, attempts=120)
    many_mb = _memory_mb(tmp_path / "many", tasks=50, attempts=600)
    assert many_mb < few_mb + 30  # the history of the run itself: about a kilobyte for each trial
    sizes = [(tmp_path / name / "report.json").stat().st_size for name in ("few", "many")]
    assert sizes[1] < 1.1 * sizes[0]


@pytest.mark.soak
@pytest.mark.parametrize(("tasks", "attempts"), [(100_000, 1), (1_000, 100)])
def test_a_hundred_thousand_trials(tmp_path: Path, tasks: int, attempts: int) -> None:
    assert _memory_mb(tmp_path / "run", tasks=tasks, attempts=attempts) < 400
