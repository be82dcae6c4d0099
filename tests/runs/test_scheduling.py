"""Which trial starts next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.runs.engine import Job
from termarena.runs.machine import Budget, budget_here, groups_above, machine_facts
from termarena.runs.plan import TrialKey, TrialPlan
from termarena.runs.scheduling import PATIENCE, Scheduler

if TYPE_CHECKING:
    from pathlib import Path


def _job(order: int, cpus: float = 1, memory_mb: int = 100) -> Job:
    return Job(TrialPlan(TrialKey(f"t{order}", 1), "digest", cpus, memory_mb), order)


def _started(scheduler: Scheduler) -> list[int]:
    jobs = []
    while (job := scheduler.take()) is not None:
        jobs.append(job.order)
    return jobs


def _scheduler(*jobs: Job, cpus: float = 2, memory_mb: int = 1000, most: int | None = None) -> Scheduler:
    scheduler = Scheduler(Budget(cpus, memory_mb), most=most)
    for job in jobs:
        scheduler.put(job)
    return scheduler


def test_a_task_asking_for_four_cpus_is_not_started_ten_times_on_two_cores() -> None:
    jobs = [_job(order, cpus=4) for order in range(10)]
    scheduler = _scheduler(*jobs, cpus=2)
    assert _started(scheduler) == [0]
    scheduler.give_back(jobs[0])
    assert _started(scheduler) == [1]


def test_processors_and_memory_bind_together() -> None:
    assert _started(_scheduler(*map(_job, range(5)), cpus=3)) == [0, 1, 2]
    assert _started(_scheduler(*(_job(n, memory_mb=400) for n in range(5)), cpus=9)) == [0, 1]
    assert _started(_scheduler(*(_job(n, cpus=0.5) for n in range(9)), cpus=2)) == [0, 1, 2, 3]


def test_the_number_asked_for_is_a_cap_and_overrides_nothing() -> None:
    assert _started(_scheduler(*map(_job, range(5)), cpus=4, most=2)) == [0, 1]
    assert _started(_scheduler(*map(_job, range(5)), cpus=2, most=50)) == [0, 1]


def test_the_given_order_is_kept_and_gaps_are_filled() -> None:
    jobs = [_job(0, cpus=2), _job(1, cpus=3), _job(2), _job(3), _job(4)]
    scheduler = _scheduler(*jobs, cpus=4)
    assert _started(scheduler) == [0, 2, 3]
    scheduler.give_back(jobs[0])
    assert _started(scheduler) == [4]


def test_a_large_one_is_not_starved() -> None:
    first, large, small = _job(0), _job(1, cpus=2), [_job(order) for order in range(2, 100)]
    scheduler = _scheduler(first, cpus=2)
    assert scheduler.take() == first
    for job in (large, *small):
        scheduler.put(job)
    running, started = [first], [first]
    while started[-1] != large:
        taken = scheduler.take()
        if taken is None:
            scheduler.give_back(running.pop(0))
        else:
            running.append(taken)
            started.append(taken)
    assert started == [first, *small[:PATIENCE], large]
    assert running == [large]


def test_a_retry_takes_the_place_it_had() -> None:
    jobs = [_job(order) for order in range(4)]
    scheduler = _scheduler(*jobs, cpus=1)
    assert scheduler.take() == jobs[0]
    scheduler.give_back(jobs[0])
    scheduler.put(jobs[0]._replace(retry=1))
    assert scheduler.take() == jobs[0]._replace(retry=1)


def test_ten_times_the_trials_are_not_ten_times_the_work_per_trial() -> None:
    """Ten thousand that do not fit stand before one that does; each step looks at the demands, not at the trials."""
    scheduler = _scheduler(*(_job(order, cpus=2) for order in range(10_000)), _job(20_000), cpus=2.5)
    looked: list[Budget] = []
    fits = scheduler._fits  # noqa: SLF001 - the work is counted where it is done

    def counted(demand: Budget) -> bool:
        looked.append(demand)
        return fits(demand)

    scheduler._fits = counted  # type: ignore[method-assign]  # noqa: SLF001 - likewise
    assert _started(scheduler) == [0]
    assert len(looked) <= 8


def test_the_budget_is_within_the_machine() -> None:
    budget, facts = budget_here(), machine_facts()
    assert 0 < budget.cpus <= facts.cores
    assert facts.memory_mb is not None
    assert 0 < budget.memory_mb < facts.memory_mb
    assert facts.kernel
    assert len(facts.load) == 3


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_groups_above_are_found(tmp_path: Path, version: int) -> None:
    top = tmp_path / "cgroup"
    inner = top / "outer" / "inner"
    inner.mkdir(parents=True)
    kind, options = ("cgroup", "rw,cpu,memory") if version == 1 else ("cgroup2", "rw")
    (tmp_path / "mountinfo").write_text(f"30 23 0:26 / {top} rw shared:9 - {kind} {kind} {options}\n")
    (tmp_path / "own").write_text("3:cpu,memory:/outer/inner\n" if version == 1 else "0::/outer/inner\n")
    found = groups_above("memory", mountinfo=tmp_path / "mountinfo", own=tmp_path / "own")
    assert found == (inner, top / "outer", top)
    (tmp_path / "own").write_text("3:cpu,memory:/docker/abc\n" if version == 1 else "0::/docker/abc\n")
    assert groups_above("cpu", mountinfo=tmp_path / "mountinfo", own=tmp_path / "own") == (top,)
    (tmp_path / "mountinfo").write_text("")
    assert groups_above("cpu", mountinfo=tmp_path / "mountinfo", own=tmp_path / "own") == ()
