"""A harness that starts and stops several services without end, to be killed at any moment; run by the kill test."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

from sandbox.composing import BASE, base_archive, composed
from termarena.core.errors import SandboxError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver

FILE = """
services:
  main: {image: BASE, depends_on: {web: {condition: service_healthy}}, volumes: [v:/v]}
  web:
    image: BASE
    command: sh -c "trap '' TERM; setsid sleep 600 & sleep 601"
    volumes: [v:/v]
    healthcheck: {test: echo x > /v/x, interval: 100ms}
volumes: {v: }
"""


async def _restless(driver: NamespaceDriver, root: Root) -> None:
    while True:
        with contextlib.suppress(SandboxError):
            async with driver.start(SandboxSpec(root=root)) as box:
                await box.exec(["cat", "/v/x"])
                await box.freeze()
                await box.thaw()


async def _main(home: Path) -> None:
    async with NamespaceDriver(home=home) as driver:
        shelf = ImageShelf(driver, home)
        if not (home / "root.tar").exists():
            base_archive(home)
        await shelf.import_archive(home / "root.tar", name=BASE)
        root = composed(home / "task", FILE)
        sys.stdout.write("begun\n")
        sys.stdout.flush()
        await asyncio.gather(*(_restless(driver, root) for _ in range(2)))


asyncio.run(_main(Path(sys.argv[1])))
