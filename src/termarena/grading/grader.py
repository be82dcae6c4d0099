"""One grading in one sandbox: clear the place, lay the tests, run them, read what they say."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from termarena.core.errors import CapabilityMissing, EngineError, SandboxBroken, SandboxError, TaskError
from termarena.grading.company import altered_tests, held, takers_of_a_decoy
from termarena.grading.contract import GradingFault, IntegrityFinding, TestResult, Verdict
from termarena.grading.faults import NoVerdict
from termarena.grading.integrity import blamed, examine, inspect
from termarena.grading.job import GradingJob
from termarena.grading.laying import VERIFIER_LOGS, NotClean, Room, Stock, lay
from termarena.grading.logs import fetch_logs, keeping_logs, reward_in, reward_told
from termarena.grading.named_tests import named_in
from termarena.grading.parsers import PARSERS, all_passed, is_open
from termarena.grading.reports import reported_tests
from termarena.grading.rewards import primary_reward
from termarena.grading.rules.places import REWRITTEN
from termarena.grading.running import TestRun, run_tests

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.grading.contract import GradedIn
    from termarena.sandbox.contract import FileChanges, Sandbox
    from termarena.sandbox.terminal import Terminal

__all__ = ["Grader", "GradingJob"]

ROOT: Final = "0"
"""By number: an image need not know the name."""

TIMEOUT_STATUS: Final = 124


@dataclass(slots=True)
class _Found:
    """What a grading came to, gathered step by step."""

    run: TestRun | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    tests: tuple[TestResult, ...] = ()
    findings: tuple[IntegrityFinding, ...] = ()
    fault: GradingFault | None = None


class Grader:
    """Grades states of sandboxes. One serves any number of gradings, also at once."""

    def __init__(self) -> None:
        """It remembers which tasks' files it has found to be those of their digests."""
        self._stock = Stock()

    async def grade(
        self,
        box: Sandbox,
        job: GradingJob,
        *,
        graded_in: GradedIn,
        changes: FileChanges | None = None,
        terminal: Terminal | None = None,
    ) -> Verdict:
        """Run the job's tests in the box and say what they found.

        `box` is a fork with no process of the agent alive, the agent's own (`live`), or a separate grader's. `changes`
        are what the agent changed, where that is known: they decide whether a grading that could not be done counts
        against the agent (a separate grader's box has none of them). `terminal` is the agent's, for tests that are to
        be typed into it. What the tests wrote goes to `job.output`, what they left in `/logs` to `job.logs`, in place
        of what an earlier grading put there; neither is there before its secrets are out of it. After a live grading
        that is not the last nothing of the tests is left in the box.

        Whatever the tests do, and whatever the agent did to the box, is a verdict. A fault of the host raises
        `OSError`, what the driver cannot do `CapabilityMissing`, a variable that was not given `UsageError`. A live box
        that is gone raises `SandboxBroken` or `EngineError`: there is no second one to ask.
        """
        found = _Found()
        started = time.monotonic()
        try:
            await self._grade(box, job, found, is_live=graded_in == "live", changes=changes, terminal=terminal)
        except NoVerdict as stopped:
            found.fault = stopped.fault
        except CapabilityMissing:
            raise
        except TaskError as error:
            found.fault = GradingFault(reason="tests_changed", message=error.message)
        except SandboxError as error:
            if graded_in == "live" and _is_gone(box, error):
                raise
            found.fault = GradingFault(reason="sandbox", message=error.message)
        if found.fault is not None and changes is not None and graded_in != "separate":
            found.fault = await _blamed(box, job, found.fault, changes)
        return _verdict(found, graded_in=graded_in, duration_s=time.monotonic() - started)

    async def _grade(
        self,
        box: Sandbox,
        job: GradingJob,
        found: _Found,
        *,
        is_live: bool,
        changes: FileChanges | None,
        terminal: Terminal | None,
    ) -> None:
        """Where there are `changes`, what the agent did to the box's tools is judged elsewhere."""
        if job.entry is None:
            raise NoVerdict("no_tests", "the task has no script that grades")
        has_company = is_live and bool(await box.processes())
        room = Room(
            box,
            tests_too=not job.is_bundled,
            owner=job.user or ROOT,
            is_shared=not is_live,
            is_distrusted=has_company or changes is None,
        )
        laid = None if has_company or changes is None else await room.lay_at_once(self._stock, job, changes)
        if laid is None:
            laid = await self._lay_anew(room, job, found, has_company=has_company)
        found.run = run = await run_tests(box, job, terminal=terminal)
        found.findings += run.findings
        await asyncio.to_thread(run.output.save, job.output, job.scrubber)
        async with keeping_logs(job) as logs:
            await _fetch(room, logs, found, laid=laid if is_live else None)
            if is_live and not job.is_last:
                await _clear(room, found, for_good=True)
            _judge(job, found, run, logs / "verifier")
        if found.rewards and not found.tests and not any(found.rewards.values()) and not run.timed_out:
            await _check_runner(box, job, found)

    async def _lay_anew(self, room: Room, job: GradingJob, found: _Found, *, has_company: bool) -> Mapping[str, str]:
        """Clear the place of what is there, with a look who else writes to it, and lay the tests."""
        found.findings += await _clear(room, found)
        if has_company:
            found.findings += await takers_of_a_decoy(room.box, with_tests=room.tests_too)
            await _clear(room, found)
        return await lay(room.box, self._stock, job)


