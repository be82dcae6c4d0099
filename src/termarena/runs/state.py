"""What a trial knows of itself while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from termarena.agents.contract import AgentReport
from termarena.runs.journal import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.agents.contract import Agent, AgentEnd
    from termarena.grading.contract import Verdict
    from termarena.runs.faults import Blame
    from termarena.runs.outcome import FaultDetail, Phase
    from termarena.runs.plan import RunOptions, TrialKey
    from termarena.runs.result import Clock, StateKept
    from termarena.runs.setting import Setting
    from termarena.sandbox import FileChanges, Snapshot, Usage
    from termarena.sandbox.contention import Contention
    from termarena.sandbox.staging import StartState
    from termarena.tasks.model import Task

__all__ = ["TrialState"]


@dataclass
class TrialState:
    """Filled in phase by phase; what is None was never reached."""

    run_id: str
    options: RunOptions
    task: Task
    key: TrialKey
    retry: int = 0
    started_at: str = field(default_factory=now)
    setting: Setting | None = None
    start: StartState | None = None
    agent: Agent | None = None
    end: AgentEnd | None = None
    report: AgentReport = field(default_factory=AgentReport)
    agent_error: FaultDetail | None = None
    changes: FileChanges | None = None
    processes_left: int = 0
    snapshot: Snapshot | None = None
    state_kept: StateKept = "not_kept"
    usage: Usage | None = None
    contention: Contention | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """By the step's name."""
    verdict: Verdict | None = None
    blame: Blame | None = None
    clocks: Mapping[Phase, Clock] = field(default_factory=dict)
