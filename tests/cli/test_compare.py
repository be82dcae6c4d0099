"""`termarena compare`, `power` and `import` as a user meets them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.made_runs import Made, made_run
from support.peers import trial_file, unpack

if TYPE_CHECKING:
    from pathlib import Path


def tasks(letters: str, number: int) -> dict[str, str]:
    return {f"task-{place:02}": letters for place in range(number)}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with three runs below `runs`."""
    made_run(tmp_path / "runs" / "mine", tasks("11", 8), Made(model="big"))
    made_run(tmp_path / "runs" / "yours", tasks("0?", 8))
    made_run(tmp_path / "runs" / "theirs", tasks("10", 6) | {"more": "11"})
    return tmp_path


def test_two_runs_get_a_verdict_in_words(place: Path) -> None:
    done = termarena("compare", "mine", "yours", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "mine is better than yours" in lines
    assert any(line.startswith("difference: +100.0 points, p = 0.00781 (all permutations)") for line in lines)
    assert "trials without a score: 8; the difference could be anything from +50.0 points (better)" in done.stdout
    assert "0.0 % (could be 0.0 % to 50.0 %)" in done.stdout


def test_many_runs_are_a_table_with_what_was_left_out(place: Path) -> None:
    done = termarena("compare", "mine", "yours", "theirs", cwd=place)
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["mine", "better", "yours"] in [row[:3] for row in rows]
    assert "1 of 3 pairs: tasks left out: 2 only in the first, 1 only in the second" in done.stderr
    assert "not all pairs were compared on the same tasks" in done.stderr


def test_json_holds_everything(place: Path) -> None:
    done = termarena("compare", "mine", "yours", "--json", cwd=place)
    found = json.loads(done.stdout)
    assert (found["kind"], found["schema_version"], found["options"]["metric"]) == ("comparison", 1, "solved")
    pair = found["pairs"][0]
    assert (pair["first"], pair["second"], pair["word"], pair["shared"]) == ("mine", "yours", "better", 8)
    assert pair["difference"]["test"] == {
        "p": 2 / 256,
        "method": "exact",
        "differing": 8,
        "samples": None,
        "seed": None,
    }
    assert found["runs"][1]["unscored"] == 8


def test_drawn_permutations_say_how_many_and_with_which_seed(place: Path) -> None:
    done = termarena("compare", "mine", "yours", "--permutations", "999", "--seed", "7", cwd=place)
    assert "(999 permutations, seed 7)" in done.stdout


def test_rewards_are_shown_as_rewards(place: Path) -> None:
    done = termarena("compare", "mine", "theirs", "--metric", "reward", cwd=place)
    assert "difference: +0.500, p = 0.0312 (all permutations)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["mine"], "a comparison needs two runs or more"),
        (["mine", "mine"], "is given twice"),
        (["mine", "nobody"], "no run is at nobody"),
        (["mine", "yours", "--alpha", "0"], "alpha is 0"),
        (["mine", "yours", "--permutations", "0"], "--permutations"),
        (["mine", "yours", "--metric", "luck"], "luck"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(place: Path, arguments: list[str], problem: str) -> None:
    done = termarena("compare", *arguments, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def test_power_says_what_is_found() -> None:
    done = termarena("power", "--tasks", "89", "--attempts", "5", "--effect", "5")
    assert done.returncode == 0
    assert "89 tasks, 5 attempts each: differences of 11.3 points or more are found" in done.stdout
    assert "for 5.0 points: 449 tasks, 5 attempts each" in done.stdout
    assert "public submissions to Terminal-Bench 0.1.1" in done.stderr


def test_power_from_a_run_takes_its_tasks(tmp_path: Path) -> None:
    made_run(tmp_path / "runs" / "mixed", {"a": "110", "b": "000", "c": "111", "d": "010", "e": "111", "f": "011"})
    done = termarena("power", "--from", "mixed", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (found["kind"], found["options"]["tasks"], found["noise"]["tasks"]) == ("power", 6, 6)
    assert found["effect"] > found["floor"] > 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "how many tasks?"),
        (["--tasks", "0"], "--tasks"),
        (["--tasks", "9", "--power", "1"], "power 1"),
        (["--tasks", "9", "--effect", "-2"], "a difference of -0.02"),
        (["--from", "mine"], "shows no variation"),
    ],
)
def test_power_refuses_what_makes_no_sense(place: Path, arguments: list[str], problem: str) -> None:
    done = termarena("power", *arguments, cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


def test_too_few_tasks_find_nothing() -> None:
    assert "no difference can be found at 0.05" in termarena("power", "--tasks", "4").stdout


def test_what_others_ran_can_be_reported_and_compared(tmp_path: Path) -> None:
    unpack("harbor-oracle", tmp_path / "jobs" / "one")
    unpack("tb-oracle", tmp_path / "tb" / "two")
    first = termarena("import", "harbor", "jobs/one", cwd=tmp_path)
    second = termarena("import", "tb", "tb/two", "--out", "second", cwd=tmp_path)
    assert (first.stdout, second.stdout) == ("runs/harbor-one\n", "second\n")
    assert first.stderr == "oracle on 10 tasks of ht: 6 solved, 8 unsolved, 6 unscored\n"
    report = json.loads(termarena("report", "harbor-one", "--json", cwd=tmp_path).stdout)
    assert (report["imported_from"], report["accuracy"], report["unscored"]) == ("harbor", 3 / 7, 6)
    assert "imported" in [one["reason"] for one in report["not_ranked"]]
    compared = termarena("compare", "harbor-one", "second", cwd=tmp_path)
    assert compared.returncode == 0
    assert "cannot tell whether harbor-one is better than second" in compared.stdout
    assert "of 3 tasks only the names say that they are the same" in compared.stdout
    assert "the runs differ in harness: harbor and terminal-bench" in compared.stdout
    again = termarena("import", "harbor", "jobs/one", cwd=tmp_path)
    assert again.stdout == "runs/harbor-one-2\n"
    assert "imported     from harbor 0.24.0" in termarena("runs", "show", "harbor-one", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["runs", "show", "h", "good"], "outcomes of trials and none of their files", "look for them in /"),
        (["runs", "logs", "h", "good/2"], "outcomes of trials and none of their files", "termarena runs show h"),
        (["replay", "h/good"], "was imported from harbor", "look for them in /"),
        (["regrade", "h"], "no file state was captured", "grade again in harbor"),
        (["resume", "h"], "cannot be carried on here", "go on with it in harbor"),
    ],
)
def test_what_an_imported_run_cannot_do_says_where_to_look(
    tmp_path: Path, words: list[str], problem: str, hint: str
) -> None:
    unpack("harbor-oracle", tmp_path / "job")
    termarena("import", "harbor", "job", "--out", "h", cwd=tmp_path)
    before = (tmp_path / "h" / "journal.jsonl").read_bytes()
    done = termarena(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert hint in done.stderr.partition("hint: ")[2]
    assert (tmp_path / "h" / "journal.jsonl").read_bytes() == before


def test_an_unfinished_run_of_others_is_not_to_be_resumed_here(tmp_path: Path) -> None:
    job = unpack("harbor-oracle", tmp_path / "job")
    trial_file(job, "good").unlink()
    termarena("import", "harbor", "job", "--out", "h", cwd=tmp_path)
    said = termarena("runs", "show", "h", cwd=tmp_path).stderr
    assert "termarena resume" not in said
    assert "next: " in said


def test_a_job_of_several_agents_becomes_several_runs(tmp_path: Path) -> None:
    unpack("harbor-oracle", tmp_path / "job")
    for folder in unpack("harbor-nop", tmp_path / "nop").iterdir():
        if folder.is_dir():
            shutil.copytree(folder, tmp_path / "job" / folder.name)
    done = termarena("import", "harbor", "job", "--out", "out", "--json", cwd=tmp_path)
    runs = json.loads(done.stdout)["runs"]
    assert sorted(run["run"] for run in runs) == ["out/nop-ht", "out/oracle-ht"]
    assert sum(run["total"] for run in runs) == 40


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    job = unpack("harbor-oracle", tmp_path / "job")
    (job / "result.json").write_text("{")
    done = termarena("import", "harbor", "job", cwd=tmp_path)
    assert done.returncode == 0
    assert "note: job/result.json cannot be read" in done.stderr


@pytest.mark.parametrize("kind", ["harbor", "tb"])
def test_a_folder_that_is_not_theirs_is_an_error_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    done = termarena("import", kind, ".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "with a result" in done.stderr
    assert list(tmp_path.iterdir()) == []
