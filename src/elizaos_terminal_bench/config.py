"""`TerminalBenchConfig`: every field does something, or is refused with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["BASELINES", "LOOPS", "TerminalBenchConfig"]

BASELINES: Final = ("always-right", "always-wrong", "random")
LOOPS: Final = ("tools", "tools-text")
"""How a model is asked: by native tool calls, or by actions that it writes out."""
_SINCE_TASKS_SAY: Final = "every task brings its own environment and limits, and a score with others is not comparable"
_REFUSED: Final = {
    "docker_image": _SINCE_TASKS_SAY,
    "memory_limit": _SINCE_TASKS_SAY,
    "cpu_limit": _SINCE_TASKS_SAY,
    "network_mode": _SINCE_TASKS_SAY,
    "max_tokens": "how long a reply may be is the model's own limit",
    "task_agent": "agents that bring their own program are not part of this version yet",
    "use_eliza_agent": "a runtime is given to the runner (runtime=), and its model is asked",
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
    """How often a trial's model is asked at most."""
    timeout_per_task_seconds: float | None = None
    """For tasks that set the agent no limit; a task's own limit is never replaced."""
    parallel_tasks: int | None = None
    """None: as many as this machine can carry."""
    docker_image: str | None = None
    memory_limit: str | None = None
    cpu_limit: float | None = None
    network_mode: str | None = None
    model_name: str | None = None
    """`openai:gpt-5-mini`, `ollama:qwen3` …; without a provider it is OpenAI's. None is assumed: without a model, a
    runtime and a harness the reference solutions run, and the log says so."""
    temperature: float | None = None
    """None is the provider's own."""
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
    """Of `model_name`, where that does not say it."""
    local_sandbox: bool = False
    """Only the embedded sandbox, no containers; unlike ElizaOS's it never runs a command on the host."""
    execution_backend: str = "auto"
    """`auto`, `namespace` or `docker`."""
    agent_harness: str | None = None
    """A baseline (`always-right`, `always-wrong`, `random`), or how a model is asked (`tools`, `tools-text`)."""
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
        if self.agent_harness is not None and self.agent_harness not in (*BASELINES, *LOOPS):
            raise NotFound(f"no harness is called {self.agent_harness}", known=(*BASELINES, *LOOPS))
        wanted = {
            "oracle": self.oracle,
            "agent_harness": self.agent_harness is not None and (self.is_baseline or self.oracle),
            "model_name": self.model_name is not None,
        }
        chosen = [name for name, is_wanted in wanted.items() if is_wanted]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} name two agents", hint="give one of them")
        if self.model_provider and (self.model_name is None or ":" in self.model_name):
            raise UsageError("model_provider needs a model_name without a provider", hint="openai:gpt-5-mini is both")

    @property
    def is_baseline(self) -> bool:
        """Whether the harness measures itself."""
        return self.agent_harness in BASELINES

    @property
    def asks_no_model(self) -> bool:
        """Whether an agent without a model was chosen."""
        return self.oracle or self.is_baseline

    @property
    def driver(self) -> str:
        """The word for the sandbox."""
        return "namespace" if self.local_sandbox else self.execution_backend

    @property
    def model(self) -> str | None:
        """The word for the model."""
        if self.model_name is None or ":" in self.model_name:
            return self.model_name
        return f"{self.model_provider or 'openai'}:{self.model_name}"

    def agent(self, *, has_model: bool) -> str:
        """The word for the agent. Raises UsageError for what only an agent with a model could honour."""
        if has_model:
            return self.agent_harness or "tools"
        for name in ("temperature", "max_iterations"):
            if getattr(self, name) is not None:
                raise UsageError(f"{name} is for an agent with a model", hint="name one with model_name, or leave it")
        if self.agent_harness in LOOPS:
            raise UsageError(f"{self.agent_harness} needs a model", hint="name one with model_name")
        return (
            f"random:{self.baseline_random_seed}" if self.agent_harness == "random" else self.agent_harness or "oracle"
        )
