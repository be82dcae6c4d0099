"""A harness that starts, uses and stops sandboxes without end, to be killed at any moment; run by the kill test."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from pathlib import Path
from typing import TextIO

from termarena.core.errors import SandboxError
from termarena.sandbox import Limits, SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver

DAEMONS = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & (setsid sleep 601 &); sleep 0.02"


IN_MEMORY = SandboxSpec()
ON_DISK = SandboxSpec(limits=Limits(memory_bytes=64 << 20, disk_bytes=256 << 20))


@functools.cache
def _say_once() -> None:
    sys.stdout.write("begun\n")
    sys.stdout.flush()


async def _restless(driver: NamespaceDriver, spec: SandboxSpec, started: TextIO) -> None:
    while True:
        with contextlib.suppress(SandboxError):
            async with driver.start(spec) as box:
                started.write(f"{box.id}\n")
                _say_once()
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


async def _main(home: Path) -> None:
    async with NamespaceDriver(home=home) as driver:
        with (home / "started.txt").open("a", buffering=1) as started:
            await asyncio.gather(*(_restless(driver, spec, started) for spec in (IN_MEMORY, IN_MEMORY, ON_DISK)))


asyncio.run(_main(Path(sys.argv[1])))
