"""The ledger: outcomes that stand, evidence by its digest, recordings that never come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.sessions import COUNTING, SORTING
from termarena.core.errors import NotFound, UsageError
from termarena.forge.ledger import FILE, Ledger, Outcome, key_of
from termarena.forge.making import MakingConfig, put_in_place
from termarena.forge.yields import yields_of

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.ledger import State


def _outcome(digest: str, state: State = "admitted", gate: str = "prove", at: str = "2026-01-01") -> Outcome:
    names = (f"sha256:{digest}", "key", f"{digest}.cast", "A title")
    return Outcome(*names, state, gate, "a reason", f"task-{digest}", None, 1.0, 1.0, 2.0, "", at)


def test_an_outcome_stands_for_its_key_only_and_a_failure_does_not(tmp_path: Path) -> None:
    with Ledger(tmp_path / "forge") as ledger:
        ledger.write(_outcome("aaaaaa"))
        ledger.write(_outcome("bbbbbb", "failed", "OSError"))
        assert ledger.known("sha256:aaaaaa", "key") == _outcome("aaaaaa")
        assert ledger.known("sha256:aaaaaa", "other") is None
        assert ledger.known("sha256:bbbbbb", "key") is None


def test_another_setting_or_another_reading_is_another_key() -> None:
    plain = key_of(COUNTING, MakingConfig())
    assert key_of(COUNTING, MakingConfig()) == plain
    assert key_of(COUNTING, MakingConfig(least_fidelity=0.7)) != plain
    assert key_of(COUNTING.model_copy(update={"commands": SORTING.commands}), MakingConfig()) != plain


def test_evidence_that_was_changed_is_not_shown(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        digest = ledger.keep({"a": 1})
        assert ledger.evidence(digest) == {"a": 1}
        (tmp_path / "objects" / digest[:2] / digest[2:]).write_text("{}")
        with pytest.raises(NotFound, match="not there as it was written"):
            ledger.evidence(digest)


def test_a_takedown_removes_everything_and_blocks(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "task-aaaaaa"
    task.mkdir(parents=True)
    with Ledger(tmp_path) as ledger:
        evidence = ledger.keep({"a": 1})
        ledger.write(_outcome("aaaaaa")._replace(folder=str(task), evidence=evidence))
        removed = ledger.take_down(ledger.find("aaaaaa.cast"))
        assert len(removed) == 2
        assert not task.exists()
        assert ledger.latest() == []
        assert ledger.is_blocked("sha256:aaaaaa")
        with pytest.raises(NotFound):
            ledger.find("aaaaaa.cast")


def test_a_takedown_finds_what_was_replaced_and_what_was_left_unfinished(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    for name in ("task-aaaaaa", ".task-aaaaaa.123", "task-bbbbbb"):
        (tasks / name).mkdir(parents=True)
    with Ledger(tmp_path / "forge") as ledger:
        failed = ledger.keep({"recording": {"digest": "sha256:aaaaaa"}, "traceback": "it failed"})
        ledger.write(_outcome("aaaaaa", "failed")._replace(evidence=failed))
        made = ledger.keep({"recording": {"digest": "sha256:aaaaaa"}, "state": "admitted"})
        ledger.write(_outcome("aaaaaa")._replace(evidence=made, folder=str(tasks / "task-aaaaaa")))
        other = ledger.keep({"recording": {"digest": "sha256:bbbbbb"}})
        assert len(ledger.take_down(ledger.find("task-aaaaaa"))) == 4
        assert ledger.evidence(other)
        assert [path.name for path in tasks.iterdir()] == ["task-bbbbbb"]
        for digest in (failed, made):
            with pytest.raises(NotFound):
                ledger.evidence(digest)


def test_a_takedown_that_fails_half_way_blocks_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "task-aaaaaa").mkdir()

    def broken(_: object) -> None:
        raise PermissionError

    with Ledger(tmp_path / "forge") as ledger:
        ledger.write(_outcome("aaaaaa")._replace(folder=str(tmp_path / "task-aaaaaa")))
        monkeypatch.setattr("shutil.rmtree", broken)
        with pytest.raises(PermissionError):
            ledger.take_down(ledger.find("aaaaaa.cast"))
        assert ledger.is_blocked("sha256:aaaaaa")
        monkeypatch.undo()
        assert len(ledger.take_down(ledger.find("aaaaaa.cast"))) == 1


def test_a_task_takes_the_place_of_an_earlier_one_and_of_unfinished_ones(tmp_path: Path) -> None:
    for name, text in (("made", "new"), ("out/task-1", "old"), ("out/.task-1.77", "half"), ("out/task-12", "other")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "task.toml").write_text(text)
    put_in_place(tmp_path / "made", tmp_path / "out" / "task-1")
    left = {path.name: (path / "task.toml").read_text() for path in (tmp_path / "out").iterdir()}
    assert left == {"task-1": "new", "task-12": "other"}


def test_a_name_that_two_recordings_have_names_none(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        for digest in ("aaaaaa1", "aaaaaa2"):
            ledger.write(_outcome(digest)._replace(source=f"{digest}/demo.cast"))
        for name in ("demo.cast", "aaaaaa"):
            with pytest.raises(UsageError, match="2 recordings are called"):
                ledger.find(name)
        assert ledger.find("aaaaaa2/demo.cast").recording == ledger.find("aaaaaa2").recording == "sha256:aaaaaa2"


def test_the_yield_counts_gate_by_gate() -> None:
    rows = [
        _outcome("a"),
        _outcome("b", "refused", "synthesize"),
        _outcome("c", "refused", "prove"),
        _outcome("d", "failed"),
    ]
    found = yields_of(rows)
    assert (found.recordings, found.admitted, found.failed) == (4, 1, 1)
    assert {gate.name: (gate.came, gate.refused) for gate in found.gates} == {
        "screen": (3, 0),
        "synthesize": (3, 1),
        "reproduce": (2, 0),
        "test": (2, 0),
        "instruct": (2, 0),
        "prove": (2, 1),
    }
    assert found.tasks_per_hour == 450.0


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database, but long enough to be taken for one" * 40)
    with pytest.raises(UsageError, match="is no ledger"):
        Ledger(tmp_path)
