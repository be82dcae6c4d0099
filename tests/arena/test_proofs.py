"""Proofs and the forge's funnel, as the arena shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.arena_server import Server, served
from support.made_proofs import fill_forge, proof_named
from support.made_runs import Made, made_run
from termarena.arena.keys import add_key
from termarena.proof.faults import Fault
from termarena.proof.report import write_proof

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made_run(tmp_path / "runs" / "mine", {"easy": "11"}, Made(digests={"easy": "task1:easy"}))
    (tmp_path / "proofs" / "easy").mkdir(parents=True)
    faults = (Fault(rule="weak-tests", message="Half of <them> pass."),)
    write_proof(tmp_path / "proofs" / "easy" / "proof.json", proof_named("easy", letter="C", faults=faults))
    fill_forge(tmp_path / "forge")
    with served(tmp_path / "runs", proofs=tmp_path / "proofs", forge=tmp_path / "forge") as made:
        yield made


def test_a_proof_is_on_the_page_of_its_task(server: Server, tmp_path: Path) -> None:
    page = server.page("/tasks/easy")
    assert "Grade C" in page
    assert "Half of &lt;them&gt; pass." in page
    assert server.json("/tasks/easy/proofs")[0]["faults"][0]["question"] == "weak-tests"
    assert server.json("/proofs/task1:easy")["letter"] == "C"
    newer = proof_named("easy", made_at="2026-11-16T00:00:00+00:00")
    write_proof(tmp_path / "proofs" / "easy" / "proof.json", newer)
    server.look()
    assert "Grade A" in server.page("/tasks/easy")
    assert "Grade A" in server.page("/proofs/task1:easy")


def test_a_proof_is_sent_and_counted_in_the_summary(server: Server, tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {add_key(server.held.database, 'lab', ['submit'])}"}
    write_proof(tmp_path / "other.json", proof_named("hard", letter="F"))
    assert server.client.post("/api/proofs", content=(tmp_path / "other.json").read_bytes()).status_code == 401
    for body, status in (
        ((tmp_path / "other.json").read_bytes(), 201),
        ((tmp_path / "proofs" / "easy" / "proof.json").read_bytes(), 409),
        (b"{}", 400),
        (b"", 400),
    ):
        assert server.client.post("/api/proofs", content=body, headers=headers).status_code == status
    summary = server.json("/proofs")
    assert (summary["tasks"], summary["letters"]) == (2, {"C": 1, "F": 1})
    assert "sent by lab" in server.page("/proofs/task1:hard")
    assert 'href="/proofs/task1%3Ahard"' in server.page("/proofs")


def test_the_funnel_tells_where_recordings_end(server: Server) -> None:
    funnel = server.json("/forge")
    assert (funnel["yields"]["recordings"], funnel["yields"]["admitted"]) == (3, 1)
    screen = next(gate for gate in funnel["yields"]["gates"] if gate["name"] == "screen")
    assert (screen["came"], screen["refused"], screen["example"]) == (3, 2, "it is empty")
    page = server.page("/forge")
    assert "A &lt;b&gt;title" in page
    assert "/secret/place" not in page
    assert "/secret/place" not in str(funnel)


def test_without_a_ledger_there_is_no_funnel(runs: Path) -> None:
    with served(runs) as server:
        assert server.client.get("/api/forge").status_code == 404
        assert "--forge FOLDER" in server.page("/forge")
        assert "None yet" in server.page("/proofs")
    assert not list(runs.parent.glob("**/ledger.sqlite"))
