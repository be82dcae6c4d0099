"""The bench that drafts are worked on: start states, runs of a solution with what they leave, and gradings.

Everything of a recording runs in a sandbox without a network, and nothing of it anywhere else.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from termarena.core.errors import SandboxBroken
from termarena.forge.inside.system import DECOY, FIRST_PERSON
from termarena.grading import Grader, GradingJob
from termarena.sandbox.staging import Stage
from termarena.tasks.load import load_task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.grading import Verdict
    from termarena.sandbox import Driver, Sandbox
    from termarena.sandbox.contract import FileChanges
    from termarena.sandbox.staging import StartState
    from termarena.tasks.model import Task

__all__ = [
    "PLAIN",
    "SERVES",
    "Bench",
    "Graded",
    "Left",
    "Perturbation",
    "Question",
    "faketime_library",
    "probes_source",
]

SOLUTION: Final = "/solution/solve.sh"
SOLVE_TIMEOUT_S: Final = 120.0
OBSERVE_TIMEOUT_S: Final = 60.0
OBSERVED_BYTES: Final = 8 << 20
# Errors alone: a person's own commands are seldom quoted as shellcheck likes them.
_CHECK: Final = """
text=$(mktemp) && cat >"$text" && bash -n "$text" || exit 1
! command -v shellcheck >/dev/null || shellcheck --severity=error --shell=bash "$text"
"""
_PARTS: Final = ("system.py", "probes.py")
_OURS: Final = re.compile(r"^from (?:__future__|termarena\.forge\.inside\.\w+) import .*\n", re.MULTILINE)
_DECOY: Final = f"""
! cut -d: -f3 /etc/passwd /etc/group | grep -qx {FIRST_PERSON} || exit 0
echo '{DECOY}:x:{FIRST_PERSON}:{FIRST_PERSON}::/nonexistent:/usr/sbin/nologin' >>/etc/passwd
echo '{DECOY}:x:{FIRST_PERSON}:' >>/etc/group
"""
SERVES: Final = "serves"
"""The probe that asks a living process."""
Question = tuple[Any, ...]
"""What a probe is asked: its name and its arguments."""


def probes_source() -> str:
    """The text of the probes, which goes into tasks and sandboxes: one file, which imports nothing of ours."""
    system, probes = (files("termarena.forge.inside").joinpath(name).read_text("utf-8") for name in _PARTS)
    return system + _OURS.sub("", probes)


@dataclass(frozen=True, slots=True)
class Perturbation:
    """What may differ between two machines without making a correct result wrong."""

    hostname: str = "sandbox"
    env: Mapping[str, str] = field(default_factory=dict)
    has_decoy: bool = False
    """Whether a user is there who takes the first free numbers."""
    clock: str | None = None
    """An offset of the clock, as faketime takes it; only programs that are linked dynamically see it."""

    @property
    def gentle(self) -> Perturbation:
        """The same without what a correct solution may stumble over."""
        return replace(self, has_decoy=False, clock=None)


PLAIN: Final = Perturbation()


@dataclass(frozen=True, slots=True)
class Left:
    """How a solution ended, and what it left."""

    exit_status: int
    said: str
    """The end of what it printed."""
    timed_out: bool
    duration_s: float
    changes: FileChanges
    facts: Mapping[str, Any]
    """By question, as JSON; what no probe could answer is not there."""
    memory_peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Graded:
    """A verdict, and the changes that were judged."""

    verdict: Verdict
    changes: FileChanges


class Bench:
    """Start states and sandboxes of one driver; leaving its `async with` ends what it started."""

    def __init__(self, driver: Driver) -> None:
        """The driver stays its opener's."""
        self.driver = driver
        self._stage = Stage(driver)
        self._grader = Grader()
        self._probes = probes_source()

    async def __aenter__(self) -> Self:
        """Nothing is started yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give back every start state."""
        await self._stage.aclose()

    async def start_state(self, folder: Path) -> tuple[Task, StartState]:
        """The task in a folder, and its start state. Raises what loading and `Stage.prepare` raise."""
        task = await asyncio.to_thread(load_task, folder)
        return task, await self._stage.prepare(task.environment, folder=folder, task=task.id)

    async def observe(self, box: Sandbox, questions: Sequence[Question]) -> dict[str, Any]:
        """Ask the probes inside the box. Raises `SandboxBroken` if they do not answer."""
        done = await box.exec(
            ["python3", "-I", "-B", "-c", self._probes],
            stdin=json.dumps(questions).encode(),
            timeout_s=OBSERVE_TIMEOUT_S,
            cwd="/",
            env={"LD_PRELOAD": ""},  # under faketime 0.9.10, Python 3.11's sleep fails with EINVAL
            max_output_bytes=OBSERVED_BYTES,
        )
        try:
            rows = json.loads(done.stdout)
        except ValueError as error:
            said = done.stderr.decode("utf-8", "replace").strip()[-300:]
            raise SandboxBroken(box.id, f"the probes ended with status {done.exit_status}: {said}") from error
        return {json.dumps([probe, *arguments]): value for probe, arguments, value in rows}

    async def solve(
        self, state: StartState, script: str | None, questions: Sequence[Question] | None, how: Perturbation = PLAIN
    ) -> Left:
        """Run a solution (None: nothing at all) on the start state, and look at what it leaves.

        `questions` None asks what the changes suggest (`facts.questions_of`).
        """
        from termarena.forge.facts import questions_of  # noqa: PLC0415 - it names this module's types

        env = {**state.spec.env, **how.env, **_clock(how.clock)}
        spec = state.spec.model_copy(update={"hostname": how.hostname, "env": env})
        async with state.start(spec=spec) as box:
            if how.has_decoy:
                await box.exec(["sh", "-c", _DECOY], timeout_s=OBSERVE_TIMEOUT_S)
            status, said, timed_out, took = await self._run(box, script)
            served = await self._served(box, questions)
            await box.kill_processes()
            changes = await box.diff()
            asked = questions_of(changes) if questions is None else [one for one in questions if one[0] != SERVES]
            facts = served | (await self.observe(box, asked) if asked else {})
            usage = await box.usage()
        return Left(status, said, timed_out, took, changes, facts, usage.memory_peak_bytes)

    async def _served(self, box: Sandbox, questions: Sequence[Question] | None) -> dict[str, Any]:
        """What the processes that are still there answer; nothing where there are none."""
        asked = [("services",)] if questions is None else [one for one in questions if one[0] == SERVES]
        return await self.observe(box, asked) if asked and await box.processes() else {}

    async def complaint(self, state: StartState, script: str) -> str | None:
        """What bash, or shellcheck where this machine has it, finds wrong with a script; None for nothing.

        Asked in a sandbox: the text comes from a recording.
        """
        async with state.start() as box:
            done = await box.exec(["sh", "-c", _CHECK], stdin=script.encode(), cwd="/", timeout_s=OBSERVE_TIMEOUT_S)
        said = (done.stderr + done.stdout).decode("utf-8", "replace")
        return None if done.exit_status == 0 else " ".join(said.split())[:300] or f"status {done.exit_status}"

    async def _run(self, box: Sandbox, script: str | None) -> tuple[int, str, bool, float]:
        if script is None:
            return 0, "", False, 0.0
        await box.write(SOLUTION, script.encode(), mode=0o755)
        began = time.monotonic()
        done = await box.exec(
            ["bash", SOLUTION], timeout_s=SOLVE_TIMEOUT_S, max_output_bytes=1 << 16, tail_bytes=1 << 12
        )
        said = (done.stdout + done.stderr).decode("utf-8", "replace").strip()[-600:]
        return done.exit_status, said, done.timed_out, time.monotonic() - began

    async def grade(self, on: tuple[Task, StartState], script: str | None, logs: Path, *, is_live: bool) -> Graded:
        """Run a script (None: nothing) and grade what it left as a trial does: a sealed fork, or with its services."""
        task, state = on
        job = GradingJob.of(task, output=logs / "test_output.txt", logs=logs / "logs")
        async with state.start() as box:
            await self._run(box, script)
            if is_live:
                changes = await box.diff()
                return Graded(await self._grader.grade(box, job, graded_in="live"), changes)
            await box.seal()
            changes = await box.diff()
            snapshot = await box.snapshot()
            try:
                async with self.driver.start(snapshot) as fork:
                    return Graded(await self._grader.grade(fork, job, graded_in="sealed"), changes)
            finally:
                snapshot.close()


def _clock(offset: str | None) -> dict[str, str]:
    """What makes faketime of a clock; files keep their real times, and time itself goes on as always."""
    library = faketime_library() if offset else None
    if library is None or offset is None:
        return {}
    return {"LD_PRELOAD": library, "FAKETIME": offset, "NO_FAKE_STAT": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@cache
def faketime_library() -> str | None:
    """The library of faketime on this machine, whose `/usr` sandboxes share; None where it is not installed."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    return str(found[0]) if found else None
