"""Admitted tasks as a set that can be given away: the tasks, Harbor's manifest, a card, and every task's lineage.

No recording is part of it. A task that holds more of one than a set length goes along only if a licence is known, and
one that holds a repository only if that has a licence file.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict

from termarena.core.errors import NotFound, TaskError, UsageError
from termarena.core.records import read_record_as, write_atomically, write_record
from termarena.forge.card import card
from termarena.forge.making import put_in_place
from termarena.forge.spans import longest_span
from termarena.forge.taskfiles import NO_LICENCE
from termarena.forge.transcript import public_name
from termarena.tasks.load import load_task
from termarena.tasks.manifest import harbor_digest
from termarena.tasks.markers import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.forge.ledger import Ledger, Outcome

__all__ = ["LINEAGE", "ExportPlan", "Exported", "Lineage", "LineageOfSet", "export", "withdraw"]

LINEAGE: Final = "lineage.json"
KIND: Final = "forge-set"
LONGEST_SPAN: Final = 1000
"""Characters: about what a screen holds."""


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9][A-Za-z0-9_-]*")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Lineage(_Frozen):
    """Where one task comes from, and what was shown about it."""

    task: str
    """The name of its folder."""
    name: str
    """As its `task.toml` has it."""
    digest: str
    title: str
    category: str
    terminalworld_category: str
    tags: tuple[str, ...]
    source: str
    """The recording's address, or the name of its file."""
    recording: str
    """The digest of its bytes."""
    recorded_at: str
    licence: str | None
    longest_span: int
    """Characters of the recording that stand in the task in a row."""
    fidelity: float | None
    mutation_score: float | None
    trials: dict[str, int]
    """How many trials of each kind were done."""
    verified_by: tuple[str, ...] = ()
    """Who looked at it and accepted it."""


class LeftOut(_Frozen):
    """A task that does not go along, and why."""

    task: str
    reason: str


class LineageOfSet(_Frozen):
    """The record beside the tasks."""

    name: str
    tasks: tuple[Lineage, ...]


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What is exported, and where to."""

    out: Path
    name: str = "forge/set"
    """As in Harbor's manifest: organisation and name."""
    longest_span: int = LONGEST_SPAN
    verified: Literal["all", "only"] = "all"


class Exported(_Frozen):
    """What was written and what was not."""

    folder: str
    tasks: tuple[Lineage, ...]
    left_out: tuple[LeftOut, ...]


def export(plan: ExportPlan, ledger: Ledger, accepted: dict[str, tuple[str, ...]]) -> Exported:
    """Write the set anew: what it held before and holds no more is removed, anything else in the folder is refused.

    `accepted` has, by recording, who accepted its task. Raises `NotFound` where nothing is admitted, `UsageError` for a
    name that is none and for a folder that holds something else, `OSError`.
    """
    if not _NAME.fullmatch(plan.name):
        raise UsageError(f"--name: {plan.name!r} is no name of a set", hint="write ORGANISATION/NAME")
    out = plan.out.absolute()
    before = _before(out)
    admitted = [one for one in ledger.latest() if one.state == "admitted"]
    if not admitted:
        raise NotFound("no task is admitted in this forge", hint="make some: termarena forge run RECORDINGS")
    kept, left_out = [], []
    for outcome in admitted:
        try:
            kept.append((outcome, _checked(outcome, plan, ledger, accepted.get(outcome.recording, ()))))
        except _Withheld as withheld:
            left_out.append(LeftOut(task=outcome.task_id or public_name(outcome.source), reason=str(withheld)))
    out.mkdir(parents=True, exist_ok=True)
    for gone in before - {one.task for _, one in kept}:
        shutil.rmtree(out / gone, ignore_errors=True)
    written = [one for outcome, one in kept if _put(outcome, out / one.task, ledger)]
    _describe(out, plan.name, written)
    return Exported(folder=str(out), tasks=tuple(written), left_out=tuple(left_out))


