"""A harness that starts, uses and leaves containers without end, to be killed at any moment; run by the kill test."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sandbox.support import CONFORMANCE_ROOT
from termarena.core.errors import SandboxError
from termarena.sandbox import SandboxSpec
from termarena.sandbox.docker import DockerDriver


async def _restless(driver: DockerDriver) -> None:
    while True:
        with contextlib.suppress(SandboxError):
            async with driver.start(SandboxSpec()) as box:
                await box.exec(["sh", "-c", "setsid sh -c 'trap \"\" TERM; sleep 600' & sleep 0.02"])
                await box.write("/root/file", b"x")
                await box.freeze()
                snapshot = await box.snapshot()
                await box.diff()
                async with driver.start(snapshot) as fork:
                    await fork.exec(["true"])
                snapshot.close()


async def _main() -> None:
    async with (
        DockerDriver(home=Path(sys.argv[1]), default_root=CONFORMANCE_ROOT) as driver,
        driver.start(SandboxSpec()),
    ):
        sys.stdout.write(f"{driver.reaper_pid}\n")
        sys.stdout.flush()
        await asyncio.gather(*(_restless(driver) for _ in range(2)))


asyncio.run(_main())
