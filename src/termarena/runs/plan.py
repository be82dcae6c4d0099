"""What a run is to do: its options, and the trials that follow from them."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from termarena.grading.contract import GradingMode
from termarena.sandbox.fetches.plan import FetchPlan

__all__ = ["RunOptions", "TrialKey", "TrialPlan"]


class TrialKey(NamedTuple):
    """Which attempt at which task: what the journal, the folders and resuming know a trial by."""

    task_id: str
    attempt: int


class RunOptions(BaseModel):
    """Everything that can change what a run measures or how it is carried out; written into `config.lock.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    agent: str = "oracle"
    """The word of `--agent`: `oracle`, `nop`, `script:PATH`, `replay:FILE`, `module:Class` …"""
    model: str | None = None
    """The word of `--model`, for agents that take one."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """How often a trial's model is asked at most; None is what the agent thinks right."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """None is the provider's own."""
    max_reply_tokens: Annotated[int, Field(ge=1)] | None = None
    examples: tuple[str, ...] = ()
    """Runs whose solved trials are shown to models as examples, the most similar ones; `builtin` are ours."""
    example_count: Annotated[int, Field(ge=1)] = 1
    example_embeddings: str | None = None
    """The model whose embeddings say which examples are similar; None is BM25."""
    tools: str | None = None
    """A file of tools of one's own for models."""
    trial_budget_usd: Annotated[float, Field(gt=0)] | None = None
    run_budget_usd: Annotated[float, Field(gt=0)] | None = None
    trial_budget_tokens: Annotated[int, Field(gt=0)] | None = None
    run_budget_tokens: Annotated[int, Field(gt=0)] | None = None
    """A trial that has spent its own, or the run's, is ended and graded; one that finds the run's spent is unscored."""
    model_requests: Annotated[int, Field(ge=1)] | None = None
    """Requests at once to one endpoint with one key."""
    model_tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    driver: str = "auto"
    engine: Literal["local", "ray"] = "local"
    """Where trials are carried out: by this process, or on the nodes of a cluster."""
    address: str = "auto"
    """Of the cluster."""
    attempts: Annotated[int, Field(ge=1)] = 1
    concurrency: Annotated[int, Field(ge=1)] | None = None
    """Trials at once; None is what the machine's processors and memory allow."""
    timeout_multiplier: Annotated[float, Field(gt=0)] = 1.0
    """Of the agent's, the tests' and the build's time; runs with another value than 1 are not ranked."""
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_mb: Annotated[int, Field(ge=16)] | None = None
    """Of every sandbox, in the place of what its task asks for; runs with one of them are not ranked."""
    default_timeout_s: Annotated[float, Field(gt=0)] = 3600.0
    """For tasks that set the agent no limit."""
    record_fetches: str | None = None
    """Where the downloads of builds and tests are recorded: empty for each task's own folder."""
    replay_fetches: str | None = None
    """Where they come from, in the network's place: likewise. Runs with it are not ranked."""
    grading: GradingMode = "auto"
    integrity: Literal["enforce", "report"] = "enforce"
    """`report`: critical findings are told and change no outcome."""
    retries: Annotated[int, Field(ge=0)] = 2
    """How often an unscored trial is tried again; faults of the task itself never are."""
    retry_wait_s: Annotated[float, Field(ge=0)] = 2.0
    """Before the first retry; doubled for each further one, with jitter, at most a minute."""
    keep_state: bool = True
    """Whether the final file state is captured, so that `regrade` can start from it."""
    state_limit_bytes: Annotated[int, Field(ge=0)] = 1 << 30
    """A larger state is not captured, and the result says so."""

    @property
    def fetch_plan(self) -> FetchPlan | None:
        """Whether and where downloads are recorded or replayed."""
        return FetchPlan.wished(record=self.record_fetches, replay=self.replay_fetches)

    @property
    def changed_resources(self) -> str:
        """What sandboxes have in the place of what their tasks ask for, in words; empty where nothing is changed."""
        told = [f"{self.cpus:g} processors"] if self.cpus is not None else []
        return " and ".join([*told, *([f"{self.memory_mb} MB"] if self.memory_mb is not None else [])])


class TrialPlan(NamedTuple):
    """One trial of a run, before it starts."""

    key: TrialKey
    task_digest: str
    cpus: float
    memory_mb: int
