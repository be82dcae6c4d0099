"""Results of Harbor and tb, as those two wrote them, and as a kill, a full disk or an editor may leave them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.peers import change, trial_file, unpack
from termarena.core.errors import NotFound, UsageError
from termarena.core.run_folder import RunFolder
from termarena.runs.importing import ForeignRun, pooled, read_harbor, read_terminal_bench, write_foreign
from termarena.runs.importing.terminal_bench import TerminalBenchTrial, judge
from termarena.runs.opening import open_run
from termarena.runs.reading import RunView, read_run

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.runs.result import TrialSummary

Told = tuple[str, str | None, str | None, str, float | None]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return unpack("harbor-oracle", tmp_path / "jobs" / "oddities")


@pytest.fixture
def tb_run(tmp_path: Path) -> Path:
    return unpack("tb-oracle", tmp_path / "tb-runs" / "oddities")


def written(run: ForeignRun, folder: Path) -> RunView:
    write_foreign(run, RunFolder(folder))
    return read_run(RunFolder(folder))


def the_only(runs: list[ForeignRun]) -> ForeignRun:
    assert len(runs) == 1
    return runs[0]


def told(trial: TrialSummary) -> Told:
    return trial.outcome, trial.agent_end, trial.fault, trial.failure_mode, trial.reward


def by_task(run: ForeignRun) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = {}
    for ended in run.trials:
        found.setdefault(ended.summary.task_id, []).append(told(ended.summary))
    return found


def first_of(job: Path, task: str, **fields: Any) -> TrialSummary:  # noqa: ANN401 - whatever JSON holds
    """How the one trial of a task is read after its record was changed; the other attempt is taken away."""
    shutil.rmtree(trial_file(job, task, number=1).parent)
    change(trial_file(job, task), **fields)
    found = [ended.summary for ended in the_only(read_harbor(job)).trials if ended.summary.task_id == task]
    assert len(found) == 1
    return found[0]


def raised(kind: str) -> dict[str, Any]:
    return {"exception_type": kind, "exception_message": "so", "exception_traceback": "", "occurred_at": None}


def test_a_harbor_job_is_read_as_it_is(job: Path, tmp_path: Path) -> None:
    run = the_only(read_harbor(job))
    assert by_task(run) == {
        "good": [("solved", "submitted", None, "NONE", 1.0)] * 2,
        "wrong": [("unsolved", "submitted", None, "TEST_FAILED", 0.0)] * 2,
        "partial": [("unsolved", "submitted", None, "TEST_FAILED", 0.5)] * 2,
        "named": [("unsolved", "submitted", None, "TEST_FAILED", 0.75)] * 2,
        "nonzero": [("solved", "submitted", None, "NONE", 1.0)] * 2,
        "agenttimeout": [("solved", "timeout", None, "NONE", 1.0)] * 2,
        "verifytimeout": [("unsolved", "submitted", None, "TEST_TIMEOUT", 0.0)] * 2,
        "noreward": [("unscored", "submitted", "test", "TEST_FAULT", None)] * 2,
        "emptyreward": [("unscored", "submitted", "test", "TEST_FAULT", None)] * 2,
        "buildfails": [("unscored", None, "infra", "INFRA_FAULT", None)] * 2,
    }
    view = written(run, tmp_path / "run")
    assert view.counts._asdict() == {"total": 20, "solved": 6, "unsolved": 8, "unscored": 6, "missing": 0}
    assert view.state == "finished"
    assert (view.lock.agent, view.lock.driver, view.lock.dataset.name) == ("oracle", "docker", "ht")
    assert view.lock.machine is None
    assert view.lock.origin is not None
    assert (view.lock.origin.tool, view.lock.origin.version, view.lock.origin.name) == ("harbor", "0.24.0", "oddities")
    assert view.lock.origin.notes == ()
    assert {task.digest.partition(":")[0] for task in view.lock.tasks} == {"harbor-checksum"}
    assert view.history.started_at == view.lock.origin.started_at == "2026-11-15T12:19:51.521Z"


def test_what_harbor_counts_as_zero_for_want_of_a_reward_is_unscored(job: Path) -> None:
    run = the_only(read_harbor(job))
    theirs = json.loads((job / "result.json").read_text())["stats"]["evals"]["oracle__ht"]
    assert theirs["metrics"][0]["reward"] == pytest.approx(7 / 20)
    ours = [ended.summary.reward for ended in run.trials if ended.summary.outcome != "unscored"]
    assert len(ours) == 14


def test_unknown_is_none_and_never_zero(job: Path) -> None:
    one = the_only(read_harbor(job)).trials[0].summary
    assert (one.commands, one.input_tokens, one.output_tokens, one.cost_usd) == (None, None, None, None)


def test_a_tb_run_is_read_as_it_is(tb_run: Path, tmp_path: Path) -> None:
    run = read_terminal_bench(tb_run)
    assert by_task(run) == {
        "good": [("solved", "submitted", None, "NONE", 1.0)] * 2,
        "wrong": [("unsolved", "submitted", None, "TEST_FAILED", 0.0)] * 2,
        "agenttimeout": [("solved", "timeout", None, "NONE", 1.0)] * 2,
        "testtimeout": [("unsolved", "submitted", None, "TEST_TIMEOUT", 0.0)] * 2,
        "unparsable": [("unscored", "submitted", "test", "TEST_FAULT", None)] * 2,
        "buildfails": [("unscored", None, "infra", "INFRA_FAULT", None)] * 2,
    }
    view = written(run, tmp_path / "run")
    assert view.counts._asdict() == {"total": 12, "solved": 4, "unsolved": 4, "unscored": 4, "missing": 0}
    good = next(ended.summary for ended in run.trials if ended.summary.task_id == "good")
    assert (good.tests_passed, good.tests_total, good.graded_in) == (1, 1, "live")
    assert (good.input_tokens, good.output_tokens) == (None, None)
    assert run.dataset == "tt"


@pytest.mark.parametrize(
    ("mode", "resolved", "expected"),
    [
        ("unset", True, ("solved", "submitted", None)),
        ("none", False, ("unsolved", "submitted", None)),
        ("unset", None, ("unscored", "submitted", "test")),
        ("agent_timeout", True, ("solved", "timeout", None)),
        ("agent_timeout", None, ("unscored", "timeout", "test")),
        ("test_timeout", None, ("unsolved", "submitted", None)),
        ("parse_error", None, ("unscored", "submitted", "test")),
        ("unknown_agent_error", False, ("unsolved", "error", None)),
        ("unknown_agent_error", None, ("unscored", None, "infra")),
        ("fatal_llm_parse_error", False, ("unsolved", "parse_error", None)),
        ("context_length_exceeded", True, ("solved", "resource_limit", None)),
        ("output_length_exceeded", False, ("unsolved", "resource_limit", None)),
        ("agent_installation_failed", False, ("unscored", None, "infra")),
        ("a mode of tomorrow", True, ("solved", "submitted", None)),
        ("a mode of tomorrow", None, ("unscored", "submitted", "test")),
    ],
)
def test_failure_modes_of_tb_are_told_apart(
    *, mode: str, resolved: bool | None, expected: tuple[str, str | None, str | None]
) -> None:
    judged = judge(TerminalBenchTrial(task_id="t", failure_mode=mode, is_resolved=resolved))
    assert (judged.outcome, judged.end, judged.fault) == expected
    assert (judged.reward is None) == (judged.outcome == "unscored")


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("AgentTimeoutError", "timeout"),
        ("NonZeroAgentExitCodeError", "error"),
        ("ApiRateLimitError", "error"),
        ("AgentSafetyRefusalError", "refused"),
        ("ContextWindowExceededError", "resource_limit"),
    ],
)
def test_whatever_ended_the_agent_a_graded_trial_is_scored_by_its_reward(job: Path, kind: str, end: str) -> None:
    found = first_of(job, "good", exception_info=raised(kind))
    assert told(found) == ("solved", end, None, "NONE", 1.0)


@pytest.mark.parametrize("kind", ["EnvironmentStartTimeoutError", "RuntimeError", "AgentSetupTimeoutError", "Mystery"])
def test_an_infrastructure_exception_without_a_reward_is_unscored(job: Path, kind: str) -> None:
    found = first_of(job, "good", exception_info=raised(kind), verifier_result=None, agent_execution=None)
    assert told(found) == ("unscored", None, "infra", "INFRA_FAULT", None)
    assert found.message == f"{kind}: so"


def test_an_exception_in_the_agents_work_says_that_the_agent_ended_in_error(job: Path) -> None:
    found = first_of(job, "good", exception_info=raised("ValueError"), verifier_result=None)
    assert told(found) == ("unscored", "error", "infra", "INFRA_FAULT", None)


@pytest.mark.parametrize("rewards", [{"reward": "1"}, {"reward": True}, {"reward": 1e999}, {}, None])
def test_a_reward_that_is_no_number_is_no_reward(job: Path, rewards: dict[str, Any] | None) -> None:
    found = first_of(job, "good", verifier_result={"rewards": rewards})
    assert told(found) == ("unscored", "submitted", "test", "TEST_FAULT", None)


def test_a_verifier_that_was_switched_off_leaves_the_trial_unscored(job: Path) -> None:
    config = json.loads(trial_file(job, "good").read_text())["config"]
    config["verifier"]["disable"] = True
    assert first_of(job, "good", verifier_result=None, config=config).message == "the verifier was switched off"


def test_a_job_in_progress_has_trials_missing_and_says_so(job: Path, tmp_path: Path) -> None:
    trial_file(job, "good").unlink()
    change(trial_file(job, "wrong"), verifier_result=None, finished_at=None)
    run = the_only(read_harbor(job))
    view = written(run, tmp_path / "run")
    assert view.counts.missing == 2
    assert view.state == "interrupted"
    assert any("1 trials were begun and have no result" in note for note in run.origin.notes)
    assert any("19 of 20 trials have a result" in note for note in run.origin.notes)


def test_a_cancelled_trial_has_no_outcome(job: Path, tmp_path: Path) -> None:
    change(trial_file(job, "good"), exception_info=raised("CancelledError"), verifier_result=None)
    view = written(the_only(read_harbor(job)), tmp_path / "run")
    assert view.counts.missing == 1
    assert view.history.interruptions == 1


def test_tasks_of_which_no_trial_began_are_still_missing(job: Path, tmp_path: Path) -> None:
    for folder in job.glob("good__*"):
        shutil.rmtree(folder)
    run = the_only(read_harbor(job))
    assert "good" in [task.id for task in run.tasks]
    assert written(run, tmp_path / "run").counts.missing == 2


@pytest.mark.parametrize("text", ["", "{", '{"stats": 3}', "[]", "null", "\x00", '{"a":' * 100_000])
def test_a_truncated_file_of_the_job_costs_no_result(job: Path, text: str) -> None:
    for name in ("result.json", "lock.json", "config.json"):
        (job / name).write_text(text)
    run = the_only(read_harbor(job))
    assert len(run.trials) == 20
    assert any("result.json" in note for note in run.origin.notes)


@pytest.mark.parametrize("text", ["", '{"task_name": "go', "[]", '{"task_name": 7}'])
def test_a_truncated_result_of_a_trial_is_missing_and_named(job: Path, tmp_path: Path, text: str) -> None:
    file = trial_file(job, "good")
    file.write_text(text)
    run = the_only(read_harbor(job))
    assert any(str(file) in note for note in run.origin.notes)
    assert written(run, tmp_path / "run").counts.missing == 1


def test_a_job_of_two_agents_becomes_two_runs(tmp_path: Path) -> None:
    job = unpack("harbor-oracle", tmp_path / "job")
    unpack("harbor-nop", tmp_path / "nop")
    for folder in (tmp_path / "nop").iterdir():
        if folder.is_dir():
            shutil.copytree(folder, job / folder.name)
    lock = json.loads((job / "lock.json").read_text())
    lock["trials"] += json.loads((tmp_path / "nop" / "lock.json").read_text())["trials"]
    (job / "lock.json").write_text(json.dumps(lock))
    runs = {run.agent: run for run in read_harbor(job)}
    assert {name: len(run.trials) for name, run in runs.items()} == {"oracle": 20, "nop": 10}
    assert all(len(run.tasks) == 10 for run in runs.values())


def test_a_task_that_changed_while_the_job_ran_is_told(job: Path) -> None:
    change(trial_file(job, "good"), task_checksum="another")
    run = the_only(read_harbor(job))
    assert "tasks that changed while the job ran: good" in run.origin.notes


def test_limits_that_were_changed_are_kept(job: Path) -> None:
    for file in job.glob("*__*/result.json"):
        config = json.loads(file.read_text())["config"]
        config["timeout_multiplier"] = 3.0
        config["agent"]["override_timeout_sec"] = 7200
        change(file, config=config)
    run = the_only(read_harbor(job))
    assert run.timeout_multiplier == 3
    assert run.origin.changed_limits == {"agent.override_timeout_sec": "7200", "timeout_multiplier": "3"}


def test_a_key_in_a_command_line_that_a_peer_quotes_is_not_copied(job: Path) -> None:
    error = raised("RuntimeError") | {"exception_message": "docker compose exec -e SOME_API_KEY=abc123secret main"}
    found = first_of(job, "good", exception_info=error, verifier_result=None, agent_execution=None)
    assert "abc123secret" not in found.message
    assert "SOME_API_KEY" in found.message


def test_an_interrupted_tb_run_is_put_together_from_its_trials(tb_run: Path, tmp_path: Path) -> None:
    (tb_run / "results.json").write_text('{"id": "c4", "results": [{"task_')
    run = read_terminal_bench(tb_run)
    # Trials that tb's own machinery failed have no file of their own.
    assert len(run.trials) == 10
    assert any("read from their own folders" in note for note in run.origin.notes)
    assert any("cannot be read" in note for note in run.origin.notes)
    assert written(run, tmp_path / "run").counts.missing == 2


def test_a_tb_run_without_lock_and_metadata_is_read_all_the_same(tb_run: Path) -> None:
    (tb_run / "tb.lock").unlink()
    (tb_run / "run_metadata.json").unlink()
    run = read_terminal_bench(tb_run)
    assert (run.agent, run.dataset, run.attempts, len(run.trials)) == ("unknown", "unknown", 2, 12)


def test_a_results_file_alone_is_enough(tb_run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "2025-08-29__09-03-09_results.json"
    alone.write_bytes((tb_run / "results.json").read_bytes())
    assert len(read_terminal_bench(alone).trials) == 12
    assert read_terminal_bench(tb_run / "results.json").agent == "oracle"


def test_attempts_keep_the_numbers_that_tb_gave_them(tb_run: Path) -> None:
    run = read_terminal_bench(tb_run)
    good = sorted(ended.summary.attempt for ended in run.trials if ended.summary.task_id == "good")
    assert good == [1, 2]


def test_tbs_changed_limits_are_kept(tb_run: Path) -> None:
    lock = json.loads((tb_run / "tb.lock").read_text())
    lock["run_config"] |= {"global_timeout_multiplier": 2.5, "global_agent_timeout_sec": 600}
    (tb_run / "tb.lock").write_text(json.dumps(lock))
    run = read_terminal_bench(tb_run)
    assert run.timeout_multiplier == 2.5
    assert run.origin.changed_limits == {"global_agent_timeout_sec": "600", "global_timeout_multiplier": "2.5"}


def test_several_runs_of_one_agent_are_pooled(tmp_path: Path) -> None:
    paths = [unpack("tb-oracle", tmp_path / name) for name in ("one", "two")]
    run = pooled([read_terminal_bench(path) for path in paths])
    assert (run.attempts, len(run.trials)) == (4, 24)
    view = written(run, tmp_path / "run")
    assert view.counts._asdict() == {"total": 24, "solved": 8, "unsolved": 8, "unscored": 8, "missing": 0}
    assert run.origin.notes[0] == "pooled from 2 runs: oddities, oddities"


def test_runs_of_different_tasks_are_no_attempts_at_each_others(tmp_path: Path) -> None:
    whole = read_terminal_bench(unpack("tb-oracle", tmp_path / "one"))
    names = [task.id for task in whole.tasks]
    parts = [_only(whole, {name}) for name in names]
    run = pooled([*parts, _only(read_terminal_bench(unpack("tb-oracle", tmp_path / "two")), {names[0]})])
    assert (run.attempts, len(run.tasks), len(run.trials)) == (4, len(names), len(whole.trials) + 2)
    attempts = {name: sorted(t.summary.attempt for t in run.trials if t.summary.task_id == name) for name in names}
    assert attempts == {names[0]: [1, 2, 3, 4]} | {key: [1, 2] for key in names[1:]}


def _only(run: ForeignRun, names: set[str]) -> ForeignRun:
    return replace(
        run,
        origin=run.origin.model_copy(update={"path": f"{run.origin.path}/{min(names)}"}),
        tasks=tuple(task for task in run.tasks if task.id in names),
        trials=tuple(ended for ended in run.trials if ended.summary.task_id in names),
    )


def test_runs_of_two_agents_are_not_pooled(tmp_path: Path) -> None:
    first, second = (unpack("tb-oracle", tmp_path / name) for name in ("one", "two"))
    with pytest.raises(UsageError, match="given twice"):
        pooled([read_terminal_bench(first), read_terminal_bench(first)])
    lock = json.loads((second / "tb.lock").read_text())
    lock["agent"]["name"] = "another"
    (second / "tb.lock").write_text(json.dumps(lock))
    with pytest.raises(UsageError, match="not runs of one agent"):
        pooled([read_terminal_bench(first), read_terminal_bench(second)])


def test_what_is_no_folder_of_theirs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is no folder"):
        read_harbor(tmp_path / "nothing")
    with pytest.raises(NotFound, match="holds no trial of Harbor"):
        read_harbor(tmp_path)
    with pytest.raises(NotFound, match="holds no trial of Terminal-Bench"):
        read_terminal_bench(tmp_path)
    with pytest.raises(NotFound, match="holds no trial of Terminal-Bench"):
        read_terminal_bench(tmp_path / "nothing.json")


def test_an_imported_run_is_not_resumed_and_not_written_over(job: Path, tmp_path: Path) -> None:
    run = the_only(read_harbor(job))
    written(run, tmp_path / "run")
    with pytest.raises(UsageError, match="imported from harbor"):
        open_run(RunFolder(tmp_path / "run"))
    with pytest.raises(UsageError, match="holds a run already"):
        write_foreign(run, RunFolder(tmp_path / "run"))


def test_the_peers_folder_stays_as_it_was(job: Path) -> None:
    before = {path: path.read_bytes() for path in job.rglob("*") if path.is_file()}
    read_harbor(job)
    assert {path: path.read_bytes() for path in job.rglob("*") if path.is_file()} == before
