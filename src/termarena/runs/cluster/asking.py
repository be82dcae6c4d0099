"""Questions to a cluster from code that waits for the answer: for as long as the head is there."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future, wait
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from termarena.core.errors import HeadLost
from termarena.runs.cluster.connecting import HEAD_LOOK_S, HEAD_SILENT_S, THREAD, raisable

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.runs.cluster.connecting import Cluster

__all__ = ["Asking"]

T = TypeVar("T")


class Asking:
    """A cluster, asked from whichever thread; `cluster` itself may wait for ever where its head is lost."""

    def __init__(self, cluster: Cluster) -> None:
        """Nothing is asked yet."""
        self.cluster = cluster
        self._lost: HeadLost | None = None

    def ask(self, question: Callable[..., T], *given: object) -> T:
        """What a function returns, or raises, however long that takes as long as the head is there.

        Raises `HeadLost` else, then and ever after, and `ClusterError` as `apart` does.
        """
        if self._lost is not None:
            raise self._lost
        answer: Future[T] = Future()
        threading.Thread(target=_settle, args=(answer, question, given), name=THREAD, daemon=True).start()
        heard = monotonic()
        while not wait([answer], timeout=HEAD_LOOK_S).done:
            if self.cluster.has_head():
                heard = monotonic()
            elif monotonic() - heard >= HEAD_SILENT_S:
                raise self._lose()
        return answer.result()

    def check_head(self) -> None:
        """Raises `HeadLost` where the head is not there: what failed meanwhile failed for that."""
        if not self.cluster.has_head():
            raise self._lose()

    def close(self) -> None:
        """Let go of the cluster; of one whose head is lost without a word."""
        if self._lost is None:
            with contextlib.suppress(HeadLost):
                self.ask(self.cluster.close)
        if self._lost is not None:
            self.cluster.abandon()

    def _lose(self) -> HeadLost:
        hint = "start a cluster, then give the same command with --address HOST:PORT, or go on here: --engine local"
        self._lost = HeadLost(self.cluster.address, silent_s=HEAD_SILENT_S, hint=hint)
        return self._lost


def _settle(answer: Future[Any], question: Callable[..., object], given: tuple[object, ...]) -> None:
    try:
        answer.set_result(question(*given))
    except BaseException as error:  # noqa: BLE001 - it is raised where it was asked
        answer.set_exception(raisable(error))
