"""What the agent changed that could bend the grading, and what follows from it."""

from __future__ import annotations

import fnmatch
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from termarena.grading.contract import GradingFault, IntegrityFinding, Verdict
from termarena.grading.evidence import gather
from termarena.grading.packages import has_packages
from termarena.grading.rules import RULES, Evidence, Scene, check, is_watched
from termarena.grading.rules.python import stands_before_a_module
from termarena.grading.rules.rule import SYSTEM_PATH, canonical
from termarena.grading.suites import HERE, entered_folders, modules_run, named_paths, runs_code, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.sandbox.contract import Change, FileChanges, Sandbox, Surroundings
    from termarena.tasks.model import Task

__all__ = ["RULES", "Evidence", "apply", "blamed", "examine", "gather", "inspect", "shadowing"]

MOST_PER_RULE: Final = 25
BREAKING: Final = frozenset(
    {"tool-replaced", "tool-shadowed", "tool-removed", "system-library-changed", "python-library-changed"}
    | {"python-startup", "test-framework-changed", "loader-preload", "python-path-file"}
)
"""Rules whose critical findings explain that tests could not run."""
_ORDER: Final = {"critical": 0, "warning": 1, "info": 2}


async def examine(box: Sandbox, changes: FileChanges, task: Task) -> tuple[IntegrityFinding, ...]:
    """`inspect`, with the evidence read from the box: the agent's, frozen or sealed, or a fork of it."""
    return inspect(changes, task, await gather(box, changes), around=await box.surroundings())


def inspect(
    changes: FileChanges,
    task: Task,
    evidence: Evidence | None = None,
    *,
    around: Surroundings | None = None,
) -> tuple[IntegrityFinding, ...]:
    """What the rules find in the agent's changes, the gravest first, at most 25 of each rule.

    Without `evidence` a file is judged by its name, kind and size alone, and nothing is critical that a package manager
    might have done, if one was at work.
    `around` is what the tests start with, which an image may say instead of the task: its `PATH`, its `PYTHONPATH`, the
    folder. What `task.integrity_allow` names becomes an `info`.
    """
    scene = _scene(changes, task, evidence, around)
    found = sorted((_allowed(one, task) for one in check(scene)), key=lambda one: (_ORDER[one.severity], one.path))
    return tuple(_not_too_many(found))


def shadowing(changes: FileChanges, task: Task, *, around: Surroundings | None = None) -> tuple[Change, ...]:
    """The agent's new modules that may stand before others which run the tests: every file of which `inspect` has
    `python-module-shadowed` to tell, but for those that the task allows."""
    scene = _scene(changes, task, None, around)
    return tuple(
        change
        for change in scene.changes
        if stands_before_a_module(scene, change) and not _is_allowed(change.path, task)
    )


def _scene(changes: FileChanges, task: Task, evidence: Evidence | None, around: Surroundings | None) -> Scene:
    env = around.env if around is not None else {}
    workdir = around.workdir if around is not None else None
    words = (env.get("PATH") or task.environment.env.get("PATH") or SYSTEM_PATH).split(":")
    folders = tuple(dict.fromkeys(word.rstrip("/") for word in words if word.startswith("/") and word.strip("/")))
    start = (workdir or task.environment.workdir or "").rstrip("/")
    started_in = {start, *(folder.rstrip("/") for folder in entered_folders(task))}
    searched = {folder.rstrip("/") for folder in named_paths(task, env)}
    return Scene(
        changes=tuple(change for change in changes.changes if is_watched(change, folders)),
        task=task,
        evidence=evidence or Evidence(has_opaque_packages=has_packages(changes)),
        words=words_of(task),
        modules=modules_run(task),
        runs_code=runs_code(task),
        folders=tuple(dict.fromkeys(canonical(folder) for folder in folders)),
        by_path={canonical(change.path): change for change in changes.changes},
        workdir=start,
        started_in=frozenset(map(canonical, started_in)),
        searched=frozenset(map(canonical, (searched - {HERE}) | (started_in if HERE in searched else set()))),
    )


def apply(
    verdict: Verdict, findings: Iterable[IntegrityFinding], *, integrity: Literal["enforce", "report"] = "enforce"
) -> Verdict:
    """The verdict with these findings beside its own. A critical one among them all takes a reward above zero away:
    `reward` 0, `is_tampered`, what the tests gave in `raw_reward`. With `report` it is only told."""
    every = tuple(dict.fromkeys((*verdict.findings, *findings)))
    is_critical = any(finding.severity == "critical" for finding in every)
    changed: dict[str, object] = {"findings": every}
    if is_critical and integrity == "enforce" and verdict.reward is not None and verdict.reward > 0:
        changed |= {"reward": 0.0, "raw_reward": verdict.reward, "is_tampered": True}
    return verdict.model_copy(update=changed)


def blamed(fault: GradingFault, findings: Iterable[IntegrityFinding]) -> GradingFault:
    """The fault, as the agent's where a critical finding shows that it broke what the tests need to run."""
    broken = [one.path for one in findings if one.severity == "critical" and one.rule in BREAKING]
    if not broken or fault.reason in ("no_tests", "tests_changed"):
        return fault
    return GradingFault(
        reason="toolchain_broken_by_agent", message=f"{fault.message}; the agent changed {', '.join(broken)}"
    )


def _allowed(finding: IntegrityFinding, task: Task) -> IntegrityFinding:
    if finding.severity == "info" or not _is_allowed(finding.path, task):
        return finding
    return finding.model_copy(update={"severity": "info", "message": f"{finding.message} (the task allows it)"})


def _is_allowed(path: str, task: Task) -> bool:
    return any(fnmatch.fnmatchcase(path, one) for one in task.integrity_allow)


def _not_too_many(findings: Iterable[IntegrityFinding]) -> Iterable[IntegrityFinding]:
    seen: Counter[str] = Counter()
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] <= MOST_PER_RULE:
            yield finding
