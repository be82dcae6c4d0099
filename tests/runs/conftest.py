"""What the tests of runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for the whole session, so that the root file system is prepared once."""
    return tmp_path_factory.mktemp("home")
