"""Agents behind real servers on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.trials import Bench

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for the whole session, so that the root file system is prepared once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def bench(tmp_path: Path, home: Path) -> Bench:
    """Makes the tasks of one test and tries them."""
    return Bench(tmp_path, home)
