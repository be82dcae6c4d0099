"""One trial on the embedded sandbox, as a run would carry it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.tasks import Made, make_task
from termarena.core.run_folder import AttemptFolder
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.runs.result import TrialResult
    from termarena.tasks import Task


async def try_task(task: Task, agent: str, folder: Path, *, home: Path, **options: Any) -> TrialResult:  # noqa: ANN401 - RunOptions checks them
    """The result of one attempt; its files are in `folder`."""
    chosen = RunOptions(**{"agent": agent, "driver": "namespace", **options})
    async with Trials(chosen, home=home, run_id="test") as trials:
        return await trials.run(plan_of(task, 1), task, folder=AttemptFolder(folder))


class Bench:
    """Makes the tasks of one test and tries them."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.attempt = AttemptFolder(folder / "attempt")

    async def run(self, agent: str, made: Made | None = None, **options: object) -> TrialResult:
        task = make_task(self.folder / "task", made)
        return await try_task(task, agent, self.attempt.path, home=self.home, **options)

    def script(self, text: str) -> str:
        path = self.folder / "agent.sh"
        path.write_text(text)
        return f"script:{path}"
