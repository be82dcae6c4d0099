"""A sandbox driver for all gradings of a session, and a shop of tasks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from grading.bench import Bench
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.sandbox import Driver


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    made = NamespaceDriver(home=tmp_path_factory.mktemp("home"))
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
def bench(driver: Driver, tmp_path: Path) -> Bench:
    return Bench(driver, tmp_path)
