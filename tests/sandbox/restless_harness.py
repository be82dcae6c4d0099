"""A harness that starts, uses and stops sandboxes without end, to be killed at any moment; run by the kill test."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from termarena.core.errors import SandboxError
from termarena.sandbox import SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver

DAEMONS = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & (setsid sleep 601 &); sleep 0.02"


async def _restless(driver: NamespaceDriver) -> None:
    while True:
        with contextlib.suppress(SandboxError):
            async with driver.start(SandboxSpec()) as box:
                await box.exec(["sh", "-c", DAEMONS])
                await box.write("/root/file", bytes(100_000))
                await box.freeze()
                await box.usage()
                await box.thaw()
                await box.freeze()
                await box.seal()
                snapshot = await box.snapshot()
                async with driver.start(snapshot) as fork:
                    await fork.exec(["true"])
                snapshot.close()


async def _main() -> None:
    async with NamespaceDriver(home=Path(sys.argv[1])) as driver:
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        await asyncio.gather(*(_restless(driver) for _ in range(3)))


asyncio.run(_main())
