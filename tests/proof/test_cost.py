"""Cost and leaks: what follows from what was measured and seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.tasks import LOOKS_FOR_ONE, Made
from termarena.proof.cost import measure_cost
from termarena.proof.evidence import Evidence, differences, state_of
from termarena.sandbox import Change, FileChanges

if TYPE_CHECKING:
    from proof.conftest import Prover

MIB = 1 << 20


def _attempt(work_s: float, condition: str = "plain", *, memory_mb: int = 100) -> Evidence:
    return Evidence(
        stage="solvable",
        name="oracle",
        key="0",
        condition=condition,
        outcome="solved",
        work_s=work_s,
        grade_s=1.0,
        memory_peak_bytes=memory_mb * MIB,
    )


def test_limits_leave_room_and_what_leaves_none_is_told(prover: Prover) -> None:
    task = prover.task(Made(agent_s=30.0, memory_mb=110))
    cost = measure_cost(task, [_attempt(26.0), _attempt(20.0), _attempt(50.0, "slow")])
    assert cost is not None
    assert cost.suggested.agent_timeout_s == 110.0
    assert cost.suggested.memory_mb == 256
    assert cost.slowed_down == pytest.approx(51 / 27, abs=0.01)
    assert [limit.split(",")[0] for limit in cost.tight] == ["the agent's 30 s", "the memory of 110 MiB"]


def test_a_network_is_measured_by_who_is_asked(prover: Prover) -> None:
    requests = ("GET http://a.test:80/one", "GET http://b.test/two", "GET http://a.test:80/three")
    cost = measure_cost(prover.task(), [_attempt(1.0)], requests)
    assert cost is not None
    assert cost.hosts == ("a.test:80", "b.test")


def test_nothing_is_measured_where_nothing_passes(prover: Prover) -> None:
    failed = _attempt(1.0).model_copy(update={"outcome": "unsolved"})
    assert measure_cost(prover.task(), [failed]) is None


def test_a_state_holds_neither_times_nor_the_gradings_own_places() -> None:
    changes = FileChanges(
        (
            Change("/app", "metadata", "folder"),
            Change("/app/a", "added", "file", mode=0o644, uid=0, gid=0, digest="12" * 32),
            Change("/app/__pycache__/a.pyc", "added", "file", mode=0o644, uid=0, gid=0, digest="34" * 32),
            Change("/logs/verifier/reward.txt", "added", "file"),
            Change("/app/old", "removed", "file"),
        )
    )
    assert state_of(changes) == {"/app/a": f"file 644 0:0 {'12' * 16}", "/app/old": "removed"}
    assert differences({"/a": "1", "/b": "1"}, {"/a": "2", "/c": "1"}, noise=frozenset({"/c"})) == ("/a", "/b")


@pytest.mark.needs("user-namespaces")
async def test_an_answer_that_lies_about_is_a_leak(prover: Prover) -> None:
    answer = "the answer is forty-two, they say"
    made = Made(
        solution=f"echo '{answer}' >/app/one.txt\n",
        setup=f"mkdir -p /app /srv/old; echo '{answer}' >/srv/old/notes\n",
        tests=LOOKS_FOR_ONE.replace("-qx 1", f"-qx '{answer}'"),
    )
    prover.options = replace(prover.options, jobs=1)
    proof = await prover.prove(prover.task(made), attempts=1, mutants=0)
    assert proof.leaks is not None
    assert [(one.kind, one.where) for one in proof.leaks.leaks] == [("answer", "/srv/old/notes")]
    assert [fault.rule for fault in proof.faults] == ["leak"]
