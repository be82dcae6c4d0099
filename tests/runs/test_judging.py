"""Which gradings are asked for again."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from termarena.grading.contract import GradingFault, Verdict
from termarena.runs.judging import _surely

if TYPE_CHECKING:
    from termarena.grading.contract import FaultReason
    from termarena.runs.judging import Case


@pytest.mark.parametrize("reason", ["sandbox", "cannot_run"])
async def test_what_failed_only_once_is_held_against_nobody(reason: FaultReason) -> None:
    """A fetch of the tests' may fail once, as a sandbox may."""
    failed = Verdict(reward=None, graded_in="sealed", fault=GradingFault(reason=reason, message="not there"))
    passed = Verdict(reward=1.0, graded_in="sealed")
    said = iter([failed, passed])

    async def grade(_: Case) -> Verdict:
        return next(said)

    assert await _surely(grade, cast("Case", None)) == passed
