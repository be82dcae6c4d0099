"""Terminals for the tests: each shell in a sandbox of its own, and one over a driver that only has a socket to give."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox.support import DRIVERS
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


@pytest.fixture(scope="session", params=[name for name in DRIVERS if "without" not in name])
def driver(request: pytest.FixtureRequest, sandbox_home: Path) -> Iterator[Driver]:
    made = DRIVERS[request.param](sandbox_home)
    yield made
    asyncio.run(made.aclose())


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
    async with open_terminal(box, TerminalOptions(shell_argv=(shell,))) as opened:
        yield opened


@pytest.fixture
async def bash(box: Sandbox) -> AsyncIterator[Terminal]:
    async with open_terminal(box, TerminalOptions(shell_argv=("/bin/bash",))) as opened:
        yield opened
