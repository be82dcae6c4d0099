"""Trajectories: what the format asks for is held, and what others write can be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from termarena.core.errors import TaskFormatError
from termarena.core.trajectory import (
    SCHEMA_VERSION,
    FinalMetrics,
    Observation,
    ObservationResult,
    Step,
    StepMetrics,
    ToolCall,
    Trajectory,
    TrajectoryAgent,
    read_trajectory,
    write_trajectory,
)

if TYPE_CHECKING:
    from pathlib import Path

AGENT = TrajectoryAgent(name="a", version="1", model_name="m")
CALL = ToolCall(tool_call_id="c1", function_name="exec", arguments={"argv": ["ls"]})
STEPS = (
    Step(source="user", message="Do it."),
    Step(
        step_id=2,
        message="I do.",
        reasoning_content="hm",
        tool_calls=(CALL,),
        observation=Observation(results=(ObservationResult(source_call_id="c1", content="out"),)),
        metrics=StepMetrics(prompt_tokens=3, cost_usd=0.5),
        timestamp="2026-01-02T03:04:05.678+00:00",
    ),
)


def test_it_is_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    trajectory = Trajectory(agent=AGENT, steps=STEPS, final_metrics=FinalMetrics(total_steps=2))
    write_trajectory(path, trajectory)
    assert read_trajectory(path) == trajectory
    document = json.loads(path.read_text())
    assert document["schema_version"] == SCHEMA_VERSION == "ATIF-v1.7"
    assert document["steps"][0] == {"step_id": 1, "source": "user", "message": "Do it."}


def test_steps_are_numbered_from_one() -> None:
    with pytest.raises(ValidationError, match="the step at place 2 has the step_id 3"):
        Trajectory(agent=AGENT, steps=(STEPS[0], STEPS[1].model_copy(update={"step_id": 3})))
    with pytest.raises(ValidationError, match="at least 1 item"):
        Trajectory(agent=AGENT, steps=())


def test_a_result_names_a_call_of_its_step() -> None:
    with pytest.raises(ValidationError, match="names no call of its step"):
        Step(observation=Observation(results=(ObservationResult(source_call_id="c1"),)))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"source": "user", "tool_calls": (CALL,)}, "tool_calls is for steps of the agent"),
        ({"source": "system", "reasoning_content": "x"}, "reasoning_content is for steps of the agent"),
        ({"llm_call_count": 0, "metrics": StepMetrics()}, "metrics is for steps in which a model was asked"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"llm_call_count": -1}, "llm_call_count"),
        ({"invented": 1}, "invented"),
    ],
)
def test_what_the_format_refuses(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Step(**fields)


def test_what_others_write_is_read(tmp_path: Path) -> None:
    document = {
        "schema_version": "ATIF-v1.8",
        "session_id": "s",
        "agent": {"name": "terminus-2", "version": "2", "tool_definitions": [{"type": "function"}], "extra": {"x": 1}},
        "steps": [
            {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "look"}]},
            {
                "step_id": 2,
                "source": "agent",
                "message": "",
                "tool_calls": [
                    {"tool_call_id": "1", "function_name": "bash_command", "arguments": {"keystrokes": "ls\n"}}
                ],
                "observation": {"results": [{"content": "x", "subagent_trajectory_ref": [{"trajectory_id": "t"}]}]},
                "metrics": {"completion_token_ids": [1, 2], "logprobs": [-0.1]},
            },
        ],
    }
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(document))
    assert read_trajectory(path).steps[1].tool_calls is not None


@pytest.mark.parametrize("content", ["", "[]", '{"schema_version": "ATIF-v2.0"}', '{"agent": 1}'])
def test_another_file_is_told_by_its_field(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(TaskFormatError, match="an ATIF trajectory"):
        read_trajectory(path)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(TaskFormatError, match="no readable file"):
        read_trajectory(tmp_path / "none.json")
