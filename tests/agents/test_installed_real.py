"""Real agents from npm and PyPI, installed in a sandbox and solving a sample against the broker, with no other network.

One of them is part of every test run; `make soak` tries all of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

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


async def _try(agent: str, model: str, folder: Path, *, home: Path) -> TrialResult:
    (task,) = (task for task in load_dataset("samples").tasks if task.id == "termarena/hello-world")
    options = RunOptions(agent=f"cli:{agent}", model=model, driver="namespace", timeout_multiplier=4)
    async with Trials(options, home=home, run_id="real") as trials:
        return await trials.run(plan_of(task, 1), task, folder=AttemptFolder(folder / "attempt"))


async def _solves(agent: str, folder: Path, home: Path) -> None:
    script = folder / "script.json"
    script.write_text(json.dumps({"by_turn": True, "conversations": [TITLES], "replies": SCRIPTS[agent]}))
    result = await _try(agent, f"scripted:{script}", folder, home=home)
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
