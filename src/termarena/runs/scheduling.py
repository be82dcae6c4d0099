"""Which trial starts next: as many at once as the machine has processors and memory for, in the order of the run.

A trial that does not fit yet is passed by later ones that do, but only so often: then what runs is let run out until it
fits. A trial that asks for more than there is runs alone.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from termarena.runs.machine import Budget

if TYPE_CHECKING:
    from termarena.runs.engine import Job
    from termarena.runs.plan import TrialPlan

__all__ = ["Scheduler"]

# How many may start ahead of one that waits for room: enough to keep a machine busy while a long trial ends, few
# enough that the one that waits is not the last of all.
PATIENCE: Final = 16
_ROUNDING: Final = 1e-9


class Scheduler:
    """The queue of a run. Every step takes time in the number of different demands, not of waiting trials."""

    def __init__(self, budget: Budget, *, most: int | None = None) -> None:
        """At most `most` at once, where it is given; the budget binds in any case."""
        self._budget = budget
        self._most = most
        self._queues: dict[Budget, list[tuple[int, int, Job]]] = {}
        self._running = 0
        self._cpus = 0.0
        self._memory_mb = 0
        self._passed = 0

    def is_too_large(self, plan: TrialPlan) -> bool:
        """Whether the trial asks for more than there is."""
        return plan.cpus > self._budget.cpus + _ROUNDING or plan.memory_mb > self._budget.memory_mb

    @property
    def waiting(self) -> int:
        """How many are queued."""
        return sum(map(len, self._queues.values()))

    def put(self, job: Job) -> None:
        """Queue a job in its place."""
        heappush(self._queues.setdefault(self._demand(job.plan), []), (job.order, job.retry, job))

    def take(self) -> Job | None:
        """The job that is to start now, its share set aside; None where none may. `give_back` ends that."""
        if not self._queues or (self._most is not None and self._running >= self._most):
            return None
        first = min(self._queues, key=lambda demand: self._queues[demand][0])
        if self._fits(first):
            self._passed = 0
            return self._start(first)
        if self._passed >= PATIENCE:
            return None
        fitting = [demand for demand in self._queues if self._fits(demand)]
        if not fitting:
            return None
        self._passed += 1
        return self._start(min(fitting, key=lambda demand: self._queues[demand][0]))

    def give_back(self, job: Job) -> None:
        """The job has ended: its share is free."""
        self._account(self._demand(job.plan), -1)

    def clear(self) -> None:
        """Forget all that is queued."""
        self._queues.clear()

    def _demand(self, plan: TrialPlan) -> Budget:
        return self._budget if self.is_too_large(plan) else Budget(plan.cpus, plan.memory_mb)

    def _fits(self, demand: Budget) -> bool:
        return (
            self._cpus + demand.cpus <= self._budget.cpus + _ROUNDING
            and self._memory_mb + demand.memory_mb <= self._budget.memory_mb
        )

    def _start(self, demand: Budget) -> Job:
        queue = self._queues[demand]
        _, _, job = heappop(queue)
        if not queue:
            del self._queues[demand]
        self._account(demand, +1)
        return job

    def _account(self, demand: Budget, sign: int) -> None:
        self._running += sign
        self._cpus += sign * demand.cpus
        self._memory_mb += sign * demand.memory_mb
