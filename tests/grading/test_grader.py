"""One grading: each format's way to a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grading.bench import Bench

pytestmark = pytest.mark.needs("user-namespaces")


@pytest.mark.parametrize(("agent", "reward"), [("echo 1 >/app/one.txt", 1.0), (None, 0.0)])
async def test_a_reward_file_is_the_verdict(bench: Bench, agent: str | None, reward: float) -> None:
    verdict = await bench.sealed(bench.harbor(), agent)
    assert (verdict.reward, verdict.fault, verdict.graded_in) == (reward, None, "sealed")
    assert verdict.rewards == {"reward": reward}
    assert verdict.is_pass == (reward == 1.0)


@pytest.mark.parametrize(("agent", "reward"), [("echo 1 >/workspace/one.txt", 1.0), (None, 0.0)])
async def test_the_exit_status_of_a_simple_task_is_the_verdict(bench: Bench, agent: str | None, reward: float) -> None:
    verdict = await bench.sealed(bench.simple("test -f /workspace/one.txt\n"), agent)
    assert (verdict.reward, verdict.exit_status) == (reward, 0 if reward else 1)


SUMMARY = """\
#!/bin/bash
echo 'collected 2 items'
test "$TEST_DIR" = /tests && test -f $TEST_DIR/test_outputs.py || exit 3
echo '=== short test summary info ==='
echo 'PASSED ../tests/test_outputs.py::test_one'
[ -f /app/one.txt ] && echo 'PASSED ../tests/test_outputs.py::test_two' ||
  echo "FAILED ../tests/test_outputs.py::test_two - FileNotFoundError: no - such file"
"""


@pytest.mark.parametrize(("agent", "state"), [("echo 1 >/app/one.txt", "passed"), (None, "failed")])
async def test_the_printed_summary_of_a_terminal_bench_1_task_is_the_verdict(
    bench: Bench, agent: str | None, state: str
) -> None:
    verdict = await bench.sealed(bench.terminal_bench_1(SUMMARY), agent)
    assert verdict.reward == (1.0 if state == "passed" else 0.0)
    assert [(test.name, test.state) for test in verdict.tests] == [("test_one", "passed"), ("test_two", state)]
