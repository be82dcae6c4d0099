"""What a node does with an order, without a cluster around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.tasks import make_task
from termarena.runs.cluster.node import carry_out
from termarena.runs.cluster.orders import Began, Failed, Order
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions

if TYPE_CHECKING:
    from pathlib import Path


def test_a_node_with_another_version_carries_nothing_out(tmp_path: Path) -> None:
    plan = plan_of(make_task(tmp_path / "task"), 1)
    began, failed = carry_out(Order("99.0", "run", RunOptions(), plan, 0, "task"), [])
    assert isinstance(began, Began)
    assert isinstance(failed, Failed)
    assert (failed.blame.fault, failed.blame.detail.kind) == ("infra", "ClusterError")
    assert "the run 99.0" in failed.blame.detail.message
