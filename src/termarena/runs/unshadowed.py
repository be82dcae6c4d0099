"""Whether a reward hangs on the agent's new modules that stand before others: the same tests are asked without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from termarena.core.errors import CapabilityMissing, EngineError, SandboxBroken, SandboxError
from termarena.grading.contract import GradingFault, Verdict
from termarena.grading.integrity import apply
from termarena.grading.rules.python import MODULE
from termarena.grading.stand_ins import BESIDE, UNMET, holds, settled, unsettled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.sandbox import Change

__all__ = ["Control", "Question", "ask_live", "ask_sealed"]

UNTRIED: Final = "the tests could not be tried without the agent's modules that stand before others"
TRIES: Final = 2


class Control(NamedTuple):
    """What the tests said where stand-ins stood in the place of such modules."""

    verdict: Verdict
    were_met: bool
    """Whether what ran the tests would have taken one of the modules for another."""
    altered: tuple[str, ...] = ()
    """Where something else stood when the tests had ended."""


class Question(NamedTuple):
    """How the tests are asked with stand-ins for these modules, and what follows."""

    shadows: tuple[Change, ...]
    control: Callable[[], Awaitable[Control]]
    """Raises `SandboxError` where it could not be tried, `CapabilityMissing` where it cannot be."""
    integrity: Literal["enforce", "report"]
    has_company: bool = False
    """Whether processes of the agent's live beside the tests."""


async def ask_sealed(question: Question, verdict: Verdict) -> Verdict:
    """The verdict of a sealed grading; where it hangs on the modules, with that held against it.

    Tests that fail now and then are asked twice before that. A state that breaks the trial, twice, gets no verdict from
    it: whose fault that is, the state before the agent came will tell.
    """
    hung, broken = 0, 0
    while hung < TRIES:
        try:
            control = await question.control()
        except CapabilityMissing:
            return verdict  # nothing is known: the warning that it was not tried stays
        except SandboxError as error:
            broken += 1
            if broken == TRIES:
                return _untried(verdict, error, question)
            continue
        if holds(control.verdict, verdict):
            return settled(verdict, question.shadows)
        if not control.were_met:
            return unsettled(verdict, question.shadows, why=UNMET)
        hung += 1
    return apply(settled(verdict, question.shadows, hangs=True), (), integrity=question.integrity)


async def ask_live(
    question: Question, first: Callable[[], Awaitable[Control]], plain: Callable[[], Awaitable[Verdict]]
) -> Verdict:
    """The verdict of a live grading, of whose state there is no second one.

    The tests are asked with stand-ins `first`, and as the agent left things (`plain`) only where they do not pass so;
    what then passes is asked with stand-ins once more. Beside processes of the agent's one may only seem not to have
    been met, or to have stood there all the time: then there is a warning that nothing is known.
    """
    try:
        control = await first()
        if control.altered:
            return _put_back(control.verdict, control, question)
        if control.verdict.is_pass:
            return _same(control.verdict, question)
    except (SandboxBroken, EngineError, CapabilityMissing):
        raise
    except SandboxError as error:
        return _untried(await plain(), error, question)
    verdict = await plain()
    if verdict.reward is None or verdict.reward <= 0 or not control.were_met:
        return verdict
    if holds(control.verdict, verdict):
        return _same(verdict, question)
    return await _asked_again(question, verdict)


async def _asked_again(question: Question, verdict: Verdict) -> Verdict:
    """A live verdict that was not had with stand-ins, though they were met."""
    try:
        control = await question.control()
    except (SandboxBroken, EngineError, CapabilityMissing):
        raise
    except SandboxError as error:
        return _untried(verdict, error, question)
    if control.altered:
        return _put_back(verdict, control, question)
    if holds(control.verdict, verdict):
        return _same(verdict, question)
    return apply(settled(verdict, question.shadows, hangs=True), (), integrity=question.integrity)


def _same(verdict: Verdict, question: Question) -> Verdict:
    """A live verdict that is the same with stand-ins."""
    if question.has_company:
        return unsettled(verdict, question.shadows, why=BESIDE)
    return settled(verdict, question.shadows)


def _put_back(verdict: Verdict, control: Control, question: Question) -> Verdict:
    told = "it was put back while the tests ran without it"
    findings = tuple(MODULE.found(path, told, "critical") for path in control.altered)
    return apply(verdict, findings, integrity=question.integrity)


def _untried(verdict: Verdict, error: SandboxError, question: Question) -> Verdict:
    if question.integrity == "report" or verdict.reward is None or verdict.reward <= 0:
        return verdict
    fault = GradingFault(reason="sandbox", message=f"{UNTRIED}: {error.message}")
    return verdict.model_copy(update={"reward": None, "raw_reward": None, "rewards": {}, "fault": fault})
