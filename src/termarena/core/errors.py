"""The error tree.

    TermArenaError
    ├── UsageError               the command line, a setting or a name that does not exist (exit status 2)
    │   ├── NotFound             a task, dataset or selection that names nothing (also a LookupError)
    │   ├── MissingExtra         an optional dependency that is not installed (also an ImportError)
    │   ├── NoSolution           the oracle was asked for on a task that has no reference solution
    │   ├── RecordingError       a file that is no terminal recording, or cannot be read as one (also a ValueError)
    │   │   └── RecordingTooLong it took more processor time than it may
    │   ├── RunBusy              a run that another process is carrying out
    │   ├── BadBundle            a packed run that is none, or is made to do harm (also a ValueError)
    │   ├── AddressRefused       a network address that is not to be reached from here
    │   ├── BattleRefused        a battle that was asked for in words nobody knows, or when there was no room
    │   ├── Refused              an arena does not allow, or does not take, what was asked of it
    │   └── TerminalSizeError    a terminal of no or absurd size (also a ValueError)
    ├── TaskError                the task is bad
    │   ├── TaskFormatError      a file of a task or dataset does not hold what its format asks for (also a ValueError)
    │   │   └── LooseTask        it loads with warnings, where --strict allows none
    │   ├── DigestMismatch       the files are not those that were locked
    │   └── RecordingRefused     a recording that does not become a task, and at which gate
    ├── SandboxError             our machinery failed: never the agent's fault
    │   ├── SandboxStartError    a sandbox could not be made on this machine
    │   │   ├── Unhealthy        a task's healthcheck did not pass within its clock
    │   │   └── ServiceFailed    a service beside the agent's ended, or did not become healthy
    │   ├── SandboxBroken        a running sandbox has ended or does not answer
    │   ├── SandboxFrozen        a frozen sandbox was asked for something that takes a running one
    │   ├── SandboxFileError     a file operation in a sandbox was refused (also an OSError)
    │   ├── CapabilityMissing    the driver cannot do what the task needs; known before anything starts
    │   ├── ImageError           a root file system, image, archive or snapshot that cannot be used
    │   │   └── BuildError       a start state that does not build
    │   │       └── BuildTimeout it did not build within the task's time (also a TimeoutError)
    │   ├── EngineError          a container engine that does not answer or refuses (also an OSError)
    │   ├── ClusterError         a cluster that is not there, or has no node that can take a trial
    │   │   ├── NodeLost         a node took a trial and never said how it ended
    │   │   └── ClusterLost      nothing more can be carried out there: the run has stopped, and can be resumed
    │   │       ├── HeadLost     the cluster's head is gone
    │   │       └── BudgetLost   the process that keeps the run's budget is gone
    │   ├── TerminalEnded        the shell of a terminal has ended; open another terminal
    │   ├── TerminalTimeout      a terminal did not come to the awaited state in time (also a TimeoutError)
    │   ├── NoExitStatus         a command ran in a terminal, and how it ended cannot be known
    │   ├── FetchError           a download or a clone failed (also an OSError)
    │   │   └── FetchNotRecorded a replay was asked for what its recording does not hold
    │   ├── JournalDamaged       a line of a run's journal that is not as it was written
    │   └── RunNotWritable       a run's folder takes no more: its disk is full, or refuses (also an OSError)
    └── AgentError               the agent misbehaved
        ├── AgentUnreachable     an agent behind a network address does not answer (also an OSError)
        │   └── AgentGone        nobody is at its address
        └── WorkspaceClosed      it reached for the sandbox when its time was up or its work sealed

A wrong answer is not an error: it is a verdict.
"""

from __future__ import annotations

from typing import ClassVar, Literal

__all__ = [
    "AddressRefused",
    "AgentError",
    "AgentGone",
    "AgentUnreachable",
    "BadBundle",
    "BattleRefused",
    "BudgetLost",
    "BuildError",
    "BuildTimeout",
    "CapabilityMissing",
    "Cause",
    "ClusterError",
    "ClusterLost",
    "DigestMismatch",
    "EngineError",
    "FetchError",
    "FetchNotRecorded",
    "HeadLost",
    "ImageError",
    "JournalDamaged",
    "LooseTask",
    "MissingExtra",
    "NoExitStatus",
    "NoSolution",
    "NodeLost",
    "NotFound",
    "RecordingError",
    "RecordingRefused",
    "RecordingTooLong",
    "Refused",
    "RunBusy",
    "RunNotWritable",
    "SandboxBroken",
    "SandboxError",
    "SandboxFileError",
    "SandboxFrozen",
    "SandboxStartError",
    "ServiceFailed",
    "TaskError",
    "TaskFormatError",
    "TermArenaError",
    "TerminalEnded",
    "TerminalSizeError",
    "TerminalTimeout",
    "Unhealthy",
    "UsageError",
    "WorkspaceClosed",
]

