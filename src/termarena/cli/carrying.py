"""Carrying out a run that was begun or opened: shown while it goes on, told when it has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from termarena.cli.ending import print_outcome
from termarena.cli.garbage import collect_as_usual
from termarena.cli.live import listening
from termarena.cli.output import ExitStatus, say
from termarena.core.errors import AgentGone, ClusterLost, RunNotWritable
from termarena.reports import build_report, write_report
from termarena.runs.reading import read_run
from termarena.runs.running import execute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.core.run_folder import RunFolder
    from termarena.reports import Report
    from termarena.runs.engine import TrialRunner
    from termarena.runs.machine import Budget
    from termarena.runs.opening import OpenRun
    from termarena.runs.reading import RunView

__all__ = ["carry_out", "make_report"]


def carry_out(opened: OpenRun, runner: TrialRunner, *, json: bool, budget: Budget | None = None) -> int:
    """Run what is left, write the report, tell how it went; gives the exit status. `budget` as for `execute`.

    130 when it was interrupted, 1 when nothing at all could be scored, else 0 whatever the score. Raises
    RunNotWritable when the run's folder takes no more, AgentGone when nobody is at the agent's address any more,
    ClusterLost when the cluster is gone.
    """
    collect_as_usual()
    try:
        with opened, _hanging_up(), listening() as listener:
            end = asyncio.run(execute(opened, runner, listener, budget=budget))
    except (AgentGone, ClusterLost):
        make_report(read_run(opened.folder))
        raise
    view = read_run(opened.folder)
    report = make_report(view)
    print_outcome(view, report, json_wanted=json)
    if end.reason == "interrupted":
        return ExitStatus.INTERRUPTED
    if not report.solved + report.unsolved:
        say("error: no trial could be scored")
        return ExitStatus.FAULT
    return ExitStatus.DONE


@contextmanager
def _hanging_up() -> Iterator[None]:
    """A window that is closed stops the run as cleanly as SIGTERM does; what would be said goes nowhere then.

    Under `nohup` the run goes on: a signal that is ignored stays so.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return
    screens = [stream for stream in (1, 2) if os.isatty(stream)]

    def hang_up(*_: object) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the kernel and the shell may both send it
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in screens:
            os.dup2(nowhere, stream)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def make_report(view: RunView) -> Report:
    """Make the report of a run from its journal and write it beside. Raises RunNotWritable."""
    report = build_report(view)
    try:
        write_report(report, view.folder)
    except OSError as error:
        raise _not_writable(view.folder, error) from error
    return report


def _not_writable(folder: RunFolder, error: OSError) -> RunNotWritable:
    return RunNotWritable(str(folder.report), problem=error.strerror or str(error), errno=error.errno)
