"""Starting the tests as their format asks, with an environment of our own and output that may be of any length."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack, runtime_checkable

from termarena.core.errors import NoExitStatus, NotFound, SandboxFileError, TerminalEnded, TerminalTimeout
from termarena.grading.faults import NoVerdict
from termarena.grading.laying import TESTS
from termarena.grading.output import FIRST_BYTES, LAST_BYTES, TestOutput
from termarena.grading.parsers import PARSERS
from termarena.grading.rules.places import SAME_SHELL, WORKDIR
from termarena.sandbox.bare import filled_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.grading.contract import IntegrityFinding
    from termarena.grading.job import GradingJob
    from termarena.sandbox.contract import ExecResult, Sandbox
    from termarena.sandbox.terminal import Terminal

__all__ = ["TestRun", "run_tests"]

SHELL: Final = "/bin/sh"
NOT_STARTED: Final = (126, 127)
LONGEST_SHEBANG: Final = 256
BASH: Final = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
# Both outputs as one, in the order of writing; the script's own process takes the shell's place.
_MERGED: Final = 'exec 2>&1; exec "$@"'
# The same, and what was the pipe of output is the reward's: a shell or a loader complains to the other one before
# the first command ("cannot change locale").
_WITH_PIPE: Final = 'exec 3>&1 >&2; exec "$@"'
REWARD_PIPE: Final = {"TERMARENA_REWARD_FD": "3"}
"""What tells tests that their reward goes through a pipe."""


class _How(TypedDict):
    timeout_s: float | None
    user: str | None
    cwd: str | None
    env: Mapping[str, str] | None
    max_output_bytes: int
    tail_bytes: int


@runtime_checkable
class _Confiding(Protocol):
    """A sandbox that can give a command an output which nobody else can open: as root of a sandbox, or where all of
    its users are one, a program that the tests start could open their pipe through `/proc`."""

    async def exec_confided(self, argv: Sequence[str], **how: Unpack[_How]) -> ExecResult: ...


@dataclass(frozen=True, slots=True)
class TestRun:
    """How the tests' own process ended, and what all of them wrote."""

    __test__ = False  # pytest looks for classes of this name

    exit_status: int
    output: TestOutput
    signal: int | None = None
    """What ended it, where it did not end by itself."""
    timed_out: bool = False
    oom_killed: bool = False
    told: bytes = b""
    """What came through the reward's pipe."""
    findings: tuple[IntegrityFinding, ...] = ()


async def run_tests(box: Sandbox, job: GradingJob, *, terminal: Terminal | None = None) -> TestRun:
    """Run the job's entry to its end or its time limit, which acts inside the sandbox.

    The variables are those of the sandbox's own start and of the task: no login file, no shell of the agent has a word.
    Only tests that ask for the agent's shell (`Tests.same_shell`) run in `terminal`, or by a login shell where there is
    none at its prompt. Raises `NoVerdict` where they could not be started: the user or the interpreter is not there;
    `UsageError` for a variable that was not given.
    """
    if job.same_shell and terminal is not None:
        with contextlib.suppress(TerminalEnded, TerminalTimeout, NoExitStatus):
            return await _typed(terminal, job)
    try:
        run = await _run(box, job, cwd=None)
    except NotFound as error:
        raise NoVerdict("cannot_run", error.message) from error
    except SandboxFileError:
        run = await _run(box, job, cwd="/")
        gone = WORKDIR.found(box.spec.workdir or "", "the tests ran in / instead")
        run = replace(run, findings=(*run.findings, gone))
    if run.exit_status in NOT_STARTED:
        await _check_interpreter(box, job)
    return run


async def _typed(terminal: Terminal, job: GradingJob) -> TestRun:
    done = await terminal.run(f"TEST_DIR={TESTS} bash {TESTS}/{job.entry}", timeout_s=job.timeout_s)
    middle = len(done.output) // 2 if done.is_truncated else len(done.output)
    output = TestOutput(done.output[:middle], done.output[middle:], done.output_bytes)
    return TestRun(done.exit_status, output, timed_out=done.timed_out)


async def _run(box: Sandbox, job: GradingJob, *, cwd: str | None) -> TestRun:
    has_pipe = job.verdict == "reward_pipe"
    execute = box.exec_confided if has_pipe and isinstance(box, _Confiding) else box.exec
    done = await execute(
        [SHELL, "-c", _WITH_PIPE if has_pipe else _MERGED, "sh", *_command(job)],
        timeout_s=job.timeout_s,
        user=job.user,
        cwd=cwd,
        env=_environment(job),
        max_output_bytes=FIRST_BYTES,
        tail_bytes=LAST_BYTES,
    )
    missing = SAME_SHELL.found("", "a login shell ran the tests") if job.same_shell else None
    errors = TestOutput(done.stderr, done.stderr_tail, done.stderr_bytes)
    return TestRun(
        exit_status=done.exit_status,
        output=errors if has_pipe else TestOutput(done.stdout, done.stdout_tail, done.stdout_bytes),
        signal=done.signal,
        timed_out=done.timed_out,
        oom_killed=done.oom_killed,
        told=done.stdout if has_pipe else b"",
        findings=(missing,) if missing else (),
    )


def _environment(job: GradingJob) -> Mapping[str, str]:
    own = {"TEST_DIR": TESTS} if job.verdict in PARSERS else REWARD_PIPE if job.verdict == "reward_pipe" else {}
    return {**own, **filled_in(job.grading.env, job.variables)}


def _command(job: GradingJob) -> list[str]:
    """Terminal-Bench 1 starts its script by bash, Harbor by the script's own first line."""
    entry = f"{TESTS}/{job.entry}"
    if job.same_shell:
        return ["bash", "-l", entry]
    by_itself = job.verdict not in PARSERS and (job.is_bundled or _interpreter(job) is not None)
    return [entry] if by_itself else ["bash", entry]


def _interpreter(job: GradingJob) -> str | None:
    """The program that the script's first line names; None where it names none."""
    script = job.files.get(job.entry or "")
    first = script.read(LONGEST_SHEBANG).split(b"\n", 1)[0] if script and script.kind == "file" else b""
    words = first[2:].decode("utf-8", "replace").split(" ") if first.startswith(b"#!") else []
    return next((word for word in words if word), None)


async def _check_interpreter(box: Sandbox, job: GradingJob) -> None:
    """Raises `NoVerdict` if what is to read the script is not there: it did not run then, whatever its status says."""
    command = _command(job)
    interpreter = _interpreter(job) if len(command) == 1 else None
    places = (interpreter,) if interpreter else BASH if command[0] == "bash" else ()
    if places and not any([await _is_there(box, place) for place in places]):
        raise NoVerdict("cannot_run", f"the tests need {places[0]}, which is not there")


async def _is_there(box: Sandbox, path: str) -> bool:
    try:
        await box.read(path, max_bytes=0)
    except SandboxFileError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return True
