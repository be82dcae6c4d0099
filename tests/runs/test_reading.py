"""A run as its journal tells it, however large."""

from __future__ import annotations

import json
import sys
import time
import tracemalloc
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from support.fake_trials import FACTS
from termarena.core.errors import UsageError
from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import lock_of, write_config_lock
from termarena.runs.journal import Journal, Tail
from termarena.runs.opening import open_run, started
from termarena.runs.plan import RunOptions, TrialKey
from termarena.runs.reading import history_of, read_run
from termarena.runs.result import TrialSummary
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.runs.outcome import Fault, Outcome

ONE = TrialKey("one", 1)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def _summary(key: TrialKey, outcome: Outcome, *, retry: int = 0, fault: Fault | None = None) -> TrialSummary:
    return TrialSummary(
        task_id=key.task_id,
        attempt=key.attempt,
        retry=retry,
        outcome=outcome,
        fault=fault,
        agent_end="submitted",
        failure_mode="NONE" if outcome == "solved" else "TEST_FAILED",
        reward=1.0 if outcome == "solved" else None,
        graded_in="sealed",
        tests_passed=3,
        tests_total=4,
        duration_s=12.5,
        work_s=10.25,
        commands=7,
        input_tokens=12345,
        output_tokens=678,
        cost_usd=0.125,
        is_retriable=outcome == "unscored",
    )


def _finish(journal: Journal, summary: TrialSummary) -> None:
    journal.append("trial_started", {"task_id": summary.task_id, "attempt": summary.attempt, "retry": summary.retry})
    journal.append("trial_finished", summary.model_dump())


def _write_run(folder: RunFolder, number: int, *, attempts: int = 1, finished: int) -> None:
    """A run as large as one likes, of tasks in one `tasks.json`."""
    source = folder.path.parent / "tasks.json"
    entries = [{"task_id": f"task-{n:06}", "instruction": "Do it.", "test_script": "true"} for n in range(number)]
    source.write_text(json.dumps(entries))
    lock = lock_of(RunOptions(attempts=attempts), load_dataset(source).tasks, FACTS)
    folder.path.mkdir()
    write_config_lock(folder, lock)
    with Journal(folder.journal, Tail()) as journal:
        journal.append("run_started", started(lock))
        fields = {outcome: _summary(ONE, outcome).model_dump() for outcome in ("solved", "unsolved")}
        for index, key in enumerate(islice(lock.trial_keys(), finished)):
            journal.append("trial_started", {**key._asdict(), "retry": 0})
            journal.append("trial_finished", fields["solved" if index % 3 else "unsolved"] | key._asdict())


def test_a_summary_comes_back_as_it_was(folder: RunFolder) -> None:
    folder.path.mkdir()
    summary = _summary(ONE, "solved")
    with Journal(folder.journal, Tail()) as journal:
        _finish(journal, summary)
    history = history_of(folder.journal)
    assert history.summary(ONE) == summary
    assert list(history.summaries()) == [summary]
    assert history.summary(TrialKey("one", 2)) is None
    assert (ONE in history, len(history)) == (True, 1)


def test_the_last_scored_try_counts_and_every_try_is_listed(folder: RunFolder) -> None:
    folder.path.mkdir()
    with Journal(folder.journal, Tail()) as journal:
        for retry in (0, 1):
            _finish(journal, _summary(ONE, "unscored", retry=retry, fault="test"))
        unscored = history_of(folder.journal)
        _finish(journal, _summary(ONE, "unsolved", retry=2))
        retried = history_of(folder.journal)
        journal.append("trial_regraded", _summary(ONE, "solved", retry=2).model_dump())
    regraded = history_of(folder.journal)
    outcomes = [unscored.outcome(ONE), retried.outcome(ONE), regraded.outcome(ONE)]
    assert outcomes == ["unscored", "unsolved", "solved"]
    assert [summary.retry for summary in regraded.tries(ONE)] == [0, 1, 2]
    assert (regraded.retries, regraded.regrades, list(regraded.retried())) == (2, 1, [ONE])


def test_a_regraded_try_counts_over_a_later_one_that_has_no_score(folder: RunFolder) -> None:
    folder.path.mkdir()
    with Journal(folder.journal, Tail()) as journal:
        for retry in (0, 1):
            _finish(journal, _summary(ONE, "unscored", retry=retry, fault="test"))
        journal.append("trial_regraded", _summary(ONE, "solved", retry=0).model_dump())
    history = history_of(folder.journal)
    summary = history.summary(ONE)
    assert summary is not None
    assert (summary.outcome, summary.retry) == ("solved", 0)
    assert [summary.outcome for summary in history.tries(ONE)] == ["solved", "unscored"]


def test_trials_that_have_begun_and_not_ended_are_open(folder: RunFolder) -> None:
    folder.path.mkdir()
    with Journal(folder.journal, Tail()) as journal:
        for name in ("one", "two", "three"):
            journal.append("trial_started", {"task_id": name, "attempt": 1, "retry": 0})
        journal.append("trial_finished", _summary(ONE, "solved").model_dump())
        journal.append("trial_interrupted", {"task_id": "two", "attempt": 1, "retry": 0})
    history = history_of(folder.journal)
    assert history.open == {TrialKey("three", 1): 0}
    assert history.interruptions == 1


def test_a_journal_of_a_newer_version_is_refused(folder: RunFolder) -> None:
    folder.path.mkdir()
    with Journal(folder.journal, Tail()) as journal:
        journal.append("run_started", {"journal_version": 99})
    with pytest.raises(UsageError, match="version 99") as caught:
        history_of(folder.journal)
    assert "update" in str(caught.value.hint)


def test_a_view_counts_what_is_missing(folder: RunFolder) -> None:
    _write_run(folder, 3, attempts=2, finished=4)
    view = read_run(folder)
    assert view.counts == (6, 2, 2, 0, 2)
    assert view.state == "interrupted"
    assert view.history.finished_at is None
    assert view.history.started_at is not None


def _calls_of_opening(folder: RunFolder) -> int:
    """How many functions are called, in Python and in C: the work, whatever the machine does beside it."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        open_run(folder).close()
    finally:
        sys.setprofile(None)
    return calls


def test_resume_is_not_quadratic(tmp_path: Path) -> None:
    works = []
    for number in (200, 400, 800):
        place = tmp_path / str(number)
        place.mkdir()
        _write_run(RunFolder(place / "run"), number, finished=number // 2)
        works.append(_calls_of_opening(RunFolder(place / "run")))
    assert works[0] > 2000
    assert works[2] - works[1] == pytest.approx(2 * (works[1] - works[0]), rel=0.05)


def test_memory_grows_with_the_trials_and_not_with_the_journal(folder: RunFolder) -> None:
    """A journal whose lines are long: what is held is a small part of it."""
    _write_run(folder, 2000, finished=2000)
    history_of(folder.journal)  # what reading loads and builds once for the whole process is not what it holds
    tracemalloc.start()
    try:
        history = history_of(folder.journal)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(history) == 2000
    assert held < 2000 * 800
    assert peak < held + (2 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("attempts", [10, pytest.param(100, marks=pytest.mark.soak)])
def test_a_hundred_thousand_trials_open_within_five_seconds(folder: RunFolder, attempts: int) -> None:
    trials = 1000 * attempts
    _write_run(folder, 1000, attempts=attempts, finished=trials - 10)
    began_s = time.process_time()
    with open_run(folder) as run:
        # And a second for loading a thousand tasks, however few the trials.
        assert time.process_time() - began_s < 5 * trials / 100_000 + 1
        assert (len(run.history), len(run.jobs)) == (trials - 10, 10)
