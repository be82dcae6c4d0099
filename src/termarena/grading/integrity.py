"""What the agent changed that could bend the grading, and what follows from it."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, Literal

from termarena.grading.contract import GradingFault, IntegrityFinding, Verdict
from termarena.grading.evidence import gather
from termarena.grading.packages import has_packages
from termarena.grading.parsers import PARSERS
from termarena.grading.rules import RULES, Evidence, Scene, check, is_watched
from termarena.grading.rules.rule import SYSTEM_PATH, canonical
from termarena.grading.rules.tools import OURS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from termarena.sandbox.contract import FileChanges, Sandbox
    from termarena.tasks.files import FileTree
    from termarena.tasks.model import Task, Tests

__all__ = ["RULES", "Evidence", "apply", "blamed", "examine", "gather", "inspect"]

MOST_PER_RULE: Final = 25
TEXT_BYTES: Final = 1 << 18
MOST_TEXTS: Final = 200
BREAKING: Final = frozenset(
    {"tool-replaced", "tool-shadowed", "tool-removed", "system-library-changed", "python-library-changed"}
    | {"python-startup", "test-framework-changed", "loader-preload", "python-path-file"}
)
"""Rules whose critical findings explain that tests could not run."""
_ORDER: Final = {"critical": 0, "warning": 1, "info": 2}
_WORD: Final = re.compile(r"[\w.+\-\[]+")
# `-m NAME` or `-mNAME` with the flags before it, as a shell or as a list of words has them; few, because each of a long
# row of flags could begin one.
_RUN_BY_NAME: Final = re.compile(
    r"(?<![\w.-])(?P<flags>(-[A-Za-z]+[\s\"',]{1,8}){0,8})-(?P<last>[A-Za-z]{0,8}?)m[\s\"',]{0,8}(?P<module>[A-Za-z_]\w*)"
)
_KEPT_OFF: Final = frozenset("IP")
"""Flags with which Python does not look into the folder that it is started in."""


async def examine(box: Sandbox, changes: FileChanges, task: Task) -> tuple[IntegrityFinding, ...]:
    """`inspect`, with the evidence read from the box: the agent's, frozen or sealed, or a fork of it."""
    return inspect(changes, task, await gather(box, changes), workdir=box.spec.workdir)


def inspect(
    changes: FileChanges,
    task: Task,
    evidence: Evidence | None = None,
    *,
    path: str | None = None,
    workdir: str | None = None,
) -> tuple[IntegrityFinding, ...]:
    """What the rules find in the agent's changes, the gravest first, at most 25 of each rule.

    Without `evidence` a file is judged by its name, kind and size alone, and nothing is critical that a package manager
    might have done, if one was at work.
    `path` is the grading's PATH where it is not the task's or the usual one, `workdir` where the tests start, which an
    image may say instead of the task. What `task.integrity_allow` names becomes
    an `info`.
    """
    words = (path or task.environment.env.get("PATH") or SYSTEM_PATH).split(":")
    folders = tuple(dict.fromkeys(word.rstrip("/") for word in words if word.startswith("/") and word.strip("/")))
    scene = Scene(
        changes=tuple(change for change in changes.changes if is_watched(change, folders)),
        task=task,
        evidence=evidence or Evidence(has_opaque_packages=has_packages(changes)),
        words=_words(task),
        modules=_modules(task),
        folders=tuple(dict.fromkeys(canonical(folder) for folder in folders)),
        by_path={canonical(change.path): change for change in changes.changes},
        workdir=(workdir or task.environment.workdir or "").rstrip("/"),
    )
    found = sorted((_allowed(one, task) for one in check(scene)), key=lambda one: (_ORDER[one.severity], one.path))
    return tuple(_not_too_many(found))


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
    if finding.severity == "info" or not any(fnmatch.fnmatchcase(finding.path, one) for one in task.integrity_allow):
        return finding
    return finding.model_copy(update={"severity": "info", "message": f"{finding.message} (the task allows it)"})


def _not_too_many(findings: Iterable[IntegrityFinding]) -> Iterable[IntegrityFinding]:
    seen: Counter[str] = Counter()
    for finding in findings:
        seen[finding.rule] += 1
        if seen[finding.rule] <= MOST_PER_RULE:
            yield finding


def _suites(task: Task) -> tuple[Tests, ...]:
    return tuple(tests for tests in (task.tests, *(step.tests for step in task.steps)) if tests is not None)


def _words(task: Task) -> frozenset[str]:
    """Every word in the tests' files, and what laying and starting them takes."""
    words = set(OURS)
    for tests in _suites(task):
        words.update(word for text in _texts(tests.files) for word in _WORD.findall(text))
        words |= {"bash"} if tests.verdict in PARSERS else set()
        words |= {"python3"} if any(file.path.endswith(".py") for file in tests.files.files[:MOST_TEXTS]) else set()
    return frozenset(words)


def _modules(task: Task) -> frozenset[str]:
    """What Python runs by name, not kept off the folder that it is started in."""
    found = [one for tests in _suites(task) for text in _texts(tests.files) for one in _RUN_BY_NAME.finditer(text)]
    return frozenset(one["module"] for one in found if _KEPT_OFF.isdisjoint(one["flags"] + one["last"]))


def _texts(files: FileTree) -> Iterator[str]:
    for file in files.files[:MOST_TEXTS]:
        content = file.read(TEXT_BYTES) if file.kind == "file" else b""
        if b"\0" not in content:
            yield content.decode("utf-8", "replace")
