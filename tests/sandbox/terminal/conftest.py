"""Terminals for the tests: each shell in a sandbox of its own, and one over a driver that only has a socket to give."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox.support import DRIVERS, NEEDS
from termarena.sandbox import Driver, Sandbox, SandboxSpec
from termarena.sandbox.terminal import Terminal, TerminalOptions, open_terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

SHELLS = {
    "bash": pytest.param("/bin/bash", id="bash"),
    "zsh": pytest.param("/bin/zsh", id="zsh", marks=pytest.mark.needs("zsh")),
    "dash": pytest.param("/bin/dash", id="dash", marks=pytest.mark.needs("dash")),
}


PARAMETERS = [
    pytest.param(name, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else [])
    for name in DRIVERS
    if name in ("namespace", "docker")
]


@pytest.fixture(scope="session", params=PARAMETERS)
def driver(request: pytest.FixtureRequest, sandbox_home: Path) -> Iterator[Driver]:
    made = DRIVERS[request.param](sandbox_home)
    yield made
    asyncio.run(made.aclose())


@pytest.fixture(autouse=True)
def _once_where_the_driver_has_no_part(request: pytest.FixtureRequest) -> None:
    """What is shown and recorded is the same whatever drives the sandbox; containers are slow."""
    is_docker = "driver" in request.fixturenames and request.node.callspec.params["driver"] == "docker"
    if is_docker and not request.module.__name__.endswith("test_commands"):
        pytest.skip("shown with the namespace driver")


@pytest.fixture
async def box(driver: Driver) -> AsyncIterator[Sandbox]:
    async with driver.start(SandboxSpec()) as started:
        yield started


@pytest.fixture(params=SHELLS.values())
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def terminal(box: Sandbox, shell: str) -> AsyncIterator[Terminal]:
    """Each shell in turn."""
    if (await box.exec(["test", "-x", shell])).exit_status != 0:
        pytest.skip(f"the sandbox has no {shell}")
    async with open_terminal(box, TerminalOptions(shell_argv=(shell,))) as opened:
        yield opened


@pytest.fixture
async def bash(box: Sandbox) -> AsyncIterator[Terminal]:
    async with open_terminal(box, TerminalOptions(shell_argv=("/bin/bash",))) as opened:
        yield opened
