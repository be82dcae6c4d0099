"""The counter-trial: tests that give no verdict, tried on the state before the agent came.

Evidence instead of guessing from messages: if the same tests give a verdict in the start state, what the agent left is
why they gave none; if they give none there either, the tests are at fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.grading.contract import GradingFault

if TYPE_CHECKING:
    from termarena.grading.contract import Verdict

__all__ = ["against_control", "needs_control"]

_OPEN: Final = ("cannot_run", "no_reward", "bad_reward", "nothing_parsed", "sandbox")


def needs_control(verdict: Verdict) -> bool:
    """Whether grading the start state would tell whose fault it is that there is no verdict."""
    return verdict.fault is not None and verdict.fault.reason in _OPEN


def against_control(verdict: Verdict, control: Verdict) -> Verdict:
    """The verdict, with its fault put on the agent if `control`, of the start state, came to its end and has none."""
    if verdict.fault is None or not needs_control(verdict) or control.fault is not None or control.timed_out:
        return verdict
    message = f"{verdict.fault.message}; in the start state the same tests give a verdict"
    return verdict.model_copy(update={"fault": GradingFault(reason="toolchain_broken_by_agent", message=message)})
