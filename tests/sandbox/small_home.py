"""Starts a sandbox whose home is a small file system, or one that carries no overlay; run in a mount namespace."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from termarena.core.errors import SandboxBroken
from termarena.sandbox import Limits, SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.ondisk import free_bytes
from termarena.sandbox.namespace.probe import probe

MIB = 1 << 20
LIMITS = Limits(memory_bytes=420 * MIB, disk_bytes=4096 * MIB)
FILLS = {
    "fill": "while :; do head -c 1000000 /dev/zero >>/root/big || :; done",
    "litter": "mkdir /root/d; while :; do n=$((n+1)); true >/root/d/$n; done 2>/dev/null",
}
"""They never end by themselves."""


def _mount(place: Path, kind: str) -> Path:
    """A file system of this size, or one without attributes."""
    home = place / "home"
    home.mkdir()
    options = ["-t", "ramfs"] if kind == "ramfs" else ["-t", "tmpfs", "-o", f"size={kind},mode=755"]
    subprocess.run(["mount", *options, "none", home], check=True)  # noqa: S603, S607 - our own test
    return home


def _unmount(home: Path) -> None:
    subprocess.run(["umount", "-l", home], check=True)  # noqa: S603, S607 - our own test


async def _start(home: Path) -> dict[str, object]:
    async with NamespaceDriver(home=home) as driver, driver.start(SandboxSpec(limits=LIMITS)) as box:
        fact = probe(home).get("changes_on_disk")
        return {"is_on_disk": box.is_on_disk, "notes": driver.capabilities().notes, "fact": fact.is_there}


async def _fill(home: Path, script: str) -> dict[str, object]:
    async with NamespaceDriver(home=home) as driver, driver.start(SandboxSpec(limits=LIMITS)) as box:
        problem = ""
        try:
            await box.exec(["sh", "-c", script], timeout_s=120)
        except SandboxBroken as error:
            problem = str(error)
        used = await box.usage()
    left = [path.name for path in (home / "layers").iterdir()]
    return {"problem": problem, "disk_full": used.disk_full or None, "left": left}


async def _main(kind: str, what: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        # Where owners cannot be shifted, the sandbox's root comes to its root file system by its path.
        Path(place).chmod(0o755)  # noqa: ASYNC240 - nothing else runs
        home = await asyncio.to_thread(_mount, Path(place), kind)
        try:
            found = await (_start(home) if what == "start" else _fill(home, FILLS[what]))
            found["room"] = free_bytes(home)
        finally:
            await asyncio.to_thread(_unmount, home)
    sys.stdout.write(json.dumps(found))


asyncio.run(_main(sys.argv[1], sys.argv[2]))
