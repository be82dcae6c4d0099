"""The ledger: outcomes that stand, evidence by its digest, recordings that never come back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.sessions import COUNTING, SORTING
from termarena.core.errors import NotFound, UsageError
from termarena.forge import ledger
from termarena.forge.ledger import FILE, Ledger, Outcome, key_of
from termarena.forge.making import MakingConfig, put_in_place
from termarena.forge.yields import yields_of

if TYPE_CHECKING:
    from termarena.forge.ledger import State


def _outcome(digest: str, state: State = "admitted", gate: str = "prove", at: str = "2026-01-01") -> Outcome:
    names = (f"sha256:{digest}", "key", f"{digest}.cast", "A title")
    return Outcome(*names, state, gate, "a reason", f"task-{digest}", None, 1.0, 1.0, 2.0, "", at)


def test_an_outcome_stands_for_its_key_only_and_a_failure_does_not(tmp_path: Path) -> None:
    with Ledger(tmp_path / "forge") as kept:
        kept.write(_outcome("aaaaaa"))
        kept.write(_outcome("bbbbbb", "failed", "OSError"))
        assert kept.known("sha256:aaaaaa", "key") == _outcome("aaaaaa")
        assert kept.known("sha256:aaaaaa", "other") is None
        assert kept.known("sha256:bbbbbb", "key") is None


def test_another_setting_or_another_reading_is_another_key() -> None:
    plain = key_of(COUNTING, MakingConfig())
    assert key_of(COUNTING, MakingConfig()) == plain
    assert key_of(COUNTING, MakingConfig(least_fidelity=0.7)) != plain
    assert key_of(COUNTING.model_copy(update={"commands": SORTING.commands}), MakingConfig()) != plain
    assert key_of(COUNTING.model_copy(update={"source": f"/elsewhere/{COUNTING.source}"}), MakingConfig()) == plain
    assert key_of(COUNTING.model_copy(update={"source": "https://casts.example/a/1"}), MakingConfig()) != plain


def test_other_mutations_are_another_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The partial solutions of a proof come from another room."""
    rooms = Path(ledger.__file__).parent.parent
    for room in ("forge", "proof"):
        shutil.copytree(rooms / room, tmp_path / room)
    monkeypatch.setattr(ledger, "files", lambda _: tmp_path)
    before = ledger.code_digest.__wrapped__()
    (tmp_path / "proof" / "mutants.py").write_text("# another version\n")
    assert ledger.code_digest.__wrapped__() != before


def test_evidence_that_was_changed_is_not_shown(tmp_path: Path) -> None:
    with Ledger(tmp_path) as kept:
        digest = kept.keep({"a": 1})
        assert kept.evidence(digest) == {"a": 1}
        (tmp_path / "objects" / digest[:2] / digest[2:]).write_text("{}")
        with pytest.raises(NotFound, match="not there as it was written"):
            kept.evidence(digest)


def test_a_takedown_removes_everything_and_blocks(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "task-aaaaaa"
    task.mkdir(parents=True)
    with Ledger(tmp_path) as kept:
        evidence = kept.keep({"a": 1})
        kept.write(_outcome("aaaaaa")._replace(folder=str(task), evidence=evidence))
        removed = kept.take_down(kept.find("aaaaaa.cast"))
        assert len(removed) == 2
        assert not task.exists()
        assert kept.latest() == []
        assert kept.is_blocked("sha256:aaaaaa")
        with pytest.raises(NotFound):
            kept.find("aaaaaa.cast")


def test_nothing_is_written_about_what_was_taken_down(tmp_path: Path) -> None:
    with Ledger(tmp_path) as kept:
        kept.block("sha256:aaaaaa", "https://casts.example/a/1")
        assert not kept.write(_outcome("aaaaaa"))
        assert not kept.place("sha256:aaaaaa", tmp_path / "task")
        assert kept.write(_outcome("bbbbbb"))
        assert [one.recording for one in kept.latest()] == ["sha256:bbbbbb"]
        assert kept.placed("sha256:aaaaaa") == []
        assert kept.is_blocked_source("https://casts.example/a/1")
        assert kept.is_blocked_source("http://casts.example/a/1")
        assert not kept.is_blocked_source("https://casts.example/a/11")


def test_a_takedown_finds_what_was_replaced_and_what_was_left_unfinished(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    for name in ("task-aaaaaa", ".task-aaaaaa.123", "task-bbbbbb"):
        (tasks / name).mkdir(parents=True)
    with Ledger(tmp_path / "forge") as kept:
        failed = kept.keep({"recording": {"digest": "sha256:aaaaaa"}, "traceback": "it failed"})
        kept.write(_outcome("aaaaaa", "failed")._replace(evidence=failed))
        made = kept.keep({"recording": {"digest": "sha256:aaaaaa"}, "state": "admitted"})
        kept.write(_outcome("aaaaaa")._replace(evidence=made, folder=str(tasks / "task-aaaaaa")))
        other = kept.keep({"recording": {"digest": "sha256:bbbbbb"}})
        assert len(kept.take_down(kept.find("task-aaaaaa"))) == 4
        assert kept.evidence(other)
        assert [path.name for path in tasks.iterdir()] == ["task-bbbbbb"]
        for digest in (failed, made):
            with pytest.raises(NotFound):
                kept.evidence(digest)


def test_a_takedown_that_fails_half_way_blocks_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "task-aaaaaa").mkdir()

    def broken(_: object) -> None:
        raise PermissionError

    with Ledger(tmp_path / "forge") as kept:
        kept.write(_outcome("aaaaaa")._replace(folder=str(tmp_path / "task-aaaaaa")))
        monkeypatch.setattr("shutil.rmtree", broken)
        with pytest.raises(PermissionError):
            kept.take_down(kept.find("aaaaaa.cast"))
        assert kept.is_blocked("sha256:aaaaaa")
        monkeypatch.undo()
        assert len(kept.take_down(kept.find("aaaaaa.cast"))) == 1


def test_a_task_takes_the_place_of_an_earlier_one_and_of_unfinished_ones(tmp_path: Path) -> None:
    for name, text in (("made", "new"), ("out/task-1", "old"), ("out/.task-1.77", "half"), ("out/task-12", "other")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "task.toml").write_text(text)
    put_in_place(tmp_path / "made", tmp_path / "out" / "task-1")
    left = {path.name: (path / "task.toml").read_text() for path in (tmp_path / "out").iterdir()}
    assert left == {"task-1": "new", "task-12": "other"}


def test_a_name_that_two_recordings_have_names_none(tmp_path: Path) -> None:
    with Ledger(tmp_path) as kept:
        for digest in ("aaaaaa1", "aaaaaa2"):
            kept.write(_outcome(digest)._replace(source=f"{digest}/demo.cast"))
        for name in ("demo.cast", "aaaaaa"):
            with pytest.raises(UsageError, match="2 recordings are called"):
                kept.find(name)
        assert kept.find("aaaaaa2/demo.cast").recording == kept.find("aaaaaa2").recording == "sha256:aaaaaa2"


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
        "read": (3, 0),
        "duplicates": (3, 0),
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


def test_of_two_outcomes_in_one_second_the_later_counts(tmp_path: Path) -> None:
    admitted = _outcome("a")._replace(key="usual", state="admitted", at="2026-01-01T00:00:00Z")
    refused = admitted._replace(key="strict", state="refused")
    with Ledger(tmp_path) as ledger:
        seen = []
        for outcome in (refused, admitted, refused, admitted):
            ledger.write(outcome)
            seen += [one.state for one in ledger.latest()]
    assert seen == ["refused", "admitted", "refused", "admitted"]
