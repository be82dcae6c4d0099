"""The server as a client meets it: real HTTP on loopback, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.arena_server import Server, served
from support.made_attempts import made_attempt
from support.made_runs import Made, made_run
from termarena.analysis import compare_runs
from termarena.core.run_folder import RunFolder
from termarena.runs.plan import RunOptions
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STRONG = {f"set/task-{n:02}": "111" for n in range(12)}
WEAK = {f"set/task-{n:02}": "000" if n < 9 else "101" for n in range(12)}


@pytest.fixture(scope="module")
def filled(shared_db_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that tests only read from."""
    runs = tmp_path_factory.mktemp("arena") / "runs"
    made_run(runs / "strong", STRONG, Made(agent="good:Agent", model="acme/large"))
    made_run(runs / "strong-too", STRONG | {"set/task-00": "11?"}, Made(agent="fine:Agent"))
    made_run(runs / "weak", WEAK, Made(agent="poor:Agent"))
    made_run(runs / "hurried", WEAK, Made(agent="poor:Agent", options=RunOptions(timeout_multiplier=2)))
    made_run(runs / "going-on", dict.fromkeys(STRONG, "1--"), Made(agent="slow:Agent"))
    with served(runs, shared_db_url) as server:
        yield server


def _digest(server: Server) -> str:
    datasets = server.json("/datasets")
    assert [one["runs"] for one in datasets] == [5]
    return str(datasets[0]["digest"])


def test_ranks_are_sets_and_ties_are_ties(filled: Server) -> None:
    board = filled.json(f"/datasets/{_digest(filled)}/leaderboard")
    ranks = {one["entrant"]["agent"]: (one["best_rank"], one["worst_rank"]) for one in board["entries"]}
    assert ranks == {"good:Agent": (1, 2), "fine:Agent": (1, 2), "poor:Agent": (3, 3)}


def test_a_leaderboard_says_what_a_comparison_says(filled: Server) -> None:
    runs = filled.held.config.runs
    compared = compare_runs([read_run(RunFolder(runs / name)) for name in ("strong", "strong-too", "weak")])
    board = filled.json(f"/datasets/{_digest(filled)}/leaderboard")
    for side in compared.sides:
        entry = next(one for one in board["entries"] if one["entrant"]["agent"] == side.agent)
        assert side.accuracy is not None
        assert side.accuracy.interval is not None
        assert entry["accuracy"] == pytest.approx(side.accuracy.mean)
        assert entry["interval_low"] == pytest.approx(side.accuracy.interval.low)
        assert (entry["best_rank"], entry["worst_rank"]) == (side.ranks.best, side.ranks.worst)


def test_unscored_trials_are_bounds_and_never_zeros(filled: Server) -> None:
    board = filled.json(f"/datasets/{_digest(filled)}/leaderboard")
    entry = next(one for one in board["entries"] if one["entrant"]["agent"] == "fine:Agent")
    assert (entry["accuracy"], entry["unscored"]) == (1.0, 1)
    assert entry["accuracy_low"] == pytest.approx(1 - 1 / 36)
    assert entry["accuracy_high"] == 1.0


def test_changed_limits_and_unfinished_runs_stand_beside_the_table(filled: Server) -> None:
    board = filled.json(f"/datasets/{_digest(filled)}/leaderboard")
    why = {one["run"]["slug"]: [reason["reason"] for reason in one["reasons"]] for one in board["unranked"]}
    assert why == {"hurried": ["timeout_multiplier"], "going-on": ["unfinished"]}
    poor = next(one for one in board["entries"] if one["entrant"]["agent"] == "poor:Agent")
    assert poor["runs"] == ["weak"]


def test_runs_of_one_setup_count_together(server: Server, runs: Path) -> None:
    made_run(runs / "weak", WEAK, Made(agent="poor:Agent"))
    assert server.look() == 1
    made_run(runs / "weak-again", STRONG, Made(agent="poor:Agent"))
    assert server.look() == 1
    board = server.json(f"/datasets/{server.json('/datasets')[0]['digest']}/leaderboard")
    (poor,) = board["entries"]
    assert (poor["runs"], poor["trials"], poor["best_rank"]) == (["weak-again", "weak"], 72, 1)
    assert poor["accuracy"] == pytest.approx((1 + 6 / 36) / 2)


def test_runs_are_listed_and_chosen(filled: Server) -> None:
    assert {run["slug"] for run in filled.json("/runs")} == {"strong", "strong-too", "weak", "hurried", "going-on"}
    assert [run["slug"] for run in filled.json("/runs", state="interrupted")] == ["going-on"]
    assert {run["slug"] for run in filled.json("/runs", agent="poor:Agent")} == {"weak", "hurried"}
    first, second = filled.json("/runs", limit=1), filled.json("/runs", limit=1, offset=1)
    assert len(first) == len(second) == 1
    assert first != second


