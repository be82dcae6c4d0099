"""One trial of the task "write 1 to /app/one.txt" by an agent with a model, on the embedded sandbox."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.tasks import Made, make_task
from termarena.agents import AgentOptions
from termarena.agents.mind import LoopOptions
from termarena.core.run_folder import AttemptFolder
from termarena.models import Brought, ModelLimits, RunModels, Sampling
from termarena.models.http import Patience
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.agents.custom_tools import CustomTool
    from termarena.runs.result import TrialResult

QUICK = Patience(attempts=3, first_wait_s=0.001, stall_s=30, answer_s=60, connect_s=30)
"""Tries again soon; where nothing stalls, a busy machine is not taken for something that does."""
IMPATIENT = replace(QUICK, stall_s=0.2)


class ModelBench:
    """Tries the task "write 1 to /app/one.txt" with models of all kinds."""

    def __init__(self, folder: Path, home: Path, *, agent: str = "tools") -> None:
        self.folder = folder
        self.home = home
        self.agent = agent
        self.patience = QUICK
        self.attempt = AttemptFolder(folder / "attempt")

    async def run(  # noqa: PLR0913 - what a test may want to be different
        self,
        model: str,
        *,
        agent: str | None = None,
        max_steps: int = 20,
        limits: ModelLimits | None = None,
        made: Made | None = None,
        environ: dict[str, str] | None = None,
        tools: tuple[CustomTool, ...] = (),
        brought: Brought | None = None,
    ) -> TrialResult:
        task = make_task(self.folder / "task", made)
        models = RunModels(limits, patience=self.patience, environ=environ or {}, brought=brought)
        given = AgentOptions(
            model=model, models=models, loop=LoopOptions(max_steps, Sampling(temperature=0), tools=tools)
        )
        options = RunOptions(agent=agent or self.agent, model=model, driver="namespace")
        async with Trials(options, home=self.home, run_id="test", agent_options=given) as trials:
            try:
                return await trials.run(plan_of(task, 1), task, folder=self.attempt)
            finally:
                await models.aclose()

    def scripted(self, *replies: dict[str, Any], **more: object) -> str:
        path = self.folder / "script.json"
        path.write_text(json.dumps({"replies": replies, **more}))
        return f"scripted:{path}"

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.attempt.messages.read_text().splitlines()]
