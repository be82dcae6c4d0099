"""Questions to a cluster whose head is there, or is lost; a real one is lost in `test_cluster.py`."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from termarena.core.errors import ClusterError, HeadLost
from termarena.forge.sharding import Where, map_files
from termarena.runs.cluster import asking as asking_module
from termarena.runs.cluster.asking import Asking
from termarena.runs.cluster.connecting import Cluster, Node

if TYPE_CHECKING:
    from termarena.forge.casts import Loaded

pytestmark = pytest.mark.timeout(60)


class RayError(Exception):
    pass


class Headless(Cluster):
    """A cluster without a head: what is asked of it is answered by `get`."""

    def __init__(self, get: Any) -> None:  # noqa: ANN401 - as Ray's
        super().__init__(SimpleNamespace(get=get, exceptions=SimpleNamespace(RayError=RayError)), "10.0.0.1:6379")
        self.is_abandoned = False

    def has_head(self) -> bool:
        return False

    def nodes(self) -> tuple[Node, ...]:
        return (Node("a", "a", 1.0, 1000),)

    def as_map(self, work: object) -> Any:  # noqa: ANN401 - as Ray's
        del work
        return SimpleNamespace(remote=lambda *_: "a reference")

    def abandon(self) -> None:
        self.is_abandoned = True

    def close(self) -> None:
        raise AssertionError("taking leave of a lost head would wait for it")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_module, "HEAD_SILENT_S", 0.02)
    monkeypatch.setattr(asking_module, "HEAD_LOOK_S", 0.001)


def never(_: object) -> None:
    threading.Event().wait()


def fail(_: object) -> None:
    raise RayError("the owner has died")


def judged(loaded: Loaded) -> str:
    return loaded.path


@pytest.mark.parametrize("get", [never, fail])
def test_a_map_over_recordings_ends_with_the_head(get: Any, tmp_path: Any) -> None:  # noqa: ANN401 - as Ray's
    cluster = Headless(get)
    asking = Asking(cluster)
    (tmp_path / "a.cast").touch()
    with pytest.raises(HeadLost, match=r"10\.0\.0\.1:6379 is lost") as lost:
        list(map_files(judged, [tmp_path / "a.cast"], Where(cluster=asking)))
    assert lost.value.hint is not None
    assert "--address HOST:PORT" in lost.value.hint
    with pytest.raises(HeadLost):
        asking.ask(len, ())
    asking.close()
    assert cluster.is_abandoned


def test_an_answer_is_waited_for_while_the_head_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bool] = []
    cluster = Headless(None)
    gone = threading.Event()

    def has_head() -> bool:
        looked.append(True)
        if len(looked) == 50:
            gone.set()
        return True

    monkeypatch.setattr(cluster, "has_head", has_head)
    assert Asking(cluster).ask(gone.wait, 50)
    assert len(looked) >= 50


def test_an_end_of_the_process_is_an_answer_too() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(ClusterError, match="ended with SystemExit: 3"):
        Asking(Headless(None)).ask(leave)
