"""How the steps of a grading say that there is no verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.grading.contract import GradingFault

if TYPE_CHECKING:
    from termarena.grading.contract import FaultReason

__all__ = ["NoVerdict"]


class NoVerdict(Exception):
    """There is no verdict, for the reason in `fault`; never leaves the grader."""

    def __init__(self, reason: FaultReason, message: str) -> None:
        """`message` is one sentence."""
        super().__init__(message)
        self.fault = GradingFault(reason=reason, message=message)
