"""What tasks can be in a battle: of several steps, in a container, with other limits than their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from battles.greens import green_at
from battles.whites import FINAL, SOLVES, White, white_at
from sandbox.docker_support import left_over
from support.tasks import Made, make_task
from termarena.battles.config import GreenConfig, TaskChoice
from termarena.core.run_folder import RunFolder
from termarena.reports import build_report
from termarena.runs.reading import read_run
from termarena.runs.recording import read_result

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)

STEPS = '[[steps]]\nname = "first"\nmin_reward = 1.0\n[[steps]]\nname = "second"\n'


def _steps() -> Made:
    tests = {
        name: f"#!/bin/sh\ntest -f /app/{name} && echo 1 >/logs/verifier/reward.txt\n" for name in ("first", "second")
    }
    files = {f"steps/{name}/instruction.md": f"Make /app/{name}.\n" for name in tests}
    return Made(toml=STEPS, files={**files, **{f"steps/{name}/tests/test.sh": text for name, text in tests.items()}})


@pytest.mark.needs("user-namespaces")
async def test_each_step_is_a_conversation_of_its_own_in_the_same_sandbox(tmp_path: Path, home: Path) -> None:
    def makes(turn: int, text: str) -> dict[str, Any]:
        told = json.loads(text)
        if turn == 1:
            return {"kind": "exec_request", "command": f"cd /app && touch {told['step']} && ls"}
        return {**FINAL, "output": told["stdout"]}

    white = White(makes)
    task = make_task(tmp_path / "tasks" / "steps", _steps())
    async with green_at(tmp_path, home, tasks=(task,)) as green, white_at(white) as url:
        result = await green.battle(url)
    (row,) = result["rows"]
    assert (result["score"], row["n_commands"], row["n_turns"]) == (1, 2, 2), result
    begun = [(told["step"], told["instruction"]) for told in white.heard if told["kind"] == "task"]
    assert begun == [("first", "Make /app/first.\n"), ("second", "Make /app/second.\n")]
    assert [told["stdout"] for told in white.heard if told["kind"] == "exec_result"] == ["first\n", "first  second\n"]
    assert len(white.turns) == 2  # contexts


@pytest.mark.needs("docker")
async def test_a_battle_in_a_container(tmp_path: Path) -> None:
    image = "FROM debian:bookworm\nWORKDIR /app\n"
    task = make_task(tmp_path / "tasks" / "one", Made(files={"environment/Dockerfile": image}))
    home, config = tmp_path / "home", GreenConfig(driver="docker")
    says = [
        {"kind": "exec_request", "command": "cat /etc/debian_version; cd /app; X=1"},
        {**SOLVES, "command": "echo $X >one.txt"},
    ]
    white = White(lambda turn, _: says[turn - 1] if turn <= len(says) else FINAL)
    async with green_at(tmp_path, home, tasks=(task,), config=config) as green, white_at(white) as url:
        result = await green.battle(url)
    assert (result["score"], result["rows"][0]["n_commands"]) == (1, 2), result
    (folder,) = green.battles.iterdir()
    assert read_result(RunFolder(folder).attempt("one", 1)).sandbox.driver == "docker"
    assert white.heard[1]["stdout"].startswith("12.")
    assert left_over(home) == []


@pytest.mark.needs("user-namespaces")
async def test_an_operators_limits_are_applied_and_told(tmp_path: Path, home: Path) -> None:
    config = GreenConfig(driver="namespace", tasks=TaskChoice(cpus=0.5, memory_mb=96))
    eats = {"kind": "exec_request", "command": "head -c 200m /dev/zero | tail -c 190m >/dev/null"}
    white = White(lambda turn, _: eats if turn == 1 else FINAL)
    async with green_at(tmp_path, home, config=config) as green, white_at(white) as url:
        result = await green.battle(url)
    assert result["unscored"] == 0, result
    (folder,) = green.battles.iterdir()
    run = RunFolder(folder)
    limits = read_result(run.attempt("one", 1)).limits
    assert (limits.cpus, limits.memory_mb) == (0.5, 96)
    reasons = {one.reason: one.message for one in build_report(read_run(run)).not_ranked}
    assert reasons["changed_limits"] == "sandboxes had 0.5 processors and 96 MB, whatever the tasks ask for"
    assert white.heard[1]["exit_code"] != 0  # it keeps 190 MB in memory, where they do not fit
