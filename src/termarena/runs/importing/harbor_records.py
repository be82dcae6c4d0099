"""The records in Harbor's job folders, as far as they matter to a score."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from termarena.runs.importing.foreign import Loose, duration_s

__all__ = ["AgentUsage", "HarborTrial", "JobConfig", "JobLock", "JobResult"]


class Timing(Loose):
    """When a phase began and ended."""

    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took, where that is known."""
        return duration_s(self.started_at, self.finished_at)


class AgentUsage(Loose):
    """What the agent says that it used; `n_input_tokens` counts cached ones too."""

    n_input_tokens: int | None = None
    n_output_tokens: int | None = None
    cost_usd: float | None = None


class VerifierResult(Loose):
    """What the verifier found."""

    rewards: dict[str, Any] | None = None


class HarborException(Loose):
    """What ended a trial, or a part of it."""

    exception_type: str
    exception_message: str = ""


class Step(Loose):
    """One of the steps of a task that has several."""

    agent_result: AgentUsage | None = None
    agent_execution: Timing | None = None


class ModelInfo(Loose):
    """The model."""

    name: str
    provider: str | None = None


class AgentInfo(Loose):
    """Who tried."""

    name: str
    version: str = "unknown"
    model_info: ModelInfo | None = None

    @property
    def model(self) -> str | None:
        """`provider/name`."""
        info = self.model_info
        if info is None:
            return None
        return f"{info.provider}/{info.name}" if info.provider else info.name


class AgentConfig(Loose):
    """Limits of the agent that are not the task's."""

    override_timeout_sec: float | None = None
    max_timeout_sec: float | None = None


class EnvironmentConfig(Loose):
    """Where it ran."""

    type: str | None = None
    import_path: str | None = None
    override_cpus: float | None = None
    override_memory_mb: float | None = None
    override_storage_mb: float | None = None
    override_gpus: float | None = None


class VerifierConfig(Loose):
    """Limits of the verifier that are not the task's."""

    override_timeout_sec: float | None = None
    max_timeout_sec: float | None = None
    disable: bool = False


class TrialConfig(Loose):
    """How a trial was to be run."""

    install_only: bool = False
    timeout_multiplier: float = 1.0
    agent_timeout_multiplier: float | None = None
    verifier_timeout_multiplier: float | None = None
    agent_setup_timeout_multiplier: float | None = None
    environment_build_timeout_multiplier: float | None = None
    agent: AgentConfig = AgentConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    verifier: VerifierConfig = VerifierConfig()

    def changed_limits(self) -> dict[str, str]:
        """Every limit that is not the task's own, by its name in Harbor's configuration."""
        found = {name: value for name, value in self if name.endswith("_multiplier") and value not in (None, 1.0)}
        for part in ("agent", "environment", "verifier"):
            section: Loose = getattr(self, part)
            found |= {
                f"{part}.{name}": value
                for name, value in section
                if name.startswith(("override_", "max_")) and value is not None
            }
        return {name: f"{value:g}" for name, value in sorted(found.items())}


class HarborTrial(Loose):
    """A trial's `result.json`."""

    task_name: str
    trial_name: str = ""
    source: str | None = None
    task_checksum: str = ""
    task_id: dict[str, Any] = Field(default_factory=dict)
    config: TrialConfig = TrialConfig()
    agent_info: AgentInfo
    agent_result: AgentUsage | None = None
    verifier_result: VerifierResult | None = None
    verifier_environment_mode: str | None = None
    exception_info: HarborException | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    agent_execution: Timing | None = None
    verifier: Timing | None = None
    step_results: tuple[Step, ...] | None = None

    @property
    def error(self) -> str | None:
        """The class of the exception, where there was one."""
        return self.exception_info.exception_type if self.exception_info else None

    @property
    def executions(self) -> list[Timing]:
        """Of the agent: one, or one for each step."""
        steps = [step.agent_execution for step in self.step_results or ()]
        return [one for one in (self.agent_execution, *steps) if one is not None and one.started_at is not None]

    @property
    def usages(self) -> list[AgentUsage]:
        """One, or one for each step."""
        if self.agent_result is not None:
            return [self.agent_result]
        return [step.agent_result for step in self.step_results or () if step.agent_result is not None]


class LockedTaskEntry(Loose):
    """A task in a lock."""

    name: str
    source: str | None = None


class LockedAgent(Loose):
    """An agent in a lock."""

    name: str | None = None
    import_path: str | None = None
    model_name: str | None = None


class TrialLock(Loose):
    """One planned trial."""

    task: LockedTaskEntry
    agent: LockedAgent = LockedAgent()


class Version(Loose):
    """Of Harbor itself."""

    version: str | None = None


class JobLock(Loose):
    """The job's `lock.json`."""

    harbor: Version = Version()
    trials: tuple[TrialLock, ...] = ()


class JobConfig(Loose):
    """The job's `config.json`."""

    n_attempts: int = 1


class JobStats(Loose):
    """Counts over a job."""

    n_retries: int = 0


class JobResult(Loose):
    """The job's `result.json`."""

    n_total_trials: int | None = None
    stats: JobStats = JobStats()