Cause = Literal["task", "infra"]
"""Whose fault it is that a start state could not be made, where there is evidence."""


APART = ("elizaos", "litellm")
"""Extras that no other holds: they want versions of their own."""


class TermArenaError(Exception):
    """Root of every error that TermArena raises on purpose; `hint` says what to do next."""

    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """`message` is one sentence for people; `hint`, where there is one, is the next step to take."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def as_dict(self) -> dict[str, object]:
        """The error as `--json` shows it: its kind, its message, and whatever fields it carries."""
        return {"kind": type(self).__name__, **{name: value for name, value in vars(self).items() if value is not None}}


class UsageError(TermArenaError):
    """What was asked for cannot be asked for: a wrong flag, an unknown setting, an empty selection."""

    exit_status = 2


class NotFound(UsageError, LookupError):
    """A name that names nothing; `known` lists what there is."""

    def __init__(self, message: str, *, known: tuple[str, ...] = (), hint: str | None = None) -> None:
        """`known` is shown in the message, shortened when it is long."""
        shown = ", ".join(known[:SHOWN_NAMES]) + (f", … ({len(known)} in all)" if len(known) > SHOWN_NAMES else "")
        super().__init__(f"{message}; there is: {shown}" if known else message, hint=hint)
        self.known = known


class MissingExtra(UsageError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        """`extra` is the name in `pip install 'termarena[extra]'`."""
        in_clone = f".venv/bin/pip install -e '.[{extra}]'" if extra in APART else "make setup"
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed",
            hint=f"pip install 'termarena[{extra}]'; in a clone: {in_clone}",
        )
        self.extra = extra


class NoSolution(UsageError):
    """The oracle was asked for on a task, or a step of one, that has no reference solution that can run here."""

    def __init__(self, task_id: str, *, step: str | None = None) -> None:
        """Known before anything starts: neither the task nor the sandbox is at fault."""
        where = f"the step {step} of {task_id}" if step else task_id
        super().__init__(f"{where} has no reference solution", hint="leave the task out, or choose another --agent")
        self.task_id = task_id
        self.step = step


class RecordingError(UsageError, ValueError):
    """A file that was given as a terminal recording and is none, or is larger than any that is read."""


class RecordingTooLong(RecordingError):
    """A recording that took more processor time than it may."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s` is what it may take."""
        super().__init__(
            f"it took too long: more than {limit_s:g} s of processor time",
            hint="allow more with most_processor_s in the rules, or leave it out",
        )
        self.limit_s = limit_s


class RunBusy(UsageError):
    """A run that another process is carrying out; `holder` says who, as far as it is known."""

    def __init__(self, run: str, *, holder: str) -> None:
        """`holder` is a process and its machine."""
        super().__init__(
            f"the run {run} is held by {holder}",
            hint="wait until that has ended, or end it; whatever ends it, the run can be resumed then",
        )
        self.run = run
        self.holder = holder


class BadBundle(UsageError, ValueError):
    """A file that is no packed run: it cannot be read, or holds what `pack` never writes."""

    def __init__(self, file: str, *, problem: str) -> None:
        """`problem` is what was found in it."""
        super().__init__(f"{file} is no packed run: {problem}", hint="make one with: termarena pack RUN")
        self.file = file
        self.problem = problem


class AddressRefused(UsageError):
    """An address that is not to be reached from here; `address` is what was named, `why` the rule."""

    def __init__(self, address: str, *, why: str, hint: str | None = None) -> None:
        """`why` completes the sentence "the address … is refused: …"."""
        super().__init__(f"the address {address} is refused: {why}", hint=hint)
        self.address = address
        self.why = why


class BattleRefused(UsageError):
    """A battle that is not begun: the request is not understood, names nothing, or there is no room."""


class Refused(UsageError):
    """An arena does not allow, or does not take, what was asked of it; `status` is HTTP's."""

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        """`status` is 401 without a key, 403 with the wrong one, 409 for what does not fit what is there …"""
        super().__init__(message, hint=hint)
        self.status = status


