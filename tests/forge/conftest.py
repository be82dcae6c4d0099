"""What several tests of the forge need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.forge.bench import Bench
from termarena.sandbox.drivers import open_driver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench with embedded sandboxes of its own."""
    driver = open_driver("namespace", home=tmp_path / "home")
    try:
        async with Bench(driver) as made:
            yield made
    finally:
        await driver.aclose()
