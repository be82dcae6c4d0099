"""Stage 7: what a task needs of a machine, measured on its own solution, and which limits follow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from termarena.proof.evidence import Evidence, Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.tasks.model import Task

__all__ = ["Cost", "Limits", "measure_cost"]

MIB: Final = 1 << 20
MARGIN: Final = 4.0
"""Of times: machines differ, and so do solutions."""
ROOM: Final = 2.0
"""Of memory and disk."""
LEAST_S: Final = 30.0
STEP_MB: Final = 128
TIGHT: Final = 1.25
"""A limit below so many times what was measured is too tight."""


class Limits(Frozen):
    """What a task could be given; None where it was not measured."""

    agent_timeout_s: float
    test_timeout_s: float
    memory_mb: int | None = None
    storage_mb: int | None = None


class Cost(Frozen):
    """What the passing attempts of the solution took, the most of each."""

    work_s: float
    grade_s: float
    cpu_s: float | None
    memory_mb: float | None
    """Of the solution's own sandbox; what the tests take beside it is not in it."""
    disk_mb: float | None
    slowed_down: float | None
    """How much longer an attempt with half the processor time took; about 1 means that it waits, 2 that it computes."""
    network: str
    """What the task asks for."""
    hosts: tuple[str, ...] = ()
    """That the solution and its tests really asked for something; none without a recording of it."""
    suggested: Limits
    tight: tuple[str, ...] = ()
    """Limits of the task that leave no room."""


def measure_cost(task: Task, tried: Iterable[Evidence], requests: Iterable[str] = ()) -> Cost | None:
    """The cost of the passing attempts; None where there is none. `requests` are what was fetched: `GET http://…`."""
    passed = [one for one in tried if one.passes]
    plain = [one for one in passed if one.condition != "slow"] or passed
    if not plain:
        return None
    work_s, grade_s = max(one.work_s for one in plain), max(one.grade_s for one in plain)
    memory, disk = _most(one.memory_peak_bytes for one in plain), _most(one.disk_bytes for one in plain)
    suggested = Limits(
        agent_timeout_s=_time(work_s), test_timeout_s=_time(grade_s), memory_mb=_size(memory), storage_mb=_size(disk)
    )
    return Cost(
        work_s=work_s,
        grade_s=grade_s,
        cpu_s=max((one.cpu_s for one in plain if one.cpu_s is not None), default=None),
        memory_mb=round(memory / MIB, 1) if memory is not None else None,
        disk_mb=round(disk / MIB, 1) if disk is not None else None,
        slowed_down=_slowed(passed, plain),
        network=task.environment.network.mode,
        hosts=tuple(dict.fromkeys(urlsplit(one.rpartition(" ")[2]).netloc for one in requests)),
        suggested=suggested,
        tight=tuple(_tight(task, work_s, grade_s, memory)),
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((one for one in values if one is not None), default=None)


def _time(seconds: float) -> float:
    return max(LEAST_S, math.ceil(seconds * MARGIN / 10) * 10.0)


def _size(size_bytes: int | None) -> int | None:
    return None if size_bytes is None else max(1, math.ceil(size_bytes * ROOM / MIB / STEP_MB)) * STEP_MB


def _slowed(passed: list[Evidence], plain: list[Evidence]) -> float | None:
    slow = [one.work_s + one.grade_s for one in passed if one.condition == "slow"]
    usual = sorted(one.work_s + one.grade_s for one in plain if one.condition != "slow")
    return round(slow[0] / usual[len(usual) // 2], 2) if slow and usual and usual[len(usual) // 2] > 0 else None


def _tight(task: Task, work_s: float, grade_s: float, memory: int | None) -> Iterable[str]:
    if task.agent.timeout_s is not None and task.agent.timeout_s < work_s * TIGHT:
        yield f"the agent's {task.agent.timeout_s:g} s, of which the solution takes {work_s:.1f}"
    if task.grading.timeout_s < grade_s * TIGHT:
        yield f"the tests' {task.grading.timeout_s:g} s, of which they take {grade_s:.1f}"
    if (
        memory is not None
        and task.environment.memory_mb is not None
        and task.environment.memory_mb * MIB < memory * TIGHT
    ):
        yield f"the memory of {task.environment.memory_mb} MiB, of which the solution takes {memory / MIB:.0f}"