def test_trials_are_listed_and_chosen(filled: Server) -> None:
    rows = filled.json("/runs/weak/trials", outcome="solved")
    assert [(row["task"], row["attempt"]) for row in rows] == [
        (f"set/task-{n:02}", attempt) for n in (9, 10, 11) for attempt in (1, 3)
    ]
    assert len(filled.json("/runs/weak/trials", limit=1000)) == 36
    slug = rows[0]["task_slug"]
    assert [row["attempt"] for row in filled.json("/runs/weak/trials", task=slug)] == [1, 2, 3]
    assert filled.json(f"/runs/weak/trials/{slug}/2")[0]["outcome"] == "unsolved"


def test_a_run_has_its_report(filled: Server) -> None:
    detail = filled.json("/runs/strong-too")
    assert detail["report"]["unscored"] == 1
    assert detail["report"]["pass_rates"][2]["k"] == 3
    assert detail["run"]["entrant"]["agent"] == "fine:Agent"


@pytest.mark.parametrize(
    "path", ["/runs/none", "/runs/none/trials", "/runs/weak/trials/none/1", "/tasks/none", "/agents/none"]
)
def test_what_is_not_there_is_told_with_a_hint(filled: Server, path: str) -> None:
    answer = filled.client.get(f"/api{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["kind"] == "NotFound"
    assert "list" in answer.json()["error"]["hint"]


def test_pages_show_what_the_api_tells(filled: Server) -> None:
    home = filled.page("/")
    assert all(name in home for name in ("good:Agent", "acme/large", "1\u20132", "Not ranked", "multiplied by 2"))
    assert "set/task-03" in filled.page("/runs/weak")
    only = filled.page("/runs/weak?outcome=solved&failure_mode=")
    assert ("set/task-10" in only, "set/task-03" in only) == (True, False)
    assert "set/task-11" in filled.page("/runs/weak?text=K-11")
    assert "No task is like that" in filled.page("/runs/weak?text=%25")
    slug = filled.json("/runs/weak/trials")[0]["task_slug"]
    assert "strong-too" in filled.page(f"/tasks/{slug}")
    assert "the files of this attempt are not here" in filled.page(f"/runs/weak/{slug}/1")
    entrant = filled.json("/runs/weak")["run"]["entrant"]["id"]
    assert "hurried" in filled.page(f"/agents/{entrant}")
    assert "good:Agent" in filled.page("/agents")
    assert "going-on" in filled.page("/runs?state=interrupted&dataset=&agent=")


def test_names_from_outside_are_never_markup(runs: Path, server: Server) -> None:
    nasty = "<script>alert(1)</script>"
    made_run(runs / "nasty", {f"{nasty}/{n}": "1" for n in range(3)}, Made(agent=nasty, model=nasty, dataset=nasty))
    assert server.look() == 1
    slug = server.json("/runs/nasty/trials")[0]["task_slug"]
    for path in ("/", "/runs", "/runs/nasty", "/agents", f"/tasks/{slug}", f"/runs/nasty/{slug}/1"):
        page = server.page(path)
        assert "&lt;script&gt;" in page
        assert "<script>" not in page


def test_a_task_whose_name_is_not_utf8_is_taken_in_and_shown(runs: Path, server: Server) -> None:
    name = "caf\udce9"
    view = made_run(runs / "odd", {name: "10", "plain": "1"})
    made_attempt(view.folder.attempt(name, 1), task=name)
    assert server.look() == 1
    assert server.json("/health")["problems"] == {}
    slug = next(row["task_slug"] for row in server.json("/runs/odd/trials") if row["task_slug"] != "plain")
    assert "Replay" in server.page(f"/runs/odd/{slug}/1")
    for path in ("/", "/runs/odd", f"/tasks/{slug}"):
        server.page(path)
    assert server.json(f"/runs/odd/trials/{slug}/2")[0]["outcome"] == "unsolved"


def test_an_empty_arena_says_how_to_begin(server: Server) -> None:
    assert "termarena run" in server.page("/")
    assert server.json("/datasets") == []


def test_a_folder_that_is_no_run_is_passed_by_and_a_broken_one_is_named(runs: Path, server: Server) -> None:
    (runs / "notes").mkdir()
    view = made_run(runs / "broken", {"one": "1"})
    content = view.folder.journal.read_bytes()
    view.folder.journal.write_bytes(content.replace(b"solved", b"solvex"))
    made_run(runs / "whole", {"one": "1"})
    assert server.look() == 1
    health = server.json("/health")
    assert health["status"] == "troubled"
    assert list(health["problems"]) == ["broken"]
    assert "checksum" in health["problems"]["broken"]
    assert "broken" in server.page("/runs")
    view.folder.journal.write_bytes(content)
    assert server.look() == 1
    assert server.json("/health")["status"] == "ok"


def test_the_document_of_the_api_is_served(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    assert "/api/runs/{run}/trials" in document["paths"]
    assert not any(path.startswith("/runs") for path in document["paths"])
