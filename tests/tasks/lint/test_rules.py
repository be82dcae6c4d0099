from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.folders import HARBOR, simple, terminal_bench_1, write_folder
from tasks.lint.examples import EXAMPLES, NEAR_MISSES, files_of
from termarena.tasks import load_task
from termarena.tasks.lint import RULES, lint
from termarena.tasks.lint.rule import LOADER_RULES

if TYPE_CHECKING:
    from pathlib import Path

    from tasks.lint.examples import Example, NearMiss
    from termarena.tasks import Finding

# What needs a file system rather than a text to show; each has a test of its own below.
SHOWN_BELOW = {"large-file", "dangling-link", "unreadable-file"}


def _named(example: Example | NearMiss) -> str:
    return f"{example.rule}-{example[-1]}"


def _found(folder: Path, rule: str) -> list[Finding]:
    return [finding for finding in lint(load_task(folder)) if finding.rule == rule]


@pytest.mark.parametrize("example", EXAMPLES, ids=_named)
def test_a_rule_finds_what_it_is_for(example: Example, tmp_path: Path) -> None:
    found = _found(write_folder(tmp_path, files_of(example.changes)), example.rule)
    place = [(one.severity, one.file, one.line) for one in found]
    assert (example.severity, example.file, example.line) in place
    assert all(one.message and one.hint for one in found)


@pytest.mark.parametrize("miss", NEAR_MISSES, ids=_named)
def test_a_rule_leaves_alone_what_only_looks_like_it(miss: NearMiss, tmp_path: Path) -> None:
    assert _found(write_folder(tmp_path, files_of(miss.changes)), miss.rule) == []


def test_every_rule_has_an_example() -> None:
    shown = {example.rule for example in EXAMPLES} | SHOWN_BELOW | {rule.id for rule in LOADER_RULES}
    assert shown == set(RULES)


def test_a_plain_task_has_no_warnings(tmp_path: Path) -> None:
    assert [one for one in lint(load_task(write_folder(tmp_path, HARBOR))) if one.severity != "info"] == []


def test_the_other_formats_are_checked_by_the_same_rules(tmp_path: Path) -> None:
    first = lint(load_task(terminal_bench_1(tmp_path / "tb1")))
    assert [one for one in first if one.severity != "info"] == []
    other = lint(load_task(simple(tmp_path / "simple")))
    assert [one for one in other if one.severity != "info"] == []


def test_a_first_format_folder_that_is_copied_whole_is_reported(tmp_path: Path) -> None:
    folder = terminal_bench_1(tmp_path, Dockerfile="FROM debian:12\nCOPY . /app\n")
    assert [(one.severity, one.file, one.line) for one in _found(folder, "tests-in-image")] == [
        ("warning", "Dockerfile", 2)
    ]


def test_a_first_format_dockerfile_that_copies_tests_by_name_is_an_error(tmp_path: Path) -> None:
    folder = terminal_bench_1(tmp_path, Dockerfile="FROM debian:12\nCOPY run-tests.sh tests /app/\n")
    assert [(one.severity, one.line) for one in _found(folder, "tests-in-image")] == [("error", 2)]


def test_a_step_is_checked_like_a_task(tmp_path: Path) -> None:
    steps = {
        "task.toml": '[agent]\ntimeout_sec = 9.0\n[[steps]]\nname = "one"\n',
        "environment/Dockerfile": HARBOR["environment/Dockerfile"],
        "steps/one/instruction.md": "Write 1 to /app/one.txt.\n",
        "steps/one/tests/test.sh": "#!/bin/sh\npip install pytest\ntest -s /app/two.txt\n",
    }
    places = {(one.rule, one.file, one.line) for one in lint(load_task(write_folder(tmp_path, steps)))}
    assert ("missing-solution", "steps/one/solution", None) in places
    assert ("network-at-grading", "steps/one/tests/test.sh", 2) in places
    assert ("path-not-in-instruction", "steps/one/tests/test.sh", 3) in places
    assert ("reward-never-written", "steps/one/tests/test.sh", None) in places


def test_a_line_of_the_instruction_is_the_files_own(tmp_path: Path) -> None:
    words = "Write today's date to /app/one.txt.\n"
    canary = write_folder(tmp_path / "harbor", {**HARBOR, "instruction.md": f"<!-- canary 123 -->\n\n{words}"})
    first = terminal_bench_1(tmp_path / "tb1", task_yaml=f"difficulty: easy\ninstruction: |-\n  Please.\n  {words}")
    inline = simple(tmp_path / "simple", instruction_txt=words)
    places = [[(one.file, one.line) for one in _found(folder, "clock-dependent")] for folder in (canary, first, inline)]
    assert places == [[("instruction.md", 3)], [("task.yaml", 4)], [("instruction.txt", 1)]]


def test_a_large_file_is_seen_without_being_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, HARBOR)
    with (folder / "environment/data.bin").open("wb") as file:
        file.truncate((50 << 20) + 1)
    assert [one.file for one in _found(folder, "large-file")] == ["environment/data.bin"]


def test_a_link_to_nothing_is_reported_and_one_to_something_is_not(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, HARBOR)
    (folder / "environment/latest").symlink_to("Dockerfile")
    (folder / "environment/sub").mkdir()
    (folder / "environment/sub/up").symlink_to("../gone")
    assert [one.file for one in _found(folder, "dangling-link")] == ["environment/sub/up"]


def test_an_entry_that_is_a_link_is_read_through(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, HARBOR)
    (folder / "tests/test.sh").rename(folder / "tests/run.sh")
    (folder / "tests/test.sh").symlink_to("run.sh")
    rules = {one.rule for one in lint(load_task(folder))}
    assert rules.isdisjoint({"empty-tests", "reward-never-written"})


def test_a_file_that_has_gone_is_a_finding_and_not_an_error(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, HARBOR)
    task = load_task(folder)
    assert task.tests
    assert [file.path for file in task.tests.files] == ["test.sh"]
    (folder / "tests/test.sh").unlink()
    assert [(one.file, one.severity) for one in lint(task) if one.rule == "unreadable-file"] == [
        ("tests/test.sh", "error")
    ]


def test_a_broken_separate_grader_image_needs_no_test_script(tmp_path: Path) -> None:
    files = dict(HARBOR)
    del files["tests/test.sh"]
    files["task.toml"] += '\n[verifier]\nenvironment_mode = "separate"\n'
    files["tests/Dockerfile"] = "FROM debian:12\n"
    assert [one for one in lint(load_task(write_folder(tmp_path, files))) if one.severity == "error"] == []