class TerminalSizeError(UsageError, ValueError):
    """A terminal of this size cannot be: no column, no row, or more than any program expects."""

    def __init__(self, cols: int, rows: int, *, largest: int) -> None:
        """`largest` is the greatest number of columns and of rows."""
        super().__init__(
            f"a terminal of {cols}x{rows} cannot be opened",
            hint=f"give between 1 and {largest} columns and rows; 80x24 is the usual size",
        )
        self.cols = cols
        self.rows = rows


class TaskError(TermArenaError):
    """The task is bad: no agent could be measured on it as it stands."""


class TaskFormatError(TaskError, ValueError):
    """A file does not hold what its format asks for: which file, which field, what was found, what was expected."""

    def __init__(
        self, file: str, *, found: str, expected: str, field: str | None = None, hint: str | None = None
    ) -> None:
        """`field` is a dotted path such as `environment.cpus`; it is absent when the file as a whole is wrong."""
        where = f"{file}: {field}" if field else file
        super().__init__(f"{where}: found {found}; expected {expected}", hint=hint)
        self.file = file
        self.field = field
        self.found = found
        self.expected = expected


class LooseTask(TaskFormatError):
    """A task that loads with warnings, where none are allowed; `warnings` holds every one, `file` and `field` are the
    first one's."""

    def __init__(self, warnings: tuple[dict[str, str | None], ...]) -> None:
        """Each warning has `rule`, `file`, `field` (or None) and `message`; there is at least one."""
        first = warnings[0]
        super().__init__(
            str(first["file"]),
            field=first["field"],
            found="; ".join([str(first["message"]), *map(self._told, warnings[1:])]),
            expected="documents that follow their format to the letter",
            hint="mend them, or do without --strict",
        )
        self.warnings = warnings

    @staticmethod
    def _told(warning: dict[str, str | None]) -> str:
        place = f"{warning['file']}: {warning['field']}" if warning["field"] else str(warning["file"])
        return f"{place}: {warning['message']}"


class DigestMismatch(TaskError):
    """The files are not those that were locked; `files` names each one that differs, is missing or is new."""

    def __init__(self, what: str, *, files: tuple[str, ...], hint: str | None = None) -> None:
        """`files` are paths relative to what was locked, each with how it differs."""
        shown = "; ".join(files[:SHOWN_NAMES]) + (f"; … ({len(files)} in all)" if len(files) > SHOWN_NAMES else "")
        super().__init__(f"{what} does not match its lock: {shown}", hint=hint)
        self.files = files


class RecordingRefused(TaskError):
    """A recording does not become a task; `gate` is the stage that refused it, `reason` a sentence about why."""

    def __init__(self, gate: str, reason: str) -> None:
        """`reason` names what was found in the recording, or in what was made of it."""
        super().__init__(f"{gate}: {reason}", hint="see every step and its reason: termarena forge explain RECORDING")
        self.gate = gate
        self.reason = reason


class SandboxError(TermArenaError):
    """Our machinery failed; whatever was being measured is unscored, never zero."""


class SandboxStartError(SandboxError):
    """A sandbox could not be made on this machine; nothing of it is left."""


class Unhealthy(SandboxStartError):
    """A task's healthcheck did not pass; `output` is the end of what its last try said."""

    def __init__(self, command: str, *, failures: int, after_s: float, output: str = "") -> None:
        """`failures` counts the tries that had to pass."""
        hint = f"the last try said: {output}" if output else "run the healthcheck's command in `termarena shell TASK`"
        super().__init__(f"the healthcheck `{command}` failed {failures} times within {after_s:.1f} s", hint=hint)
        self.command = command
        self.failures = failures
        self.output = output


class ServiceFailed(SandboxStartError):
    """A service of a task did not come up; `log_tail` is the end of what it wrote."""

    def __init__(self, service: str, problem: str, log_tail: str = "") -> None:
        """`problem` completes the sentence "the service <name> …"."""
        hint = f"its log ends with: {log_tail}" if log_tail else "see its command and its healthcheck"
        super().__init__(f"the service {service} {problem}", hint=hint)
        self.service = service
        self.log_tail = log_tail


class SandboxBroken(SandboxError):
    """A running sandbox has ended or does not answer; `reason` says how that was seen."""

    def __init__(self, sandbox: str, reason: str, *, hint: str | None = None) -> None:
        """`sandbox` is its id."""
        super().__init__(f"sandbox {sandbox} is gone: {reason}", hint=hint)
        self.sandbox = sandbox
        self.reason = reason


