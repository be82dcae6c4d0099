"""Whole tasks, made in real sandboxes: admitted, or refused at the right gate."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from support.sessions import COMMITTING, COUNTING, SHORT, SORTING, command, session
from termarena.core.errors import RecordingRefused
from termarena.forge.making import Making, MakingConfig, evidence
from termarena.forge.transcript import Facts
from termarena.tasks import load_task
from termarena.tasks.lint import lint

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.bench import Bench
    from termarena.forge.transcript import Transcript

pytestmark = pytest.mark.needs("user-namespaces")


async def _make(bench: Bench, transcript: Transcript, tmp_path: Path) -> tuple[Making, Path]:
    making = Making(transcript, bench, tmp_path / "work", MakingConfig(screen=SHORT))
    return making, await making.make(tmp_path / "out")


async def test_a_session_becomes_a_task_that_stands_its_three_trials(bench: Bench, tmp_path: Path) -> None:
    making, folder = await _make(bench, SORTING, tmp_path)
    assert making.proof is not None
    assert making.replay is not None
    assert making.replay.fidelity == 1.0
    kinds = {"AllPassing", "Nop", "Partial", "Equivalence"}
    assert {trial.kind for trial in making.proof.trials if trial.holds} == kinds
    assert making.proof.told.startswith("AllPassing: 3 of 3 pass, Nop: 1 of 1 fails every test, Partial: ")
    assert re.search(r"Partial: (\d+) of \1 fail, Equivalence: (\d+) of \2 pass$", making.proof.told)
    assert making.proof.mutation_score == 1.0
    task = load_task(folder)
    assert [finding.message for finding in lint(task) if finding.severity != "info"] == []
    assert task.environment.bare is not None
    assert task.metadata.category == "text_processing"
    assert "/app/sorted.txt" in task.instruction
    assert "sort -u" not in task.instruction


async def test_what_is_kept_of_a_title_is_redacted(bench: Bench, tmp_path: Path) -> None:
    transcript = session("Backup of ada.lovelace", "mkdir a", "touch a/b", facts=Facts(user="ada.lovelace"))
    making = Making(transcript, bench, tmp_path, MakingConfig(screen=SHORT))
    assert evidence(making)["title"] == ""
    making.screen()
    assert evidence(making)["title"] == "Backup of user1"


async def test_an_output_becomes_an_answer_that_is_asked_for_in_words(bench: Bench, tmp_path: Path) -> None:
    making, folder = await _make(bench, COUNTING, tmp_path)
    assert [(fact.probe, fact.path, fact.value) for fact in making.facts] == [("text", "/app/answer.txt", "2\n")]
    assert (folder / "environment" / "files" / "1").read_text() == "INFO start\nERROR disk\nINFO go\nERROR net\n"
    told = (folder / "instruction.md").read_text()
    assert "holds the number of lines of `app.log` that contain `ERROR`" in told
    assert "```" not in told


@pytest.mark.needs("git")
async def test_a_repository_is_asked_as_a_whole(bench: Bench, tmp_path: Path) -> None:
    making, _ = await _make(bench, COMMITTING, tmp_path)
    found = {fact.probe: fact.value for fact in making.facts}
    assert found["git_branch"] == "main"
    assert found["git_subjects"] == ["first commit"]
    assert found["git_files"] == {"README.md": "hello\n"}
    told = evidence(making)
    assert told["mutation_score"] == 1.0
    assert told["steps"][3]["reason"] == "failed with status 1 and leaves nothing that stays"


async def test_what_differs_from_run_to_run_is_no_fact(bench: Bench, tmp_path: Path) -> None:
    noisy = session(
        "Noise",
        "date > now.txt",
        "hostname > host.txt",
        "date -u +%F > day.txt",
        "echo $RANDOM$RANDOM > r",
        "echo x > k",
    )
    making, _ = await _make(bench, noisy, tmp_path)
    assert [fact.path for fact in making.facts] == ["/app/k"]
    assert making.draft is not None
    assert making.draft.solution.splitlines()[3:] == ["echo x > k"]


@pytest.mark.parametrize(
    ("transcript", "gate", "reason"),
    [
        (session("Gone", command("cp /srv/data.csv .", "", 0), "echo x > y"), "reproduce", "cp /srv/data.csv"),
        (session("Only the time", "date +%s > now.txt"), "test", "nothing that it leaves"),
        (session("No such program", "frobnicate-7 > x"), "synthesize", "done by frobnicate-7, which Debian"),
        (session("Dangerous", "touch a", "rm -rf /", "touch b"), "screen", "removes /"),
    ],
    ids=["missing input", "only noise", "unknown program", "dangerous"],
)
async def test_refused_at_its_gate(
    bench: Bench, tmp_path: Path, transcript: Transcript, gate: str, reason: str
) -> None:
    with pytest.raises(RecordingRefused) as refused:
        await _make(bench, transcript, tmp_path)
    assert refused.value.gate == gate
    assert reason in refused.value.reason
    assert not (tmp_path / "out").exists()


@pytest.mark.soak
async def test_a_result_of_what_is_gone_at_the_end_is_shown(bench: Bench, tmp_path: Path) -> None:
    gone = session("Gone", "printf 'b\\na\\n' > f.txt", "sort f.txt > out.txt", "echo c >> f.txt")
    _, folder = await _make(bench, gone, tmp_path)
    assert "`/app/out.txt` is a text file that holds exactly this:" in (folder / "instruction.md").read_text()
