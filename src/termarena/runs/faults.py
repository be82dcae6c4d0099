"""Whose fault it was, decided by what was raised and by the kernel's counters, never by the words of a message."""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING, NamedTuple

from termarena.core.errors import (
    AgentGone,
    CapabilityMissing,
    ClusterError,
    EngineError,
    FetchNotRecorded,
    ImageError,
    NoSolution,
    SandboxBroken,
    SandboxError,
    SandboxStartError,
    TaskError,
    TermArenaError,
    Unhealthy,
    UsageError,
)
from termarena.models.errors import KeyRefused, ModelRejected, ModelUnavailable
from termarena.runs.outcome import Fault, FaultDetail, Phase

if TYPE_CHECKING:
    from termarena.sandbox import Sandbox, Usage

__all__ = ["Blame", "blame", "describe", "has_exhausted_resources", "is_machinery", "last_usage"]

LONGEST_LOG = 8_000


class Blame(NamedTuple):
    """A fault with its evidence."""

    fault: Fault
    detail: FaultDetail


def blame(error: BaseException, phase: Phase) -> Blame:
    """Whose fault an error is that ended a trial before its verdict."""
    return Blame(_fault_of(error), describe(error, phase))


def _fault_of(error: BaseException) -> Fault:
    if isinstance(error, ImageError):
        return error.cause or "infra"
    return "task" if isinstance(error, TaskError | Unhealthy | NoSolution) else "infra"


def describe(error: BaseException, phase: Phase) -> FaultDetail:
    """An error as a record keeps it; a traceback only where nobody foresaw the error."""
    is_foreseen = isinstance(error, TermArenaError)
    permanent = isinstance(
        error, TaskError | CapabilityMissing | FetchNotRecorded | UsageError | KeyRefused | ModelRejected
    )
    return FaultDetail(
        phase=phase,
        kind=type(error).__name__,
        message=_words_of(error) or type(error).__name__,
        hint=error.hint if isinstance(error, TermArenaError) else None,
        log_tail=str(getattr(error, "log_tail", ""))[-LONGEST_LOG:],
        traceback="" if is_foreseen else "".join(traceback.format_exception(error))[-LONGEST_LOG:],
        is_retriable=not permanent and _fault_of(error) != "task",
    )


def _words_of(error: BaseException) -> str:
    """What it says; an agent's own error may fail at saying it."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever it raises says nothing about the trial
        return ""


def is_machinery(error: BaseException) -> bool:
    """Whether an error that came out of an agent's work is ours: the sandbox, its engine, the model or the way to the
    agent is gone.

    Every other error of the sandbox room is an answer that the agent did not take: a missing file, an ended shell.
    """
    gone = SandboxBroken | EngineError | SandboxStartError | CapabilityMissing | ModelUnavailable
    return isinstance(error, gone | AgentGone | ClusterError)


def has_exhausted_resources(usage: Usage | None) -> bool:
    """Whether the kernel killed for memory, or the disk was full: counters and measures say so."""
    return usage is not None and bool(usage.oom_kills or usage.disk_full)


async def last_usage(box: Sandbox) -> Usage | None:
    """What a sandbox that may be gone has used; None where nobody can tell any more."""
    with contextlib.suppress(SandboxError):
        return await box.usage()
    return None
