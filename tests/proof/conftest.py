"""Small tasks, and the battery on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.tasks import Made, make_task
from termarena.proof.battery import BatteryOptions
from termarena.proof.proving import ProveOptions, prove

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.proof.report import Proof
    from termarena.tasks import Task


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


class Prover:
    """Makes tasks and proves them."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.options = ProveOptions(home=home, driver="namespace", is_cached=False)

    def task(self, made: Made | None = None, name: str = "task") -> Task:
        return make_task(self.folder / name, made)

    async def prove(self, task: Task, *, attempts: int = 2, mutants: int = 12, exploits: tuple[str, ...] = ()) -> Proof:
        battery = BatteryOptions(attempts=attempts, mutants=mutants, exploits=exploits)
        options = replace(self.options, battery=battery)
        proven = await prove([task], options, out=self.folder / "out", on_proof=lambda _: None)
        assert proven[0].proof is not None, proven[0].error
        return proven[0].proof


@pytest.fixture
def prover(tmp_path: Path, home: Path) -> Prover:
    return Prover(tmp_path, home)