async def _check_runner(box: Sandbox, job: GradingJob, found: _Found) -> None:
    """Raises `NoVerdict` where tests that told of no single test and gave nothing had nothing to be run by."""
    from termarena.grading.absent import absent_runners  # noqa: PLC0415 - few tests end so

    try:
        absent = await absent_runners(box, job)
    except SandboxError:
        return  # the tests have said what they say, and nothing shows that it counts for less
    if absent:
        found.rewards = {}
        raise NoVerdict("cannot_run", f"the tests are run by {' and '.join(absent)}, and none of these is there")


async def _clear(room: Room, found: _Found, *, for_good: bool = False) -> tuple[IntegrityFinding, ...]:
    """Clear the room; the rewards that were there. Raises `NoVerdict` where it does not stay clear."""
    try:
        return await room.clear(for_good=for_good)
    except NotClean as error:
        if not error.is_contested or not await room.box.processes():
            raise NoVerdict("cannot_run", str(error)) from error
        found.findings += (REWRITTEN.found(VERIFIER_LOGS, str(error)),)
        raise NoVerdict("toolchain_broken_by_agent", f"a process of the agent writes there: {error}") from error


async def _fetch(room: Room, logs: Path, found: _Found, *, laid: Mapping[str, str] | None) -> None:
    """Bring the logs to the host while nothing runs, and see whether what still runs would have written a reward.

    `laid` are the tests' digests in a live grading.
    """
    box = room.box
    if not await box.processes():
        await fetch_logs(box, logs)
    else:
        async with held(box):
            await fetch_logs(box, logs)
            found.findings += await altered_tests(box, laid or {})
        await _clear(room, found)
        found.findings += await takers_of_a_decoy(box, with_tests=False)


def _is_gone(box: Sandbox, error: SandboxError) -> bool:
    """Whether the box itself has ended; one that lives and cannot be held is what the agent made of it."""
    return isinstance(error, EngineError) or (isinstance(error, SandboxBroken) and not box.is_alive)


async def _blamed(box: Sandbox, job: GradingJob, fault: GradingFault, changes: FileChanges) -> GradingFault:
    try:
        return blamed(fault, await examine(box, changes, job.task))
    except SandboxError:
        return blamed(fault, inspect(changes, job.task))


def _judge(job: GradingJob, found: _Found, run: TestRun, logs: Path) -> None:
    """Fill in rewards and tests; raises `NoVerdict` where the tests do not say, or were not let come to their end."""
    if run.signal is not None and not run.timed_out and job.verdict != "exit_status":
        problem = f"signal {run.signal} ended the tests: what they left need not be theirs"
        raise NoVerdict("no_reward", problem)
    if job.verdict == "reward_file":
        found.tests = reported_tests(logs) or named_in(run.output.text())
        if not run.timed_out:
            found.rewards = reward_in(logs)
    elif job.verdict == "reward_pipe":
        found.tests = reported_tests(logs) or named_in(run.output.text())
        if not run.timed_out:
            found.rewards = reward_told(run.told)
    elif job.verdict == "exit_status":
        found.tests = reported_tests(logs) or named_in(run.output.text())
        found.rewards = {"reward": float(run.exit_status == 0)}
    else:
        found.tests = PARSERS[job.verdict](run.output.text())
        if not found.tests and not run.timed_out:
            raise NoVerdict("nothing_parsed", f"the output holds no results that the parser {job.verdict} knows")
        if is_open(found.tests) and not run.timed_out:
            raise NoVerdict("nothing_parsed", "the output was too long to be kept, and results were left out of it")
        found.rewards = {"reward": float(all_passed(found.tests))}


def _verdict(found: _Found, *, graded_in: GradedIn, duration_s: float) -> Verdict:
    run, fault = found.run, found.fault
    timed_out = run is not None and (run.timed_out or (run.exit_status == TIMEOUT_STATUS and fault is not None))
    raw = primary_reward(found.rewards) if found.rewards else None
    return Verdict(
        reward=0.0 if timed_out else raw,
        raw_reward=raw,
        rewards=found.rewards,
        graded_in=graded_in,
        tests=found.tests,
        findings=found.findings,
        timed_out=timed_out,
        exit_status=run.exit_status if run else None,
        oom_killed=run is not None and run.oom_killed,
        fault=None if timed_out else fault,
        output_bytes=run.output.total_bytes if run else 0,
        duration_s=duration_s,
    )