class SandboxFrozen(SandboxError):
    """A frozen sandbox was asked for something that takes a running one: a command, a terminal, a changed file."""

    def __init__(self, sandbox: str) -> None:
        """`sandbox` is its id."""
        super().__init__(f"sandbox {sandbox} is frozen", hint="thaw it first")
        self.sandbox = sandbox


class SandboxFileError(SandboxError, OSError):
    """A file operation in a sandbox was refused by its file system: no such file, no space, not a folder."""

    def __init__(self, operation: str, path: str, *, problem: str, errno: int | None = None) -> None:
        """`errno` is the kernel's number where there is one."""
        super().__init__(f"{operation} {path}: {problem}")
        self.operation = operation
        self.path = path
        self.errno = errno


class CapabilityMissing(SandboxError):
    """The driver cannot do what the task needs; raised before anything starts."""

    def __init__(self, capability: str, *, driver: str, why: str, hint: str | None = None) -> None:
        """`why` completes the sentence "the <driver> driver cannot …, because …"."""
        super().__init__(f"this task needs {capability}; the {driver} driver does not have it here: {why}", hint=hint)
        self.capability = capability
        self.driver = driver


class ImageError(SandboxError):
    """A root file system, an archive or a snapshot that cannot be used; `source` names it.

    `cause` is `task` when the task names what does not exist, `infra` when the engine, its disk or a registry failed;
    None where that cannot be told.
    """

    def __init__(self, source: str, problem: str, *, hint: str | None = None, cause: Cause | None = None) -> None:
        """`problem` says what was found."""
        super().__init__(f"{source}: {problem}", hint=hint)
        self.source = source
        self.problem = problem
        self.cause = cause


class TerminalEnded(SandboxError):
    """The shell of a terminal has ended; `shell_status` is its own, as a shell has it."""

    def __init__(self, shell_status: int) -> None:
        """The sandbox itself lives: a sandbox that ended is `SandboxBroken`."""
        super().__init__(f"the terminal's shell has ended with status {shell_status}", hint="open another terminal")
        self.shell_status = shell_status


class TerminalTimeout(SandboxError, TimeoutError):
    """A terminal did not come to the awaited state in time; `tail` is the end of what it showed."""

    def __init__(self, awaited: str, *, timeout_s: float, tail: str = "", hint: str | None = None) -> None:
        """`awaited` completes the sentence "waited … for …"."""
        super().__init__(f"waited {timeout_s:g} s for {awaited}", hint=hint)
        self.awaited = awaited
        self.timeout_s = timeout_s
        self.tail = tail


class NoExitStatus(SandboxError):
    """A command was given to a terminal's shell, and how it ended cannot be known; `tail` is the end of its output."""

    def __init__(self, command: str, *, why: str, tail: str = "") -> None:
        """`why` is one sentence."""
        shown = command if len(command) <= SHOWN_COMMAND else f"{command[:SHOWN_COMMAND]}…"
        super().__init__(f"no exit status of {shown!r}: {why}", hint="open another terminal; the sandbox can be used")
        self.command = command
        self.why = why
        self.tail = tail


class BuildError(ImageError):
    """A start state that does not build; `step` is the one that failed, `log_tail` the last of what was printed."""

    def __init__(
        self,
        source: str,
        problem: str,
        *,
        step: str,
        log_tail: str,
        hint: str | None = None,
        cause: Cause | None = None,
    ) -> None:
        """`step` as the builder tells it: `Step 2/3 : RUN make`; empty when it did not come to a first step."""
        super().__init__(source, f"{problem} (at {step})" if step else problem, hint=hint, cause=cause)
        self.step = step
        self.log_tail = log_tail


class BuildTimeout(BuildError, TimeoutError):
    """A start state was not built within the time that its task gives it; a slow machine looks like a slow build."""

    def __init__(self, source: str, *, timeout_s: float, log_tail: str = "") -> None:
        """`timeout_s` is what was given."""
        hint = "allow more: a greater build_timeout_sec in the task, or a build timeout multiplier for the run"
        super().__init__(source, f"was not built within {timeout_s:g} s", step="", log_tail=log_tail, hint=hint)
        self.timeout_s = timeout_s


class EngineError(SandboxError, OSError):
    """A container engine does not answer, or refuses what was asked; `status` is HTTP's where there is one."""

    def __init__(self, engine: str, problem: str, *, status: int | None = None, hint: str | None = None) -> None:
        """`engine` is its address."""
        super().__init__(f"engine {engine}: {problem}", hint=hint)
        self.engine = engine
        self.problem = problem
        self.status = status


