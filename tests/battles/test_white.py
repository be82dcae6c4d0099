"""Our agents served as white agents, and measured over A2A as any other would be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.tasks import make_task
from termarena.battles.cards import WHITE_CARD
from termarena.battles.serving import Place, serve
from termarena.battles.white import Bench as WhiteBench
from termarena.battles.white import WhiteExecutor

if TYPE_CHECKING:
    from pathlib import Path

    from support.trials import Bench

pytestmark = pytest.mark.needs("user-namespaces")


async def test_the_oracle_solves_over_a2a_and_leaves_the_same_folder(bench: Bench, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    white = WhiteExecutor(WhiteBench("oracle", (task,)))
    async with serve(white, WHITE_CARD, Place()) as served:
        result = await bench.run(f"a2a:{served.url}")
    assert (result.outcome, result.agent_end) == ("solved", "submitted"), result.agent_error
    messages = [json.loads(line) for line in bench.attempt.messages.read_text().splitlines()]
    assert {row["direction"] for row in messages} == {"sent", "received"}
    assert "terminal-bench-shell-v1" in bench.attempt.messages.read_text()
    assert bench.attempt.cast().is_file()
    assert bench.attempt.trajectory.is_file()
    assert result.agent.commands > 0


async def test_nothing_solves_nothing(bench: Bench) -> None:
    async with serve(WhiteExecutor(WhiteBench("nop")), WHITE_CARD, Place()) as served:
        result = await bench.run(f"a2a:{served.url}")
    assert (result.outcome, result.agent_end) == ("unsolved", "submitted")


async def test_a_script_runs_without_knowing_the_task(bench: Bench) -> None:
    word = bench.script("echo 1 >/app/one.txt\n")
    async with serve(WhiteExecutor(WhiteBench(word)), WHITE_CARD, Place()) as served:
        result = await bench.run(f"a2a:{served.url}")
    assert result.outcome == "solved", result


async def test_an_oracle_without_the_task_says_so(bench: Bench) -> None:
    async with serve(WhiteExecutor(WhiteBench("oracle")), WHITE_CARD, Place()) as served:
        result = await bench.run(f"a2a:{served.url}")
    assert (result.outcome, result.agent_end, result.failure_mode) == ("unsolved", "error", "AGENT_ERROR")
    assert result.agent_error is not None
    assert "is not among those given here" in result.agent_error.message
