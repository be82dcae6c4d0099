"""`RayTrials` where something is wrong on this side; what happens on nodes is in `test_cluster.py`."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from support.tasks import make_task
from termarena.core.errors import BudgetLost, ClusterError, HeadLost
from termarena.core.run_folder import AttemptFolder
from termarena.runs.cluster import runner as runner_module
from termarena.runs.cluster.connecting import THREAD, Cluster, Node, apart
from termarena.runs.cluster.orders import Began, Ended, Failed
from termarena.runs.cluster.runner import RayTrials
from termarena.runs.faults import blame, describe
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.recording import read_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
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


class RayError(Exception):
    pass


class Ray:
    """What is asked of Ray before a node is heard of."""

    class exceptions:  # noqa: N801 - Ray's name
        RayError = RayError

    def __init__(self) -> None:
        self.cancelled: list[bool] = []

    def put(self, parcel: object) -> object:
        return parcel

    def cancel(self, asked: object, *, force: bool) -> None:
        del asked
        self.cancelled.append(force)


class Silent(Cluster):
    """A cluster whose nodes take what they are given and say nothing more."""

    def __init__(self) -> None:
        super().__init__(Ray(), "10.0.0.1:6379")
        self.there: tuple[Node, ...] = (Node("a", "a", 1.0, 1000), Node("b", "b", 1.0, 1000))
        self.is_abandoned = False

    def nodes(self) -> tuple[Node, ...]:
        return self.there

    def has_head(self) -> bool:
        return False

    def as_trial(self, work: Callable[..., object], needs: object) -> Any:  # noqa: ANN401 - as Ray's
        del work, needs

        class Asked:
            def remote(self, *_: object) -> AsyncIterator[Any]:
                return began_and_silent()

        return Asked()

    def on_node(self, work: Callable[..., object], node: Node) -> Any:  # noqa: ANN401 - as Ray's
        del work, node

        class Asked:
            def remote(self, *_: object) -> asyncio.Future[None]:
                return asyncio.get_running_loop().create_future()

        return Asked()

    def abandon(self) -> None:
        self.is_abandoned = True

    def close(self) -> None:
        raise AssertionError("taking leave of a lost head would wait for it")


async def began_and_silent() -> AsyncIterator[Any]:
    async def began() -> Began:
        return Began("a")

    yield began()
    await asyncio.Event().wait()


async def test_a_lost_head_ends_every_trial_and_starts_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "HEAD_SILENT_S", 0.02)
    monkeypatch.setattr(runner_module, "HEAD_LOOK_S", 0.001)
    cluster = Silent()
    monkeypatch.setattr(runner_module, "connect", lambda _: cluster)
    runner = RayTrials(RunOptions(engine="ray"), run_id="run")
    runner._connected = cluster  # noqa: SLF001 - as after a probe
    task = make_task(tmp_path / "task")
    for number in (1, 2):
        folder = AttemptFolder(tmp_path / f"attempt-{number}")
        folder.path.mkdir()
        with pytest.raises(HeadLost, match=r"the head of the Ray cluster at 10\.0\.0\.1:6379 is lost"):
            await runner.run(plan_of(task, number), task, folder=folder, retry=0)
    await runner.aclose()
    assert cluster.is_abandoned
    assert cluster.ray.cancelled == [], "nobody is left to be told"


async def test_a_head_that_is_lost_while_a_trial_is_handed_over_ends_that_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "HEAD_SILENT_S", 0.02)
    monkeypatch.setattr(runner_module, "HEAD_LOOK_S", 0.001)
    cluster = Silent()
    runner = RayTrials(RunOptions(engine="ray"), run_id="run")
    runner._connected = cluster  # noqa: SLF001 - as after a probe
    sending = runner._send  # noqa: SLF001 - what takes long where the head is gone

    async def slowly(*given: Any) -> list[Any]:  # noqa: ANN401 - as it is
        watching = runner._watching  # noqa: SLF001 - it ends when the head is held to be lost
        assert watching is not None
        await asyncio.wait([watching])
        return await sending(*given)

    monkeypatch.setattr(runner, "_send", slowly)
    task, folder = make_task(tmp_path / "task"), AttemptFolder(tmp_path / "attempt")
    folder.path.mkdir()
    async with asyncio.timeout(60):
        with pytest.raises(HeadLost):
            await runner.run(plan_of(task, 1), task, folder=folder, retry=0)
    await runner.aclose()


class Stuck(Silent):
    """A cluster whose head is lost: what is asked of it is never answered."""

    def nodes(self) -> tuple[Node, ...]:
        threading.Event().wait()
        raise AssertionError("nobody answers")

    def close(self) -> None:
        self.nodes()


async def test_a_question_that_a_lost_head_never_answers_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "HEAD_SILENT_S", 0.02)
    monkeypatch.setattr(runner_module, "HEAD_LOOK_S", 0.001)
    task, folder = make_task(tmp_path / "task"), AttemptFolder(tmp_path / "attempt")
    folder.path.mkdir()
    launching = RayTrials(RunOptions(engine="ray"), run_id="run")
    probing, leaving = (RayTrials(RunOptions(engine="ray"), run_id="run") for _ in range(2))
    clusters = [Stuck() for _ in range(3)]
    monkeypatch.setattr(runner_module, "connect", lambda _: clusters[1])
    launching._connected, _, leaving._connected = clusters  # noqa: SLF001 - as after a probe
    async with asyncio.timeout(60):
        with pytest.raises(HeadLost):
            await launching.run(plan_of(task, 1), task, folder=folder, retry=0)
        with pytest.raises(HeadLost):
            await probing.probe()
        await launching.aclose()
        await leaving.aclose()
    assert [cluster.is_abandoned for cluster in clusters] == [True, True, True]
    asked = [thread for thread in threading.enumerate() if thread.name == THREAD]
    assert len(asked) >= 3
    assert all(thread.daemon for thread in asked), "the process would wait for them at its end"


class Spent(Silent):
    """A cluster whose trials cannot ask what they may spend."""

    message: Ended | Failed = Failed(blame(BudgetLost(), "work"))

    def as_trial(self, work: Callable[..., object], needs: object) -> Any:  # noqa: ANN401 - as Ray's
        del work, needs
        message = self.message

        class Asked:
            async def _stream(self) -> AsyncIterator[Any]:
                async def told() -> Ended | Failed:
                    return message

                yield told()

            def remote(self, *_: object) -> AsyncIterator[Any]:
                return self._stream()

        return Asked()


async def test_a_run_without_its_budget_is_stopped(tmp_path: Path) -> None:
    cluster = Spent()
    cluster.close = lambda: None  # type: ignore[method-assign] # the head is there
    runner = RayTrials(RunOptions(engine="ray"), run_id="run")
    runner._connected = cluster  # noqa: SLF001 - as after a probe
    task, folder = make_task(tmp_path / "task"), AttemptFolder(tmp_path / "attempt")
    folder.path.mkdir()
    with pytest.raises(BudgetLost, match="keeps the run's budget is lost"):
        await runner.run(plan_of(task, 1), task, folder=folder, retry=0)
    assert not folder.result.exists(), "it is to be tried again"
    await runner.aclose()


async def test_a_run_without_its_budget_is_stopped_whatever_else_went_wrong(tmp_path: Path) -> None:
    cluster = Spent()
    cluster.close = lambda: None  # type: ignore[method-assign] # the head is there
    runner = RayTrials(RunOptions(engine="ray"), run_id="run")
    task, folder = make_task(tmp_path / "task"), AttemptFolder(tmp_path / "attempt")
    folder.path.mkdir()
    failed = await runner.run(plan_of(task, 1), task, folder=folder, retry=0)
    assert failed.fault_detail is not None, "the grading failed after the agent did"
    cluster.message = Ended((), failed.model_copy(update={"agent_error": describe(BudgetLost(), "work")}))
    runner._connected = cluster  # noqa: SLF001 - as after a probe
    with pytest.raises(BudgetLost):
        await runner.run(plan_of(task, 1), task, folder=folder, retry=0)
    await runner.aclose()


@pytest.mark.parametrize("end", [SystemExit(1), KeyboardInterrupt()])
async def test_a_question_that_would_end_the_process_is_answered(end: BaseException) -> None:
    def leave() -> None:
        raise end

    async with asyncio.timeout(60):
        with pytest.raises(ClusterError, match=f"ended with {type(end).__name__}") as told:
            await apart(leave)
    assert told.value.__cause__ is end


async def test_a_node_that_does_not_answer_is_named_and_one_that_is_lost_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner_module, "TELL_S", 0.001)
    monkeypatch.setattr(runner_module, "ANSWER_S", 0.4)
    cluster = Silent()
    cluster.close = lambda: None  # type: ignore[method-assign] # the head is there
    monkeypatch.setattr(runner_module, "connect", lambda _: cluster)
    told: list[str] = []
    runner = RayTrials(RunOptions(engine="ray"), run_id="run", on_log=told.append)
    with pytest.raises(ClusterError, match=r"the node [ab] has not answered for 0 s"):
        await runner.probe()
    assert any("waiting for the node" in line for line in told)
    asked_first = iter([True])
    lost = Silent()
    lost.close = lambda: None  # type: ignore[method-assign] # as above
    monkeypatch.setattr(runner_module, "connect", lambda _: lost)
    monkeypatch.setattr(lost, "nodes", lambda: Silent().there if next(asked_first, False) else ())
    with pytest.raises(ClusterError, match="has no node with processors"), suppress(asyncio.CancelledError):
        await runner.probe()
    assert sorted(told[-2:]) == ["the node a is lost, and left out", "the node b is lost, and left out"]
