"""Real agents from npm and PyPI, installed in a sandbox and solving a sample against the broker, with no other network.

One of them is part of every test run; `make soak` tries all of them.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from support.tasks import Made, make_task
from termarena.agents.installed.description import catalog
from termarena.core.run_folder import AttemptFolder
from termarena.core.trajectory import read_trajectory
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.runs.result import TrialResult
    from termarena.tasks import Task

COMMAND = "printf 'Hello, world!\\n' > /app/hello.txt; ls /app"
USED = {"input_tokens": 900, "output_tokens": 30}


def _calls(tool: str, **arguments: object) -> list[dict[str, Any]]:
    return [
        {"content": "I write it.", "tool_calls": [{"name": tool, "arguments": arguments}], **USED},
        {"content": "It is written.", **USED},
    ]


# What the model says to each agent, in the words of its tools.
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "aider": [{"content": "I write it.\n\n/app/hello.txt\n```\nHello, world!\n```\n", **USED}] * 2,
    "claude-code": _calls("Bash", command=COMMAND, description="write"),
    "codex": _calls("exec_command", cmd=COMMAND),
    "gemini-cli": _calls("run_shell_command", command=COMMAND, description="write"),
    "goose": _calls("shell", command=COMMAND),
    "mini-swe-agent": [
        *_calls("bash", command=COMMAND)[:1],
        *_calls("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")[:1],
    ],
    "openhands": [
        *_calls("terminal", command=COMMAND, summary="write", security_risk="LOW")[:1],
        *_calls("finish", message="It is written.", summary="done", security_risk="LOW")[:1],
    ],
    "opencode": _calls("bash", command=COMMAND, description="write"),
    # It begins with a turn of its own making, and asks once more at the end.
    "qwen-code": [
        {"content": "(never said)"},
        *_calls("run_shell_command", command=COMMAND, is_background=False, description="write"),
        {"content": "Nothing more.", **USED},
        {"content": "Nothing more.", **USED},
    ],
}
TITLES = {"when": "(?i)you are a title generator|generate a .{0,30}title", "replies": [{"content": "Hello", **USED}]}


def _hello_world() -> Task:
    return next(task for task in load_dataset("samples").tasks if task.id == "termarena/hello-world")


async def _try(options: RunOptions, task: Task, folder: Path, home: Path) -> TrialResult:
    async with Trials(options, home=home, run_id="real") as trials:
        return await trials.run(plan_of(task, 1), task, folder=AttemptFolder(folder / "attempt"))


async def _solves(agent: str, folder: Path, home: Path, *, task: Task | None = None, driver: str = "namespace") -> None:
    script = folder / "script.json"
    script.write_text(json.dumps({"by_turn": True, "conversations": [TITLES], "replies": SCRIPTS[agent]}))
    options = RunOptions(agent=f"cli:{agent}", model=f"scripted:{script}", driver=driver, timeout_multiplier=4)
    result = await _try(options, task or _hello_world(), folder, home)
    assert (result.outcome, result.agent_end) == ("solved", "submitted"), result.model_dump_json(indent=1)
    assert result.agent.version == catalog()[agent].version
    assert result.agent.input_tokens is not None
    assert result.agent.input_tokens >= USED["input_tokens"]
    steps = read_trajectory(AttemptFolder(folder / "attempt").trajectory).steps
    assert "I write it." in [str(step.message).strip() for step in steps] or agent == "aider"
    if agent != "aider":
        done = [call for step in steps for call in step.tool_calls or () if call.function_name not in ("exec", "write")]
        assert any("hello.txt" in json.dumps(call.arguments) for call in done)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def test_there_is_a_script_for_every_agent() -> None:
    assert SCRIPTS.keys() == catalog().keys()


@pytest.mark.slow
@pytest.mark.needs("npm")
@pytest.mark.timeout(600)
async def test_an_agent_from_npm_solves_a_sample(tmp_path: Path, home: Path) -> None:
    await _solves("claude-code", tmp_path, home)


@pytest.mark.soak
@pytest.mark.needs("npm")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "agent",
    [pytest.param(agent, marks=[pytest.mark.needs("python3.12")] if agent == "openhands" else []) for agent in SCRIPTS],
)
async def test_every_agent_solves_a_sample(agent: str, tmp_path: Path, home: Path) -> None:
    await _solves(agent, tmp_path, home)


@pytest.mark.soak
@pytest.mark.needs("npm", "docker")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("agent", [name for name, known in catalog().items() if known.portable != "no"])
async def test_an_agent_of_npm_lives_in_an_image_without_node(agent: str, tmp_path: Path, home: Path) -> None:
    tests = (
        "#!/bin/sh\ncommand -v node npm && exit 1\n"
        "grep -qx 'Hello, world!' /app/hello.txt && echo 1 >/logs/verifier/reward.txt\n"
    )
    files = {"environment/Dockerfile": "FROM debian:bookworm\nWORKDIR /app\n"}
    task = make_task(tmp_path / "task", Made(files=files, tests=tests, agent_s=60, memory_mb=4096))
    await _solves(agent, tmp_path, home, task=task, driver="docker")


@pytest.mark.soak
@pytest.mark.needs("npm", "small-model")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("agent", ["mini-swe-agent", "aider"])
async def test_a_real_agent_asks_a_real_model(agent: str, tmp_path: Path, home: Path) -> None:
    """The model is too small to solve anything so: what counts is that the trial ends, is graded, and is told."""
    model = f"llamacpp:smollm2@{os.environ['TERMARENA_SMALL_MODEL']}"
    options = RunOptions(
        agent=f"cli:{agent}",
        model=model,
        driver="namespace",
        timeout_multiplier=4,
        max_reply_tokens=48,
        trial_budget_tokens=12_000,
    )
    result = await _try(options, _hello_world(), tmp_path, home)
    assert result.outcome == "unsolved", result.model_dump_json(indent=1)
    assert result.agent_end in ("submitted", "error", "resource_limit")
    assert result.agent.input_tokens
    assert result.agent.output_tokens
    said = [step for step in read_trajectory(AttemptFolder(tmp_path / "attempt").trajectory).steps if step.metrics]
    assert any(step.message for step in said)
