"""`RayTrials` where something is wrong on this side; what happens on nodes is in `test_cluster.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.tasks import make_task
from termarena.core.run_folder import AttemptFolder
from termarena.runs.cluster.runner import RayTrials
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.recording import read_result

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_trial_without_a_cluster_is_unscored_and_whole(tmp_path: Path) -> None:
    task, folder = make_task(tmp_path / "task"), AttemptFolder(tmp_path / "attempt")
    folder.path.mkdir()
    (folder.path / "half of a file").touch()
    runner = RayTrials(RunOptions(engine="ray"), run_id="run")
    assert runner.budget is None
    result = await runner.run(plan_of(task, 1), task, folder=folder, retry=0)
    assert (result.outcome, result.fault, result.failure_mode) == ("unscored", "infra", "INFRA_FAULT")
    assert result.fault_detail is not None
    assert (result.fault_detail.kind, result.fault_detail.hint) == (
        "ClusterError",
        "call probe() before the first trial",
    )
    assert read_result(folder) == result
    assert not (folder.path / "half of a file").exists()
