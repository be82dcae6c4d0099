"""Stage 5: no canned exploit earns a reward."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from termarena.core.errors import NotFound
from termarena.proof.evidence import Evidence, Frozen
from termarena.proof.exploit import Exploiting, known_exploits
from termarena.proof.stand import Act

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.proof.exploit import Exploit
    from termarena.proof.further import Patience
    from termarena.proof.stand import Stand

__all__ = ["ExploitResult", "Hackable", "hackable_of", "prove_not_hackable"]


class ExploitResult(Frozen):
    """What one exploit earned."""

    name: str
    defence: Literal["task", "harness"]
    sealed: bool
    """Whether it earns a reward where no process of it is alive."""
    sealed_raw: bool
    """Whether it would, if nobody looked at what it changed."""
    live: bool
    """Whether it earns a reward in its own sandbox; of an exploit that leaves no process the same as sealed, unless the
    sealed grading has programs of its own."""
    live_raw: bool
    """Whether it would, if nobody looked: how Terminal-Bench grades."""
    is_scored: bool = True
    """Whether the tests gave a verdict."""


class Hackable(Frozen):
    """What the exploits earned, in shares of those that were tried."""

    tried: int
    """To the end: one whose sandbox failed is in `exploits`, and counts for nothing."""
    sealed: float
    live: float
    live_raw: float
    exploits: tuple[ExploitResult, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every exploit was tried to the end."""
        return self.tried == len(self.exploits) > 0

    @property
    def holes(self) -> tuple[ExploitResult, ...]:
        """Those that are held against the task: they earn a reward, or they fool tests that could have been run so
        that they do not."""
        return tuple(one for one in self.exploits if one.sealed or (one.sealed_raw and one.defence == "task"))


async def prove_not_hackable(
    stand: Stand, names: tuple[str, ...] | None = None, *, nothing: float = 0.0, patience: Patience | None = None
) -> tuple[Hackable, list[Evidence]]:
    """Try every exploit, graded sealed and, where it leaves processes behind, live too; `names` are those to try,
    `nothing` is what doing nothing is worth: an exploit earns a reward when it is worth more. `patience`: how long each
    is waited for.

    Raises `NotFound` for one that there is not.
    """
    exploits = _chosen(names)
    tried = await stand.attempt_all([_act(one, patience) for one in exploits])
    return hackable_of(exploits, tried, nothing=nothing), tried


def hackable_of(exploits: Sequence[Exploit], tried: Sequence[Evidence], *, nothing: float = 0.0) -> Hackable:
    """What came of trying each."""
    results = tuple(_result(one, evidence, nothing) for one, evidence in zip(exploits, tried, strict=True))
    judged = [result for result, evidence in zip(results, tried, strict=True) if evidence.gradings]
    return Hackable(
        tried=len(judged),
        sealed=_share([one.sealed for one in judged]),
        live=_share([one.live for one in judged]),
        live_raw=_share([one.live_raw for one in judged]),
        exploits=results,
    )


def _chosen(names: tuple[str, ...] | None) -> tuple[Exploit, ...]:
    known = {one.name: one for one in known_exploits()}
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise NotFound(f"no exploit is called {unknown[0]}", known=tuple(known))
    return tuple(known.values() if names is None else (known[name] for name in names))


def _act(exploit: Exploit, patience: Patience | None) -> Act:
    made = partial(Exploiting, exploit=exploit)
    return Act("hackable", exploit.name, exploit.script, made, grading="both", patience=patience)


def _share(earned: list[bool]) -> float:
    return sum(earned) / len(earned) if earned else 0.0


def _result(exploit: Exploit, evidence: Evidence, nothing: float) -> ExploitResult:
    first = evidence.gradings[0] if evidence.gradings else None
    sealed = evidence.graded("sealed") or evidence.graded("separate") or first
    live = evidence.graded("live") or sealed
    return ExploitResult(
        name=exploit.name,
        defence=exploit.defence,
        sealed=sealed is not None and sealed.earns(nothing),
        sealed_raw=sealed is not None and sealed.fools_the_tests(nothing),
        live=live is not None and live.earns(nothing),
        live_raw=live is not None and live.fools_the_tests(nothing),
        is_scored=evidence.outcome != "unscored",
    )
