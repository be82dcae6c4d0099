"""Policies, summaries, pages and the radar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox.fetches.internet import serving
from support.tasks import Made
from termarena.cli.prove import _print_radar
from termarena.core.errors import SandboxStartError, UsageError
from termarena.grading import Grader
from termarena.proof.card import card_of
from termarena.proof.discriminating import Discriminating
from termarena.proof.evidence import Evidence, Graded
from termarena.proof.exploit import known_exploits
from termarena.proof.faults import solvable_faults, weak_faults
from termarena.proof.hackable import hackable_of
from termarena.proof.html import card_page, summary_page
from termarena.proof.policy import Policy, falls_short, read_policy
from termarena.proof.proving import look_again
from termarena.proof.radar import Sighting
from termarena.proof.report import Proof, write_proof
from termarena.proof.solvable import Solvable, wilson
from termarena.proof.stand import Stand
from termarena.proof.summary import summary_card, summary_of
from termarena.sandbox.staging import Stage
from termarena.tasks import load_task

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from proof.conftest import Prover
    from termarena.proof.stand import Act
    from termarena.sandbox.staging import StartState

BARE = Proof(
    task_id="a<b",
    task_digest="ta1:0",
    solution_digest="0" * 64,
    driver="namespace",
    battery=1,
    made_at="2026-11-15T00:00:00+00:00",
    seconds=1.0,
    trials=0,
    trials_run=0,
    letter="A",
    faults=(),
)


def test_what_is_unknown_falls_short() -> None:
    assert len(falls_short(BARE, Policy())) == 3


def test_exploits_that_could_not_be_tried_are_not_counted_as_harmless() -> None:
    exploits = known_exploits()[:2]
    judged = Evidence(stage="hackable", name="x", key="1", outcome="unsolved", gradings=(_graded(0.0),))
    failed = Evidence(stage="hackable", name="x", key="2", outcome="unscored")
    earned = judged.model_copy(update={"gradings": (_graded(1.0),)})
    half = hackable_of(exploits, [earned, failed])
    assert (half.tried, half.sealed, half.is_whole) == (1, 1.0, False)
    for tried in ([judged, failed], [failed, failed]):
        proof = BARE.model_copy(update={"hackable": hackable_of(exploits, tried)})
        assert any("unknown share of the exploits" in told for told in falls_short(proof, Policy()))
    told = card_of(BARE.model_copy(update={"hackable": half}))
    assert "yes: of 1 exploits 1 earn one sealed and 1 live; 1 would earn one live" in told
    assert "; 1 could not be tried" in told
    whole = BARE.model_copy(update={"hackable": hackable_of(exploits, [judged, judged])})
    assert len(falls_short(whole, Policy())) == 2
    assert "no: of 2 exploits 0 earn one sealed and 0 live" in card_of(whole)


def test_a_part_of_a_reward_is_earned_if_doing_nothing_earns_less() -> None:
    judged = Evidence(stage="hackable", name="x", key="1", outcome="unsolved", gradings=(_graded(0.4),))
    assert hackable_of(known_exploits()[:1], [judged]).sealed == 1.0
    assert hackable_of(known_exploits()[:1], [judged], nothing=0.4).sealed == 0.0


def _graded(reward: float) -> Graded:
    return Graded(graded_in="sealed", reward=reward, raw_reward=reward)


@pytest.mark.parametrize(("mutants", "left_out", "rules"), [(5, 0, ["weak-tests"]), (0, 0, ["weak-tests"]), (0, 7, [])])
def test_tests_that_no_wrong_solution_was_held_against_are_not_called_good(
    mutants: int, left_out: int, rules: list[str]
) -> None:
    found = Discriminating(
        mutants=mutants,
        left_out=left_out,
        equal=mutants,
        repeated=0,
        unscored=0,
        killed=0,
        survivors=(),
        score=None,
        by_operator={},
    )
    assert [fault.rule for fault in weak_faults(found)] == rules


def test_a_policy_says_which_field_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    with pytest.raises(UsageError, match="cannot read"):
        read_policy(path)
    wrong = ("least_grad = 'A'", "most_flake_rate = 2.0", "forbidden = ['no-such-rule']", "= no TOML", "\xff")
    for text, told in zip(wrong, ("least_grad", "most_flake_rate", "no-such-rule", "no TOML", "no TOML"), strict=True):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(UsageError, match=told):
            read_policy(path)
    path.write_text("least_grade = 'A'\nforbidden = ['leak']\n")
    assert read_policy(path) == Policy(least_grade="A", forbidden=("leak",))


def test_a_summary_counts_and_leaves_nothing_unknown_out() -> None:
    summary = summary_of([BARE, BARE.model_copy(update={"task_id": "z", "letter": "F"})])
    assert summary.letters == {"A": 1, "F": 1}
    assert summary.histograms[0].unknown == 2
    assert "| a&lt;b | A |" in summary_card(summary)


def test_pages_hold_no_markup_of_a_task() -> None:
    hostile = BARE.model_copy(update={"task_id": "<script>alert(1)</script>"})
    for page in (card_page(hostile), summary_page(summary_of([hostile]))):
        assert "<script" not in page
        assert "&lt;script&gt;" in page


def test_what_fails_only_on_a_busy_machine_is_not_called_flaky() -> None:
    found = Solvable(attempts=5, passes=3, failed_conditions=("plain",), flake_rate=0.4, flake_interval=(0.1, 0.8))
    assert [fault.rule for fault in solvable_faults(found)] == ["flaky"]
    for load, rule in ((0.5, "flaky"), (12.0, "fragile")):
        (fault,) = solvable_faults(found.model_copy(update={"load": load}))
        assert fault.rule == rule


def test_the_interval_of_no_failure_in_five() -> None:
    low, high = wilson(0, 5)
    assert low == 0.0
    assert high == pytest.approx(0.4345, abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


async def _look(prover: Prover, name: str = "task") -> Sighting:
    out = prover.folder / "out"
    (seen,) = await look_again([load_task(prover.folder / name)], prover.options, out=out, on_sighting=lambda _: None)
    assert isinstance(seen, Sighting)
    return seen


@pytest.mark.needs("user-namespaces")
async def test_the_radar_tells_what_rots(prover: Prover, tmp_path: Path) -> None:
    task = prover.task(Made(solution="cat /app/fetched >/app/one.txt\n", setup="mkdir -p /app; echo 1 >/app/fetched\n"))
    assert (await _look(prover)).status == "unproven"
    proof = await prover.prove(task, attempts=1, mutants=0)
    assert (await _look(prover)).status == "holds"
    path = tmp_path / "out" / "task" / "proof.json"
    then = proof.evidence[0].model_copy(update={"state": {**proof.evidence[0].state, "/app/one.txt": "file 644 other"}})
    write_proof(path, proof.model_copy(update={"evidence": (then,)}))
    drifted = await _look(prover)
    assert (drifted.status, drifted.paths) == ("drifted", ("/app/one.txt",))
    (tmp_path / "task" / "solution" / "solve.sh").write_text("#!/bin/sh\ntrue\n")
    assert (await _look(prover)).status == "changed"


def _unscored_recording(evidence: Evidence) -> Callable[..., Awaitable[Evidence]]:
    """Tries of which that which records comes to no end, as where a sandbox breaks."""
    really = Stand._try  # noqa: SLF001 - where a sandbox would break

    async def tried(stand: Stand, act: Act, key: str, *, is_graded: bool = True) -> Evidence:
        if act.stage == "fetches":
            return evidence.model_copy(update={"outcome": "unscored"})
        return await really(stand, act, key, is_graded=is_graded)

    return tried


@pytest.mark.needs("user-namespaces", "curl")
async def test_the_radar_names_the_fetch_that_drifted(
    prover: Prover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "127.0.0.11") as internet:
        internet.files |= {"/one": b"1\n", "/note": b"as ever\n"}
        fetches = "; ".join(f"curl -fsS http://{internet.http}/{name} >/app/{name}.txt" for name in ("one", "note"))
        prover.task(Made(solution=f"{fetches}\n"))
        document = tmp_path / "task" / "task.toml"
        allowed = 'network_mode = "allowlist"\nallowed_hosts = ["127.0.0.11"]'
        document.write_text(document.read_text().replace('network_mode = "no-network"', allowed))
        proof = await prover.prove(load_task(tmp_path / "task"), attempts=1, mutants=0)
        assert [fault.rule for fault in proof.faults] == []
        assert (await _look(prover)).answers == ()
        with monkeypatch.context() as broken:
            broken.setattr(Stand, "_try", _unscored_recording(proof.evidence[0]))
            assert (await _look(prover)).answers == ()
        internet.files["/one"] = b"2\n"
        seen = await _look(prover)
    assert (seen.status, seen.paths) == ("rotted", ("/app/one.txt",))
    (drifted,) = seen.answers
    assert drifted.startswith(f"GET http://{internet.http}/one: 200 sha256:")


@pytest.mark.needs("user-namespaces")
async def test_a_solution_that_could_not_be_tried_has_not_rotted(
    prover: Prover, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = await prover.prove(prover.task(), attempts=1, mutants=0)

    async def broken(*_: object, **__: object) -> StartState:
        raise SandboxStartError("no sandbox today")

    with monkeypatch.context() as machine:
        machine.setattr(Stage, "prepare", broken)
        seen = await _look(prover)
        assert (seen.status, seen.passes, seen.proven_at) == ("untried", False, proof.made_at)
        assert "no sandbox today" in seen.message
        assert _print_radar([seen], json=False) == 1
        monkeypatch.setattr(Grader, "_grade", broken)
    seen = await _look(prover)
    assert (seen.status, "no sandbox today" in seen.message) == ("untried", True)


@pytest.mark.needs("user-namespaces")
async def test_a_solution_that_no_longer_passes_has_rotted(prover: Prover, tmp_path: Path) -> None:
    broken = Made(solution="curl -s http://127.0.0.1:9/one >/app/one.txt\n")
    proof = await prover.prove(prover.task(broken), attempts=1, mutants=0)
    then = proof.evidence[0].model_copy(update={"outcome": "solved", "tests": {"test_one": "passed"}})
    write_proof(tmp_path / "out" / "task" / "proof.json", proof.model_copy(update={"evidence": (then,)}))
    seen = await _look(prover)
    assert (seen.status, seen.tests) == ("rotted", ("test_one",))
    assert seen.fetches[0].startswith("solve.sh:2: curl")
