"""Drivers for the conformance suite: every test that takes `driver` or `box` runs against each of them."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from sandbox.support import (
    ABOUT_FILES,
    DRIVERS,
    EXCEPTIONS,
    LARGE,
    MORE_ABOUT_FILES,
    NEEDS,
    ONLY_ABOUT_FILES,
    make_rootfs,
)
from termarena.sandbox import Driver, Feature, Sandbox, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def sandbox_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for the whole session, so that root file systems are prepared once."""
    return tmp_path_factory.mktemp("home")


PARAMETERS = [pytest.param(name, marks=[pytest.mark.needs(NEEDS[name])] if name in NEEDS else []) for name in DRIVERS]


@pytest.fixture(scope="session", params=PARAMETERS)
def driver(request: pytest.FixtureRequest, sandbox_home: Path) -> Iterator[Driver]:
    made = DRIVERS[request.param](sandbox_home)
    yield made
    asyncio.run(made.aclose())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has nothing to do with files for drivers that differ in nothing else."""
    left_out = [item for item in items if isinstance(item, pytest.Function) and not _is_for_its_driver(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_for_its_driver(item: pytest.Function) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is None or callspec.params.get("driver") not in ONLY_ABOUT_FILES:
        return True
    is_about_files = item.path.stem in ABOUT_FILES or item.originalname in MORE_ABOUT_FILES
    return is_about_files and item.originalname not in LARGE


@pytest.fixture(autouse=True)
def _exception(request: pytest.FixtureRequest) -> None:
    """Skip what a driver does not promise: the table says what and why."""
    if "driver" not in request.fixturenames:
        return
    name = request.node.callspec.params["driver"]
    plain = request.node.name.replace(f"[{name}-", "[").replace(f"[{name}]", "").replace(f"-{name}]", "]")
    known = EXCEPTIONS.get(name, {})
    reason = known.get(plain) or known.get(plain.partition("[")[0])
    if isinstance(reason, Feature):
        reason = request.getfixturevalue("driver").capabilities().missing.get(reason)
    if reason is not None:
        pytest.skip(f"{name}: {reason}")


@pytest.fixture
async def box(driver: Driver) -> AsyncIterator[Sandbox]:
    async with driver.start(SandboxSpec()) as started:
        yield started


@pytest.fixture(scope="session")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system with a shell and hardly anything else."""
    target = tmp_path_factory.mktemp("rootfs")
    make_rootfs(target)
    return target


@pytest.fixture
def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs the harness to be root")
