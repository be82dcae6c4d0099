"""`termarena prove` as a user meets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.tasks import Made, make_task

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("user-namespaces")


def test_a_gate_lets_nothing_through_that_falls_short(tmp_path: Path) -> None:
    make_task(tmp_path / "broken", Made(solution="true\n"))
    (tmp_path / "policy.toml").write_text('least_grade = "A"\n')
    words = ("prove", "broken", "-k", "1", "--gate", "policy.toml", "--out", "cards", "--json")
    done = termarena(*words, cwd=tmp_path, env={"TERMARENA_HOME": str(tmp_path / "home")})
    assert done.returncode == 1, done.stderr
    (told,) = json.loads(done.stdout)
    assert told["letter"] == "F"
    assert [fault["rule"] for fault in told["faults"]] == ["unsolvable"]
    assert told["falls_short"][0] == "its grade is F, and A is asked for"
    assert sorted(path.name for path in (tmp_path / "cards").iterdir()) == [
        "broken",
        "summary.html",
        "summary.json",
        "summary.md",
    ]
    assert sorted(path.name for path in (tmp_path / "cards" / "broken").iterdir()) == [
        "card.html",
        "card.md",
        "proof.json",
    ]
    again = termarena(*words[:-1], cwd=tmp_path, env={"TERMARENA_HOME": str(tmp_path / "home")})
    assert "next: read cards/broken/card.md\n" in again.stderr


def test_a_policy_that_is_not_there_is_told_before_anything_is_tried(tmp_path: Path) -> None:
    done = termarena("prove", "hello-world", "--gate", "none.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "cannot read none.toml" in done.stderr
    (tmp_path / "none.toml").write_text("no TOML")
    done = termarena("prove", "hello-world", "--gate", "none.toml", cwd=tmp_path)
    assert (done.returncode, "none.toml is no TOML" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "none.toml"]


def test_a_driver_that_there_is_not_is_told_before_any_task(tmp_path: Path) -> None:
    done = termarena("prove", "hello-world", "--driver", "dokcer", cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "no driver is called dokcer; there is: namespace, docker, auto" in done.stderr
    assert "hello-world" not in done.stderr


def test_the_radar_says_what_to_do_without_a_proof(tmp_path: Path) -> None:
    make_task(tmp_path / "one")
    done = termarena("prove", "one", "--radar", cwd=tmp_path, env={"TERMARENA_HOME": str(tmp_path / "home")})
    assert "unproven" in done.stdout
    assert "run it without --radar first" in done.stdout
