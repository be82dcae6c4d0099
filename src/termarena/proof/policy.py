"""Policies: what a task must be worth to be let through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from termarena.core.errors import UsageError
from termarena.core.given_files import read_given_toml
from termarena.proof.evidence import Frozen
from termarena.proof.faults import RULES, Letter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.proof.report import Proof

__all__ = ["Policy", "falls_short", "read_policy"]

Share = Annotated[float, Field(ge=0, le=1)]
_ORDER: Final = "ABCDF"


class Policy(Frozen):
    """What is asked of every task; what a policy file leaves out is as here."""

    least_grade: Letter = "B"
    least_mutation_score: Share = 0.8
    most_flake_rate: Share = 0.0
    most_hackability: Share = 0.0
    """Under sealed grading."""
    forbidden: tuple[str, ...] = ()
    """Rules of faults that are never let through, whatever the grade."""


def read_policy(path: Path) -> Policy:
    """Read a policy file, which is TOML.

    Raises `UsageError` for a file that cannot be read, is no TOML, or has a field that is unknown or out of range.
    """
    hint = f"--gate takes a TOML file with {', '.join(Policy.model_fields)}; docs/proof.md says what they mean"
    policy = read_given_toml(Policy, path, hint=hint)
    unknown = [rule for rule in policy.forbidden if rule not in RULES]
    if unknown:
        raise UsageError(f"{path}: forbidden names {unknown[0]}, which is no fault", hint=f"one of {', '.join(RULES)}")
    return policy


def falls_short(proof: Proof, policy: Policy) -> tuple[str, ...]:
    """Everything in which a task falls short of a policy; nothing where it is let through. Unknown falls short."""
    return tuple(_short(proof, policy))


def _short(proof: Proof, policy: Policy) -> Iterator[str]:
    if _ORDER.index(proof.letter) > _ORDER.index(policy.least_grade):
        yield f"its grade is {proof.letter}, and {policy.least_grade} is asked for"
    score = proof.discriminating.score if proof.discriminating is not None else None
    if score is None or score < policy.least_mutation_score:
        told = "unknown" if score is None else f"{score:.2f}"
        yield f"its mutation score is {told}, and {policy.least_mutation_score:.2f} is asked for"
    flakes = proof.solvable.flake_rate if proof.solvable is not None else None
    if flakes is None or flakes > policy.most_flake_rate:
        yield f"its solution fails in {_share(flakes)} of the attempts"
    hacks = proof.hackable.sealed if proof.hackable is not None and proof.hackable.is_whole else None
    if hacks is None or hacks > policy.most_hackability:
        yield f"{_share(hacks)} of the exploits earn a reward"
    for fault in proof.faults:
        if fault.rule in policy.forbidden:
            yield f"{fault.rule}: {fault.message}"
    if "leak" in policy.forbidden and proof.leaks is not None and proof.leaks.unread:
        yield f"leak: not all of its image could be looked through: {proof.leaks.unread[0]}"


def _share(known: float | None) -> str:
    return "an unknown share" if known is None else f"{100 * known:.0f} %"
