"""Killing the harness with SIGKILL leaves no process and no mount; the rest is swept at the next start."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from termarena.sandbox import SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.cgroups import find_cgroups

SERVICE_ROUNDS = (2, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(2000)]))
ROUNDS = (20, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(2000)]))


def _cgroups(sandboxes: set[str]) -> list[Path]:
    """The groups of these sandboxes: those of other tests come and go beside them."""
    found = find_cgroups()
    parents = {*found.parents.values(), *((found.unified,) if found.unified else ())}
    return [path for parent in parents for one in sandboxes if (path := parent / f"termarena-{one}").exists()]


@pytest.mark.slow
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_killed_harness_leaves_nothing(tmp_path: Path, rounds: int) -> None:
    # A home of its own: in that of the other tests their drivers have sandboxes waiting.
    assert await _kill(tmp_path, rounds, "restless_harness.py")


@pytest.mark.slow
@pytest.mark.needs("busybox")
@pytest.mark.parametrize("rounds", SERVICE_ROUNDS)
async def test_killed_harness_leaves_no_services(tmp_path: Path, rounds: int) -> None:
    await _kill(tmp_path, rounds, "restless_services.py")


async def _kill(sandbox_home: Path, rounds: int, harness: str) -> set[str]:
    """The sandboxes that the killed harnesses are known to have had."""
    command = [sys.executable, str(Path(__file__).with_name("kill_rounds.py")), str(sandbox_home), str(rounds), harness]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: ASYNC221, S603 - nothing else runs; our own program with fixed arguments
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["rounds"], report["mounts_unchanged"]) == (rounds, True)
    noted = sandbox_home / "started.txt"
    sandboxes = {*report["sandboxes"], *(noted.read_text().split() if noted.exists() else ())}
    async with NamespaceDriver(home=sandbox_home) as driver:
        assert not [record for record in driver.list() if record.is_alive]
        async with driver.start(SandboxSpec()) as box:
            assert [record.id for record in driver.list() if record.is_alive] == [box.id]
            layers = (sandbox_home / "layers").glob("ta-*")
            assert not list(layers)
        # A process that is long in ending, on a busy machine, leaves its group to a later sweep.
        deadline = time.monotonic() + 60
        while (driver.list() or _cgroups(sandboxes)) and time.monotonic() < deadline:
            driver.sweep()
        assert (driver.list(), _cgroups(sandboxes)) == ((), [])
    return sandboxes


async def test_sandboxes_end_with_their_driver(sandbox_home: Path) -> None:
    driver = NamespaceDriver(home=sandbox_home)
    async with driver.start(SandboxSpec()) as box:
        await driver.aclose()
        with pytest.raises(Exception, match="gone"):
            await box.exec(["sleep", "60"])
    assert driver.list() == ()
