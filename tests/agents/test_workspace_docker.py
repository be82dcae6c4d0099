"""The same reach into a container: what is ended, what goes on, what is recorded."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from sandbox.support import CONFORMANCE_ROOT
from termarena.agents.workspace import TrialWorkspace
from termarena.core.errors import WorkspaceClosed
from termarena.sandbox import SandboxSpec
from termarena.sandbox.docker import DockerDriver
from termarena.sandbox.terminal import read_cast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from termarena.agents.recording import Recording
    from termarena.core.run_folder import AttemptFolder
    from termarena.sandbox import Sandbox

pytestmark = pytest.mark.needs("docker")


@pytest.fixture(params=[True, False], ids=["docker", "docker-from-afar"])
async def container(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    driver = DockerDriver(home=tmp_path / "home", default_root=CONFORMANCE_ROOT, allow_local=request.param)
    try:
        async with driver.start(SandboxSpec(workdir="/app")) as box:
            yield box
    finally:
        await driver.aclose()


async def test_the_end_of_its_reach_in_a_container(
    container: Sandbox, recording: Recording, folder: AttemptFolder
) -> None:
    async with TrialWorkspace(container, recording, deadline=time.monotonic() + 60) as workspace:
        async with workspace.terminal() as used:
            await used.run("sleep 333 & echo in-$((40 + 2))")
        async with workspace.terminal() as idle:
            await idle.run("true")
        asked = asyncio.ensure_future(workspace.exec("echo before >log; touch started; sleep 444; echo after >>log"))
        wait = "until [ -e /app/started ]; do sleep 0.02; done"
        assert (await container.exec(["sh", "-c", wait], timeout_s=20)).exit_status == 0
        await workspace.close("the time is up")
        with pytest.raises(WorkspaceClosed):
            await asked
        words = [process.argv for process in await container.processes()]
        assert ("sleep", "333") in words
        assert ("sleep", "444") not in words
        assert sum(argv == ("bash",) for argv in words) == 1
    assert await container.read("/app/log") == b"before\n"
    recording.finish()
    assert "in-42" in read_cast(folder.cast(1)).text()
    assert read_cast(folder.cast(2)).is_cut is False
