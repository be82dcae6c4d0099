"""`TerminalBenchConfig`: every field does something, or is refused with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["BASELINES", "TerminalBenchConfig"]

BASELINES: Final = ("always-right", "always-wrong", "random")
"""What `agent_harness` may be here."""
_SINCE_TASKS_SAY: Final = "every task brings its own environment and limits, and a score with others is not comparable"
_REFUSED: Final = {
    "docker_image": _SINCE_TASKS_SAY,
    "memory_limit": _SINCE_TASKS_SAY,
    "cpu_limit": _SINCE_TASKS_SAY,
    "network_mode": _SINCE_TASKS_SAY,
    "model_provider": "the provider is part of the model's name",
    "task_agent": "agents that bring their own program are not part of this version yet",
    "include_edge_scenarios": "a sentence behind the instruction with the same tests is not another task",
}
"""Fields of ElizaOS that cannot be honoured, and why; giving one is an error rather than no effect."""


@dataclass
class TerminalBenchConfig:
    """What a run is to be. Raises UsageError for what cannot be."""

    data_path: Path | str | None = None
    """A folder of tasks in any format, a `tasks.json`, or the name of a pulled dataset; None: `version`'s."""
    output_dir: Path | str = "./benchmark_results/terminal-bench"
    cache_dir: Path | str | None = None
    """Where datasets and root file systems are kept; None: TermArena's own folder."""
    version: str = "2.0"
    """Of Terminal-Bench, where `data_path` is not given; it must have been pulled."""
    categories: Sequence[str] | None = None
    difficulties: Sequence[str] | None = None
    task_ids: Sequence[str] | None = None
    max_tasks: int | None = None
    max_iterations: int | None = None
    """For agents with a model."""
    timeout_per_task_seconds: float | None = None
    """For tasks that set the agent no limit; a task's own limit is never replaced."""
    parallel_tasks: int | None = None
    """None: as many as this machine can carry."""
    docker_image: str | None = None
    memory_limit: str | None = None
    cpu_limit: float | None = None
    network_mode: str | None = None
    model_name: str | None = None
    """No model is assumed: without a model, a harness and an order, the reference solutions run."""
    temperature: float | None = None
    max_tokens: int | None = None
    save_detailed_logs: bool = True
    """Whether the captured file states, by far the largest part of the logs, are kept."""
    save_sessions: bool = True
    generate_markdown: bool = True
    compare_leaderboard: bool = True
    verbose: bool = False
    """Whether the start of every trial is logged too, besides its end."""
    dry_run: bool = False
    oracle: bool = False
    use_eliza_agent: bool = False
    include_edge_scenarios: bool | None = None
    model_provider: str | None = None
    local_sandbox: bool = False
    """Only the embedded sandbox, no containers; unlike ElizaOS's it never runs a command on the host."""
    execution_backend: str = "auto"
    """`auto`, `namespace` or `docker`."""
    agent_harness: str | None = None
    """A baseline: `always-right`, `always-wrong` or `random`."""
    task_agent: str | None = None
    baseline_random_seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what would have no effect, and what cannot be."""
        for name, why in _REFUSED.items():
            if getattr(self, name):
                raise UsageError(f"{name} cannot be set: {why}", hint="leave it out")
        for name in ("categories", "difficulties", "task_ids"):
            if getattr(self, name) is not None and not list(getattr(self, name)):
                raise UsageError(f"{name} is empty, which would choose nothing", hint="leave it out for all")
        for name in ("max_tasks", "max_iterations", "timeout_per_task_seconds", "parallel_tasks", "max_tokens"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be greater than zero, not {value}", hint="leave it out for no limit")
        self._refuse_unknown_agents()

    def _refuse_unknown_agents(self) -> None:
        if self.agent_harness is not None and self.agent_harness not in BASELINES:
            raise NotFound(f"no harness is called {self.agent_harness}", known=BASELINES)
        wanted = {
            "oracle": self.oracle,
            "agent_harness": self.agent_harness is not None,
            "model_name": self.model_name is not None,
        }
        chosen = [name for name, is_wanted in wanted.items() if is_wanted]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} name two agents", hint="give one of them")

    @property
    def driver(self) -> str:
        """The word for the sandbox."""
        return "namespace" if self.local_sandbox else self.execution_backend

    @property
    def agent(self) -> str:
        """The word for the agent. Raises UsageError for one that this version does not have."""
        self._refuse_models()
        if self.agent_harness == "random":
            return f"random:{self.baseline_random_seed}"
        return self.agent_harness or "oracle"

    def _refuse_models(self) -> None:
        for name in ("model_name", "temperature", "max_tokens", "max_iterations", "use_eliza_agent"):
            if getattr(self, name) not in (None, False):
                raise UsageError(
                    f"{name} asks for an agent with a model, and those are not part of this version yet",
                    hint="run the reference solutions (oracle), a baseline (agent_harness), or an agent of your own: "
                    "termarena run --agent module:Class",
                )
