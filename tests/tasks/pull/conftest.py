"""Fixtures for pulls: a cache of their own, no proxy, no waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tasks.pull.servers import Hub, Site

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made between tries, none of which is waited for."""
    made: list[float] = []

    def note(seconds: float, stopped: threading.Event) -> None:
        assert not stopped.is_set()
        made.append(seconds)

    monkeypatch.setattr("termarena.tasks.pull.web.pause", note)
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def site() -> Iterator[Site]:
    running = Site()
    with running.running():
        yield running


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    running = Hub()
    monkeypatch.setenv("HF_ENDPOINT", running.url)
    with running.running():
        yield running
