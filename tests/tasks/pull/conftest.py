"""Fixtures for pulls: a cache of their own, no proxy, no waiting."""

from __future__ import annotations

import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tasks.pull.repositories import TWO_TASKS, git, make_repository
from tasks.pull.servers import GitSite, Hub, Site

if TYPE_CHECKING:
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


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    make_repository(folder, TWO_TASKS)
    return folder


@pytest.fixture
def git_site(tmp_path: Path, origin: Path) -> Iterator[GitSite]:
    git(tmp_path, "clone", "--quiet", "--bare", str(origin), "served/tasks.git")
    git(tmp_path / "served/tasks.git", "config", "uploadpack.allowFilter", "true")
    site = GitSite(tmp_path / "served")
    with site.running():
        yield site


@pytest.fixture
def daemon(tmp_path: Path, origin: Path) -> Iterator[str]:
    """A `git daemon` with the repository; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["git", "daemon", "--verbose", "--listen=127.0.0.1", f"--port={port}", "--export-all", "--reuseaddr"]
    command.append(f"--base-path={origin.parent}")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:  # noqa: S603
        assert server.stderr is not None
        said = server.stderr.readline()
        assert "Ready to rumble" in said, said
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield f"git://127.0.0.1:{port}/origin"
        server.terminate()
