"""A run's budget: it stops cleanly, what has an outcome keeps it, and resuming knows what was spent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.tasks import make_task

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("user-namespaces")


def test_a_run_that_has_spent_its_budget_leaves_the_rest_unscored_and_says_so_when_resumed(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_task(tmp_path / "tasks" / name)
    write = {"tool_calls": [{"name": "EXECUTE", "arguments": {"command": "echo 1 >/app/one.txt"}}]}
    replies = [{**write, "cost_usd": 0.6}, {"tool_calls": [{"name": "TASK_COMPLETE"}], "cost_usd": 0.6}]
    (tmp_path / "script.json").write_text(json.dumps({"replies": replies}))
    out = str(tmp_path / "run")
    done = termarena(
        *("run", "--path", str(tmp_path / "tasks"), "--agent", "tools", "--model", "scripted:script.json"),
        *("--run-budget-usd", "1", "-n", "1", "--out", out, "--json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["solved"], report["unsolved"], report["unscored"]) == (1, 0, 2)
    assert "the run's budget of $1 is spent" in done.stdout + done.stderr
    again = termarena("resume", out, "--retry-unscored", cwd=tmp_path)
    assert again.returncode == 2
    assert "the run's budget of $1 is spent" in again.stderr
    assert "--run-budget-usd" in again.stderr
