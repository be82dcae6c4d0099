"""Workspaces over real sandboxes of the embedded driver."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from termarena.agents.recording import Recording
from termarena.agents.workspace import TrialWorkspace
from termarena.core.run_folder import AttemptFolder
from termarena.core.scrub import Scrubber
from termarena.sandbox import SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from termarena.sandbox import Sandbox

PLENTY_S = 100.0
SECRETS = {"EXAMPLE_API_KEY": "correct-horse-battery"}


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NamespaceDriver]:
    made = NamespaceDriver(home=tmp_path_factory.mktemp("home"))
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
async def box(driver: NamespaceDriver) -> AsyncIterator[Sandbox]:
    async with driver.start(SandboxSpec(workdir="/app")) as started:
        yield started


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    (tmp_path / "attempt-1").mkdir()
    return AttemptFolder(tmp_path / "attempt-1")


@pytest.fixture
def recording(folder: AttemptFolder) -> Recording:
    return Recording(folder, Scrubber(SECRETS))


@pytest.fixture
async def workspace(box: Sandbox, recording: Recording) -> AsyncIterator[TrialWorkspace]:
    async with TrialWorkspace(box, recording, deadline=time.monotonic() + PLENTY_S) as opened:
        yield opened