class ClusterError(SandboxError):
    """A cluster is not there, does not fit this TermArena, or has no node that can take a trial."""


class NodeLost(ClusterError):
    """The node that carried a trial out is gone, or the process there; `problem` is what the cluster says of it."""

    def __init__(self, problem: str) -> None:
        """`problem` is the cluster's own sentence."""
        super().__init__(f"the node that carried out the trial is lost: {problem}", hint="see what is left: ray status")
        self.problem = problem


class ClusterLost(ClusterError):
    """Nothing more can be carried out on a cluster: the run has stopped, and can be resumed."""


class BudgetLost(ClusterLost):
    """The process that keeps the run's budget is gone: whoever asks a model now would spend without a limit."""

    def __init__(self) -> None:
        """There is one in a run."""
        super().__init__("the process that keeps the run's budget is lost")


class HeadLost(ClusterLost):
    """The head of a cluster does not answer any more."""

    def __init__(self, address: str, *, silent_s: float, hint: str | None = None) -> None:
        """`address` is the cluster's, `silent_s` how long it was waited for."""
        problem = f"the head of the Ray cluster at {address} is lost: it has not answered for {silent_s:.0f} s"
        super().__init__(problem, hint=hint)
        self.address = address


class FetchError(SandboxError, OSError):
    """A download or a clone failed; what arrived is kept where it can be resumed."""

    def __init__(self, source: str, problem: str, *, hint: str | None = None) -> None:
        """`source` is what was being fetched, without any credential."""
        super().__init__(f"could not fetch {source}: {problem}", hint=hint)
        self.source = source


class FetchNotRecorded(FetchError):
    """A replay was asked for what its recording does not hold; nothing was asked of the network."""

    def __init__(self, requests: tuple[str, ...], *, folder: str) -> None:
        """`requests` are methods and addresses, without any credential; the first is named."""
        more = f" (and {len(requests) - 1} more)" if len(requests) > 1 else ""
        hint = "record it where there is a network: the same command with --record-fetches"
        super().__init__(f"{requests[0]}{more}", f"it is not among the fetches of {folder}", hint=hint)
        self.requests = requests
        self.folder = folder


class JournalDamaged(SandboxError):
    """A line of a run's journal is not as it was written; nothing after it can be trusted."""

    def __init__(self, journal: str, *, line: int, problem: str) -> None:
        """`line` counts from 1."""
        super().__init__(
            f"{journal}: line {line} is damaged: {problem}",
            hint=f"put back a copy of the file, or keep what stands before the line (head -n {line - 1}) and resume: "
            "the trials behind it are then run again",
        )
        self.journal = journal
        self.line = line
        self.problem = problem


class RunNotWritable(SandboxError, OSError):
    """A run's folder takes no more. Nothing was half-written; what has an outcome keeps it."""

    def __init__(self, path: str, *, problem: str, errno: int | None = None, then: str | None = None) -> None:
        """`errno` is the kernel's number where there is one; `then` is the command to go on with, if not `resume`."""
        again = then or "termarena resume RUN; only what has no outcome is run again"
        super().__init__(f"cannot write {path}: {problem}", hint=f"make space (or give permission), then: {again}")
        self.path = path
        self.errno = errno


class AgentError(TermArenaError):
    """The agent misbehaved: it crashed, or broke the contract it was given."""


class AgentUnreachable(AgentError, OSError):
    """An agent behind a network address does not answer, broke off, or says that it failed; `address` is its own."""

    def __init__(self, address: str, problem: str, *, hint: str | None = None) -> None:
        """`problem` says what was seen."""
        hint = hint or f"look whether it runs: termarena green check {address}"
        super().__init__(f"the agent at {address}: {problem}", hint=hint)
        self.address = address
        self.problem = problem


class AgentGone(AgentUnreachable):
    """Nobody is at an agent's address: no connection was to be had, or a gateway said so. The next trial would find the
    same."""


class WorkspaceClosed(AgentError):
    """An agent reached for the sandbox after its time was up or its work was sealed; nothing was done."""

    def __init__(self, why: str) -> None:
        """`why` completes the sentence "the workspace is closed: …"."""
        super().__init__(f"the workspace is closed: {why}", hint="return from solve(); seconds_left tells the time")
        self.why = why


SHOWN_NAMES = 20
SHOWN_COMMAND = 80
