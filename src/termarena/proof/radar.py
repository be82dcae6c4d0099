"""The radar: what has rotted since the last proof."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from pydantic import TypeAdapter

from termarena.proof.evidence import Evidence, Frozen, differences
from termarena.proof.solvable import prove_solvable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.proof.report import Proof
    from termarena.proof.stand import Stand
    from termarena.tasks.model import Task

__all__ = ["Sighting", "known_fetches", "sweep"]

SHOWN: Final = 10
_REQUESTS: Final = TypeAdapter(dict[str, str])
_FETCHES: Final = re.compile(
    r"\b(?:curl|wget|git clone|git fetch|pip3? install|uvx?|npm|apt-get|apt|apk add|cargo|go get|gem install)\b"
)


class Sighting(Frozen):
    """How a task stands now, against what was proven of it."""

    task_id: str
    status: Literal["holds", "drifted", "rotted", "recovered", "still-broken", "changed", "unproven", "untried"]
    """`drifted`: the solution passes and leaves other files. `changed`: it is another task now, or has another
    solution; the old proof says nothing about it. `untried`: our machinery failed, which says nothing of the task."""
    passes: bool
    proven_at: str | None = None
    paths: tuple[str, ...] = ()
    """Files that came out differently than in the proof."""
    tests: tuple[str, ...] = ()
    """That passed then and do not now."""
    fetches: tuple[str, ...] = ()
    """Where a rotted task fetches something from outside: the first suspects."""
    answers: tuple[str, ...] = ()
    """Requests that are answered differently than when it was proven: what was answered then, and now."""
    message: str = ""


async def sweep(stand: Stand, last: Proof | None, *, solution: str) -> Sighting:
    """Run the solution once, as in a run, and compare; `solution` is the digest of the solution as it is now."""
    _, (now, *_) = await prove_solvable(stand, 1)
    task = stand.task
    if now.fault == "infra":
        made_at = last.made_at if last is not None else None
        return Sighting(task_id=task.id, status="untried", passes=False, proven_at=made_at, message=now.message)
    if last is None:
        return Sighting(task_id=task.id, status="unproven", passes=now.passes, message=now.message)
    base = Sighting(task_id=task.id, status="changed", passes=now.passes, proven_at=last.made_at, message=now.message)
    if last.task_digest != task.digest or last.solution_digest != solution:
        return base
    if last.fetched and (asked := await stand.fetches()) is not None:
        answers = tuple(_drifted(last.fetched, asked))[:SHOWN]
        base = base.model_copy(update={"answers": answers})
    then = next((one for one in last.evidence if one.stage == "solvable" and one.passes), None)
    if then is None:
        return base.model_copy(update={"status": "recovered" if now.passes else "still-broken"})
    noise = frozenset(last.solvable.noise) if last.solvable is not None else frozenset()
    paths = differences(now.state, then.state, noise=noise)[:SHOWN]
    if now.passes:
        return base.model_copy(update={"status": "drifted" if paths else "holds", "paths": paths})
    found = {"status": "rotted", "paths": paths, "tests": _lost(then, now), "fetches": tuple(_fetches(task))[:SHOWN]}
    return base.model_copy(update=found)


async def known_fetches(stand: Stand) -> Mapping[str, str]:
    """What is fetched from outside, for a later radar to compare with; recorded unless that was done before. Nothing
    where it cannot be told, which is tried again the next time."""
    if (known := stand.ledger.note("fetches")) is None:
        if (known := await stand.fetches()) is None:
            return {}
        stand.ledger.add_note("fetches", known)
    return _REQUESTS.validate_python(known)


def _drifted(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for request, answer in then.items():
        if now.get(request) != answer:
            yield f"{request}: {answer} then, {now.get(request, 'not asked for')} now"


def _lost(then: Evidence, now: Evidence) -> tuple[str, ...]:
    passed = (name for name, state in then.tests.items() if state == "passed")
    return tuple(name for name in passed if now.tests.get(name) != "passed")[:SHOWN]


def _fetches(task: Task) -> Iterator[str]:
    trees = [
        task.environment.context,
        task.solution.files if task.solution else (),
        task.tests.files if task.tests else (),
    ]
    for tree in trees:
        for file in tree:
            if file.kind == "file" and (file.path.endswith(".sh") or "Dockerfile" in file.path):
                text = file.read(1 << 16).decode("utf-8", "replace")
                for number, line in enumerate(text.splitlines(), start=1):
                    if _FETCHES.search(line) and not line.lstrip().startswith("#"):
                        yield f"{file.path}:{number}: {' '.join(line.split())[:100]}"
