"""The folder of one attempt, as a trial leaves it: with a terminal, steps, tests, changes and a finding."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from termarena.core.records import write_record
from termarena.core.scrub import Scrubber
from termarena.core.trajectory import (
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
    TrajectoryAgent,
    write_trajectory,
)
from termarena.grading.contract import IntegrityFinding, TestResult, Verdict
from termarena.runs.recording import write_result
from termarena.runs.result import AgentFacts, Clock, LimitsUsed, SandboxFacts, TrialResult

if TYPE_CHECKING:
    from termarena.core.run_folder import AttemptFolder

BEGAN = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
COMMANDS = {1.0: "ls", 40.0: "echo '<b>bold</b>'", 41.0: "make all"}
"""When each was given, in seconds of the recording."""


def made_attempt(folder: AttemptFolder, *, task: str, attempt: int = 1) -> None:
    """Write it; the task was `Do <i>this</i>.`, the agent gave three commands, the second after a long pause."""
    folder.path.mkdir(parents=True)
    _write_cast(folder)
    _write_steps(folder)
    folder.test_output.write_text("1 passed <script>alert(2)</script>\n")
    change = {"path": "/app/out.txt", "change": "added", "kind": "file", "size": 14}
    write_record(folder.changes, "file-changes", {"total": 1, "changes": [change]})
    write_result(folder, _result(task, attempt), Scrubber())


def _at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def _write_cast(folder: AttemptFolder) -> None:
    lines: list[object] = [{"version": 2, "width": 60, "height": 12, "timestamp": int(BEGAN.timestamp()) + 1}]
    for at, command in COMMANDS.items():
        lines += [[at, "m", command], [at, "o", f"$ {command}\r\n"], [at + 0.2, "o", f"did {command}\r\n"]]
    folder.cast().write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_steps(folder: AttemptFolder) -> None:
    steps = [Step(step_id=1, source="user", timestamp=_at(0), message="Do <i>this</i>.")]
    rows = []
    for number, (at, command) in enumerate(COMMANDS.items(), start=2):
        # The recording's clock began two seconds after the agent's.
        steps.append(_step(number, at + 2, command))
        rows.append(
            {
                "id": f"call-{number}",
                "step_id": number,
                "name": "terminal.run",
                "arguments": {"command": command},
                "started_at": _at(at + 2),
                "duration_s": 0.2,
                "exit_status": 0,
            }
        )
    write_trajectory(folder.trajectory, Trajectory(agent=TrajectoryAgent(name="mine", version="1"), steps=tuple(steps)))
    write_record(folder.tool_calls, "tool_calls", {"counts": {"terminal.run": 3}, "calls": rows})


def _step(number: int, at: float, command: str) -> Step:
    call = ToolCall(tool_call_id=f"call-{number}", function_name="terminal.run", arguments={"command": command})
    result = ObservationResult(source_call_id=f"call-{number}", content=f"did {command}\n")
    return Step(
        step_id=number,
        timestamp=_at(at),
        tool_calls=(call,),
        observation=Observation(results=(result,)),
        llm_call_count=0,
    )


def _result(task: str, attempt: int) -> TrialResult:
    finding = IntegrityFinding(rule="shell-startup", severity="warning", path="/root/.bashrc", message="it was changed")
    tests = (TestResult(name="test_out", state="passed"), TestResult(name="test_more", state="failed", message="no"))
    return TrialResult(
        run_id="made",
        task_id=task,
        task_digest="task1:same",
        attempt=attempt,
        outcome="solved",
        agent_end="submitted",
        failure_mode="NONE",
        reward=1.0,
        verdict=Verdict(reward=1.0, raw_reward=1.0, graded_in="sealed", tests=tests, findings=(finding,)),
        agent=AgentFacts(name="mine", version="1", commands=3, steps=4),
        sandbox=SandboxFacts(driver="namespace"),
        limits=LimitsUsed(agent_timeout_s=300, test_timeout_s=60),
        clocks={"work": Clock(started_at=_at(0), duration_s=50)},
        started_at=_at(0),
        finished_at=_at(60),
    )
