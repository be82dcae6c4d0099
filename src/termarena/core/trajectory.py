"""Trajectories: what an agent did, step by step, as ATIF (the Agent Trajectory Interchange Format).

Trajectory
├── agent            name, version, model
├── steps            numbered from 1
│   ├── message, reasoning_content      what was said
│   ├── tool_calls                      what was done
│   ├── observation                     what came of it, by the id of its call
│   └── metrics                         what the model used
└── final_metrics    the sums
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from termarena.core.errors import TaskFormatError
from termarena.core.records import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "SCHEMA_VERSION",
    "ContentPart",
    "FinalMetrics",
    "Observation",
    "ObservationResult",
    "Step",
    "StepMetrics",
    "ToolCall",
    "Trajectory",
    "TrajectoryAgent",
    "read_trajectory",
    "write_trajectory",
]

SCHEMA_VERSION = "ATIF-v1.7"
READ_LIMIT_BYTES = 1 << 30
Count = Annotated[int, Field(ge=0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    extra: Mapping[str, Any] | None = None
    """Whatever the format has no field for."""


class ContentPart(BaseModel):
    """A part of a message that is not only text; media are named by their path, never held."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: Mapping[str, Any] | None = None


Content = str | tuple[ContentPart, ...]


class ToolCall(_Frozen):
    """Something that was done."""

    tool_call_id: str
    function_name: str
    arguments: Mapping[str, Any]


class ObservationResult(_Frozen):
    """What came of one call, or of something that was no call."""

    source_call_id: str | None = None
    content: Content | None = None
    subagent_trajectory_ref: tuple[Mapping[str, Any], ...] | None = None


class Observation(BaseModel):
    """What came of a step."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    results: tuple[ObservationResult, ...]


class StepMetrics(_Frozen):
    """What the model used for one step; None is unknown."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None


class Step(_Frozen):
    """One step. What a model says, thinks and uses, and calls, belong to steps of the agent alone."""

    step_id: Annotated[int, Field(ge=1)] = 1
    """Whoever collects the steps numbers them."""
    timestamp: str | None = None
    """ISO 8601."""
    source: Literal["system", "user", "agent"] = "agent"
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: Content = ""
    reasoning_content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: StepMetrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Count | None = None
    """0: no model was asked; then there is no reasoning and there are no metrics."""

    @field_validator("timestamp")
    @classmethod
    def _is_a_time(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value

    @model_validator(mode="after")
    def _fields_fit_the_source(self) -> Self:
        if self.source != "agent":
            self._refuse(
                "is for steps of the agent",
                "model_name",
                "reasoning_effort",
                "reasoning_content",
                "tool_calls",
                "metrics",
            )
        elif self.llm_call_count == 0:
            self._refuse("is for steps in which a model was asked", "metrics", "reasoning_content")
        return self

    def _refuse(self, why: str, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{name} {why}")

    @model_validator(mode="after")
    def _results_name_calls(self) -> Self:
        calls = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.observation.results if self.observation is not None else ():
            if result.source_call_id is not None and result.source_call_id not in calls:
                raise ValueError(f"source_call_id {result.source_call_id!r} names no call of its step")
        return self


class FinalMetrics(_Frozen):
    """The sums over all steps; None is unknown."""

    total_prompt_tokens: Count | None = None
    total_completion_tokens: Count | None = None
    total_cached_tokens: Count | None = None
    total_cost_usd: float | None = None
    total_steps: Count | None = None


class TrajectoryAgent(_Frozen):
    """Who it was."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: tuple[Mapping[str, Any], ...] | None = None


class Trajectory(_Frozen):
    """A whole trajectory."""

    schema_version: Annotated[str, Field(pattern=r"^ATIF-v1\.\d+$")] = SCHEMA_VERSION
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: TrajectoryAgent
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    subagent_trajectories: tuple[Trajectory, ...] | None = None

    @model_validator(mode="after")
    def _steps_are_numbered(self) -> Self:
        for expected, step in enumerate(self.steps, 1):
            if step.step_id != expected:
                raise ValueError(f"the step at place {expected} has the step_id {step.step_id}")
        return self


def write_trajectory(path: Path, trajectory: Trajectory, *, is_durable: bool = True) -> None:
    """Write it as a whole or not at all, `is_durable` as in `write_atomically`. Raises OSError."""
    text = trajectory.model_dump_json(exclude_none=True, indent=2)
    write_atomically(path, text.encode("utf-8", "replace") + b"\n", is_durable=is_durable)


def read_trajectory(path: Path) -> Trajectory:
    """A trajectory of any version 1. Raises TaskFormatError for a file that is none."""
    try:
        with path.open("rb") as file:
            content = file.read(READ_LIMIT_BYTES + 1)
    except OSError as error:
        found = f"no readable file ({error.strerror})"
        raise TaskFormatError(str(path), found=found, expected="an ATIF trajectory") from error
    if len(content) > READ_LIMIT_BYTES:
        raise TaskFormatError(str(path), found="a larger file", expected=f"at most {READ_LIMIT_BYTES} bytes")
    try:
        return Trajectory.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise TaskFormatError(
            str(path),
            field=".".join(map(str, first["loc"])) or None,
            found=first["msg"],
            expected="an ATIF trajectory",
        ) from error
