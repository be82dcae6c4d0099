"""What the trials come to, and what is refused for it."""

from __future__ import annotations

import pytest

from termarena.core.errors import RecordingRefused
from termarena.forge.making import MakingConfig, check_proof
from termarena.forge.trials import Proof, Trial

WHOLE = Trial(kind="AllPassing", holds=True, passed=("a",))
NOTHING = Trial(kind="Nop", holds=True, failed=("a",))
CUT = Trial(kind="Partial", variant="cut: line 3", holds=True, failed=("a",))
OTHER = Trial(kind="Equivalence", variant="reordered: lines 3 and 4", holds=True, passed=("a",))


def _broken(trial: Trial) -> Trial:
    return trial.model_copy(update={"holds": False, "passed": ("a",), "failed": ("a",)})


def test_each_kind_is_told_by_its_name() -> None:
    same = CUT.model_copy(update={"holds": False, "is_equal": True})
    proof = Proof(trials=(WHOLE, NOTHING, CUT, same, OTHER))
    told = "AllPassing: 1 of 1 pass, Nop: 1 of 1 fails every test, Partial: 1 of 1 fail, Equivalence: 1 of 1 pass"
    assert proof.told == told
    check_proof(proof, MakingConfig())


@pytest.mark.parametrize(
    ("trials", "reason"),
    [
        ((_broken(WHOLE), NOTHING, CUT, OTHER), "AllPassing: the whole solution fails a"),
        ((WHOLE, _broken(NOTHING), CUT, OTHER), "Nop: without any work these pass: a"),
        ((WHOLE, NOTHING, _broken(CUT), OTHER), "Partial: the tests pass cut: line 3; score 0.00"),
        ((WHOLE, NOTHING, CUT, _broken(OTHER)), "Equivalence: the tests refuse a solution that is just as right"),
        ((WHOLE, NOTHING, OTHER), "score 0.00"),
    ],
    ids=["AllPassing", "Nop", "Partial", "Equivalence", "no partial solution at all"],
)
def test_a_broken_trial_refuses_by_its_name(trials: tuple[Trial, ...], reason: str) -> None:
    with pytest.raises(RecordingRefused, match=reason) as refused:
        check_proof(Proof(trials=trials), MakingConfig())
    assert refused.value.gate == "prove"
