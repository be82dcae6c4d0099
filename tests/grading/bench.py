"""A bench for gradings: a task out of a test script, a box in which an agent's script has run, the verdict."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from support.folders import SIMPLE, TERMINAL_BENCH_1, write_folder
from termarena.grading import Grader, GradingJob
from termarena.sandbox import Feature, SandboxSpec
from termarena.sandbox.bare import bare_spec, prepare_bare
from termarena.tasks import load_task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from termarena.grading import GradedIn, Verdict
    from termarena.sandbox import Driver, FileChanges, Sandbox
    from termarena.tasks import Task

HARBOR_TOML = """\
schema_version = "1.4"
[metadata]
difficulty = "easy"
[metadata.termarena]
requires = []
{ours}
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = {timeout}
{verifier}
[environment]
workdir = "/app"
network_mode = "no-network"
"""
REWARDED = "#!/bin/sh\nif grep -qx 1 /app/one.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
SOLVED = "echo 1 >/app/one.txt"


def _path(name: str) -> str:
    """`tests__test_outputs_py` → `tests/test_outputs.py`"""
    stem, _, ending = name.replace("__", "/").rpartition("_")
    return f"{stem}.{ending}" if ending else stem


class Bench:
    """Makes tasks below its folder and grades states of them."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self.driver = driver
        self.folder = folder
        self.grader = Grader()

    def need_users(self) -> None:
        """Skip where the sandbox has one user only."""
        problem = self.driver.capabilities().missing.get(Feature.USERS)
        if problem:
            pytest.skip(problem)

    def harbor(
        self,
        test: str = REWARDED,
        *,
        timeout: str = "20.0",
        verifier: str = "",
        ours: str = "",
        more: str = "",
        **files: str,
    ) -> Task:
        """A Harbor task; `tests__x_py=…` is the file `tests/x.py`."""
        named = {_path(name): text for name, text in files.items()}
        toml = HARBOR_TOML.format(timeout=timeout, verifier=verifier, ours=ours) + more
        return self._task(
            {
                "task.toml": toml,
                "instruction.md": "Write 1 to /app/one.txt.\n",
                "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n",
                "tests/test.sh": test,
                **named,
            }
        )

    def terminal_bench_1(self, run_tests: str, *, parser: str = "pytest", more: str = "", **files: str) -> Task:
        yaml = f"instruction: Write 1.\ndifficulty: easy\nparser_name: {parser}\nmax_test_timeout_sec: 20.0\n{more}"
        named = {_path(name): text for name, text in files.items()}
        return self._task({**TERMINAL_BENCH_1, "task.yaml": yaml, "run-tests.sh": run_tests, **named})

    def simple(self, test: str) -> Task:
        return self._task({**SIMPLE, "test.sh": test})

    def _task(self, files: Mapping[str, str]) -> Task:
        return load_task(write_folder(self.folder / f"task-{len(list(self.folder.iterdir()))}", files))

    def job(self, task: Task, **more: object) -> GradingJob:
        number = len(list(self.folder.glob("output-*")))
        return GradingJob.of(task, output=self.folder / f"output-{number}", logs=self.folder / f"logs-{number}", **more)  # type: ignore[arg-type]  # the rest of its arguments

    @property
    def output(self) -> str:
        """What the last tests wrote."""
        return max(self.folder.glob("output-*")).read_text(errors="replace")

    @asynccontextmanager
    async def worked(self, task: Task, agent: str | None = SOLVED) -> AsyncIterator[Sandbox]:
        """A box in which the agent's script has run; what it left running runs on."""
        environment = task.environment
        spec = bare_spec(environment) if environment.bare else SandboxSpec(workdir="/app")
        async with self.driver.start(spec) as box:
            if environment.bare:
                await prepare_bare(box, environment)
            if agent is not None:
                await box.exec(["bash", "-c", agent], timeout_s=30)
            yield box

    async def sealed(self, task: Task, agent: str | None = SOLVED) -> Verdict:
        """The verdict on a fork of what the agent left."""
        async with self.worked(task, agent) as box:
            changes = await box.diff()
            await box.seal()
            snapshot = await box.snapshot()
            try:
                async with self.driver.start(snapshot) as fork:
                    return await self.grade(fork, task, "sealed", changes)
            finally:
                snapshot.close()

    async def live(self, task: Task, agent: str | None = SOLVED) -> Verdict:
        """The verdict in the agent's own box."""
        async with self.worked(task, agent) as box:
            return await self.grade(box, task, "live", await box.diff())

    async def grade(self, box: Sandbox, task: Task, graded_in: GradedIn, changes: FileChanges | None = None) -> Verdict:
        return await self.grader.grade(box, self.job(task), graded_in=graded_in, changes=changes)