def withdraw(folders: Iterable[Path], recording: str) -> None:
    """Take a recording's task out of the papers of every set that it lay in; `folders` are where its tasks were."""
    for out in {folder.parent for folder in folders}:
        if (out / LINEAGE).is_file():
            held = read_record_as(LineageOfSet, out / LINEAGE, KIND)
            left = [one for one in held.tasks if one.recording != recording and (out / one.task).is_dir()]
            _describe(out, held.name, left)


class _Withheld(Exception):
    """Why a task does not go along."""


def _before(out: Path) -> set[str]:
    """The tasks of an earlier export to this folder."""
    if not out.exists() or not any(out.iterdir()):
        return set()
    if not (out / LINEAGE).is_file():
        raise UsageError(f"{out} holds something that is no exported set", hint="name a new or an empty folder")
    named = {one.task for one in read_record_as(LineageOfSet, out / LINEAGE, KIND).tasks}
    if odd := [name for name in named if name in ("", "..") or name != Path(name).name]:
        raise UsageError(
            f"{out / LINEAGE} names {odd[0]!r} as a folder of the set", hint="name a new or an empty folder"
        )
    return named


def _checked(outcome: Outcome, plan: ExportPlan, ledger: Ledger, accepted: tuple[str, ...]) -> Lineage:
    if plan.verified == "only" and not accepted:
        raise _Withheld("nobody has verified it yet")
    if outcome.folder is None or not Path(outcome.folder).is_dir():
        raise _Withheld("its folder is gone: run the forge again")
    try:
        found = ledger.evidence(outcome.evidence)
    except NotFound as error:
        raise _Withheld(error.message) from error
    licence, span = found.get("licence"), longest_span(found.get("spans", {}))
    if licence is None and "spans" not in found:
        raise _Withheld("nobody measured what it holds of its recording, and no licence is known: run the forge again")
    if licence is None and span > plan.longest_span:
        where = max(found["spans"], key=found["spans"].__getitem__)
        raise _Withheld(
            f"{where} holds {span} characters of the recording in a row, and no licence is known; "
            f"at most {plan.longest_span} go without one"
        )
    try:
        task = load_task(Path(outcome.folder))
    except TaskError as error:
        raise _Withheld(f"its folder does not load: {error.message}") from error
    for repository in task.metadata.extra.get("repositories", ()):
        if repository.get("license_file", NO_LICENCE) == NO_LICENCE:
            raise _Withheld(f"it holds the repository {repository.get('url')}, in which no licence file was found")
    kinds = [trial["kind"] for trial in found["trials"]]
    return Lineage(
        task=Path(outcome.folder).name,
        name=task.id,
        digest=str(task.digest),
        title=outcome.title,
        category=task.metadata.category,
        terminalworld_category=str(task.metadata.extra.get("terminalworld_category", "unknown")),
        tags=task.metadata.tags,
        source=public_name(outcome.source),
        recording=outcome.recording,
        recorded_at=str(task.metadata.extra.get("recorded_at", "unknown")),
        licence=licence,
        longest_span=span,
        fidelity=outcome.fidelity,
        mutation_score=outcome.mutation_score,
        trials={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        verified_by=accepted,
    )


def _put(outcome: Outcome, target: Path, ledger: Ledger) -> bool:
    """Copy a task, unless its recording was taken down meanwhile."""
    put_in_place(Path(outcome.folder or ""), target)
    if ledger.place(outcome.recording, target):
        return True
    shutil.rmtree(target)
    return False


def _describe(out: Path, name: str, tasks: list[Lineage]) -> None:
    write_record(out / LINEAGE, KIND, LineageOfSet(name=name, tasks=tuple(tasks)).model_dump(mode="json"))
    rows = [{"name": one.name, "digest": harbor_digest(str(out / one.task))} for one in tasks]
    document = {
        "schema_version": "1.0",
        "dataset": {"name": name, "description": f"{len(tasks)} tasks made of terminal recordings, each proven."},
        "tasks": rows,
    }
    write_atomically(out / MANIFEST, tomli_w.dumps(document).encode())
    write_atomically(out / "README.md", card(name, tasks).encode())
