"""A trial on its way through a cluster that does not do its part; what Ray itself does is in `test_cluster.py`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from termarena.core.errors import ClusterError, NodeLost
from termarena.runs.cluster import flight
from termarena.runs.cluster.connecting import Cluster, Node
from termarena.runs.cluster.flight import Flight
from termarena.runs.cluster.orders import Began, Files, Message
from termarena.runs.cluster.parcels import Piece
from termarena.runs.machine import Budget

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Exceptions:
    RayError = type("RayError", (Exception,), {})


class Ray:
    """Only what a flight asks of Ray."""

    exceptions = Exceptions

    def __init__(self) -> None:
        self.cancelled: list[bool] = []
        self.is_forced = asyncio.Event()

    def cancel(self, stream: object, *, force: bool) -> None:
        del stream
        self.cancelled.append(force)
        if force:
            self.is_forced.set()


class Nodes(Cluster):
    def __init__(self, *nodes: Node) -> None:
        super().__init__(Ray(), "here")
        self.there = nodes

    def nodes(self) -> tuple[Node, ...]:
        return self.there


async def said(message: Message) -> Message:
    return message


def flight_of(cluster: Nodes, stream: AsyncIterator[Any], folder: Path) -> Flight:
    return Flight(cluster, stream, "t#1.0", needs=Budget(2.0, 100), folder=folder)


async def test_a_trial_that_no_node_is_left_for_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "LOOK_S", 0.001)
    cluster = Nodes(Node("a", "a", 1.0, 1000))

    async def stream() -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield

    with pytest.raises(ClusterError, match="no node is left with 2 processors and 100 MB"):
        await flight_of(cluster, stream(), tmp_path).land()
    assert cluster.ray.cancelled == [False]


async def test_a_trial_that_does_not_stop_loses_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flight, "STOP_S", 0.001)
    cluster = Nodes(Node("a", "a", 2.0, 1000))
    has_begun = asyncio.Event()

    async def stream() -> AsyncIterator[Any]:
        yield said(Began("a"))
        has_begun.set()
        await cluster.ray.is_forced.wait()

    landing = asyncio.create_task(flight_of(cluster, stream(), tmp_path).land())
    await has_begun.wait()
    landing.cancel()
    with suppress(asyncio.CancelledError):
        await landing
    assert landing.cancelled()
    assert cluster.ray.cancelled == [False, True]


async def test_a_stream_that_ends_without_a_result_is_a_lost_node(tmp_path: Path) -> None:
    async def stream() -> AsyncIterator[Any]:
        yield said(Began("a"))
        yield said(Files((Piece("a.txt", "file", b"1"),)))

    with pytest.raises(NodeLost, match="ended without a word"):
        await flight_of(Nodes(), stream(), tmp_path).land()
    assert (tmp_path / "a.txt").read_bytes() == b"1"


async def test_a_folder_that_takes_no_more_stops_the_trial(tmp_path: Path) -> None:
    cluster = Nodes()

    async def stream() -> AsyncIterator[Any]:
        yield said(Began("a"))
        yield said(Files((Piece("a.txt/b", "file", b"1"),)))

    (tmp_path / "a.txt").touch()
    with pytest.raises(OSError, match=r"a\.txt"):
        await flight_of(cluster, stream(), tmp_path).land()
    assert cluster.ray.cancelled == [False]
