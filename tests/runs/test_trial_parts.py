"""Trials of several parts on the embedded sandbox: steps one after the other, graders with a sandbox of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.folders import TASK_YAML, terminal_bench_1
from support.tasks import Made, make_task
from support.trials import try_task
from termarena.tasks import load_task
from termarena.tasks.model import BareRecipe

if TYPE_CHECKING:
    from support.trials import Bench

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.asyncio]

STEPS = """
[[steps]]
name = "first"
[[steps]]
name = "second"
min_reward = 1.0
"""


def _steps(first: str, second: str) -> Made:
    def tests(number: int) -> str:
        return f"#!/bin/sh\n(grep -qx {number} /app/{number}.txt && echo 1 || echo 0) >/logs/verifier/reward.txt\n"

    return Made(
        toml=STEPS,
        files={
            "steps/first/instruction.md": "Write 1 to /app/1.txt.\n",
            "steps/first/tests/test.sh": tests(1),
            "steps/first/solution/solve.sh": f"#!/bin/sh\n{first}",
            "steps/second/instruction.md": "Write 2 to /app/2.txt.\n",
            "steps/second/tests/test.sh": tests(2),
            "steps/second/solution/solve.sh": f"#!/bin/sh\n{second}",
        },
    )


async def test_a_task_of_several_steps_lives_on_from_step_to_step(bench: Bench) -> None:
    result = await bench.run("oracle", _steps("echo 1 >/app/1.txt\n", "cp /app/1.txt /app/x; echo 2 >/app/2.txt\n"))
    assert result.verdict is not None
    assert (result.outcome, list(result.verdict.steps)) == ("solved", ["first", "second"])


async def test_steps_are_averaged(bench: Bench) -> None:
    result = await bench.run("oracle", _steps("echo 1 >/app/1.txt\n", "true\n"))
    assert (result.outcome, result.reward) == ("unsolved", 0.5)


async def test_a_separate_grader_gets_the_artifacts_and_nothing_else(bench: Bench) -> None:
    tests = """#!/bin/sh
if grep -qx 1 /app/one.txt && ! [ -e /app/other.txt ] && ! [ -e /usr/local/bin/grep ]; then echo 1; else echo 0; fi \
>/logs/verifier/reward.txt
"""
    made = Made(
        solution="echo 1 >/app/one.txt; echo x >/app/other.txt\n"
        "mkdir -p /usr/local/bin; echo exit 0 >/usr/local/bin/grep\n",
        tests=tests,
        is_separate=True,
        artifacts=("/app/one.txt",),
    )
    task = make_task(bench.folder / "task", made)
    result = await try_task(task, "oracle", bench.attempt.path, home=bench.home)
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in) == ("solved", "separate")


LOOKS_FOR_A_VARIABLE = """\
echo "= short test summary info ="
if [ "$LEFT" = here ]; then echo "PASSED t::one"; else echo "FAILED t::one"; fi
"""


async def test_tests_that_want_the_agents_own_shell_find_what_it_left_there(bench: Bench) -> None:
    folder = terminal_bench_1(
        bench.folder / "task",
        task_yaml=TASK_YAML + "run_tests_in_same_shell: true\n",
        solution_sh="true\n",
        **{"run-tests_sh": LOOKS_FOR_A_VARIABLE},
    )
    task = load_task(folder)
    bare = task.environment.model_copy(update={"bare": BareRecipe(requires=("bash",))})
    task = task.model_copy(update={"environment": bare})
    result = await try_task(task, "support.agents:LeavesAVariable", bench.attempt.path, home=bench.home)
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in) == ("solved", "live")


async def test_work_after_the_deadline_does_not_reach_a_separate_grader(bench: Bench) -> None:
    collect = '[[verifier.collect]]\ncommand = "sleep 2"\n'
    made = Made(agent_s=0.5, is_separate=True, artifacts=("/app/one.txt",), toml=collect)
    result = await bench.run("support.agents:IsNotToBeStopped", made)
    assert result.sandbox.processes_left > 0
    assert (result.outcome, result.agent_end) == ("unsolved", "timeout")


async def test_a_separate_grader_that_gives_a_verdict_on_the_start_state_is_silent_by_the_agents_fault(
    bench: Bench,
) -> None:
    collect = "mkdir -p /logs/artifacts; [ -e /app/one.txt ] || echo there >/logs/artifacts/state"
    tests = "#!/bin/sh\n[ -e /logs/artifacts/state ] && echo 0 >/logs/verifier/reward.txt\n"
    made = Made(is_separate=True, tests=tests, toml=f'[[verifier.collect]]\ncommand = "{collect}"\n')
    result = await bench.run("oracle", made)
    assert (result.outcome, result.fault) == ("unsolved", None)


async def test_what_the_steps_used_is_added_up(bench: Bench) -> None:
    result = await bench.run("support.agents:Spends", _steps("true\n", "true\n"))
    assert (result.agent.input_tokens, result.agent.output_tokens, result.agent.cost_usd) == (200, None, 1.0)
