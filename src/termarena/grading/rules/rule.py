"""What a rule of integrity is, and what it looks at."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from termarena.grading.contract import IntegrityFinding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.contract import Change
    from termarena.tasks.model import Task

__all__ = ["SYSTEM_PATH", "Evidence", "Rule", "Scene", "Severity", "canonical"]

Severity = Literal["critical", "warning", "info"]
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MERGED: Final = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)")
_SITE: Final = re.compile(r".*/(site|dist)-packages/")
_DATABASES: Final = ("/var/lib/dpkg/status", "/usr/lib/apk/db/installed")
_SPEAKS_OF_MODULES: Final = re.compile(r"(?i)\b(modules?|packages?|librar(y|ies)|import(s|ed|able)?)\b")
_PYTHON: Final = re.compile(r"(python|pypy|pytest|unittest|pip|uv|uvx|tox|nox)[\d.]*")


def canonical(path: str) -> str:
    """A path as a system with a merged `/usr` has it: `/bin/sh` and `/usr/bin/sh` are one."""
    return _MERGED.sub(r"/usr/\1", path)


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is looked for. `severity` is the worst that it finds; `docs/grading.md` says when it is less."""

    id: str
    """Stable, in kebab case."""
    severity: Severity
    meaning: str
    """One line for a table."""

    def found(self, path: str, message: str, severity: Severity | None = None) -> IntegrityFinding:
        """A finding of this rule."""
        return IntegrityFinding(rule=self.id, severity=severity or self.severity, path=path, message=message)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read in the sandbox to tell normal work from tampering; empty where nothing could be read."""

    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Suspicious files, by path, whole; larger ones than 64 KiB only where they stand for programs."""
    unread: frozenset[str] = frozenset()
    """Those that are there and were not read: larger, or too many. What they hold is for whoever put them there."""
    packaged: frozenset[str] = frozenset()
    """Canonical paths that a package manager has put there, and that hold what its records say."""
    has_opaque_packages: bool = False
    """The records of a package manager that is not understood here have changed."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that a rule can look at."""

    changes: tuple[Change, ...]
    task: Task
    evidence: Evidence
    words: frozenset[str]
    """Every word in the files of the tests."""
    modules: frozenset[str]
    """Of Python, that the tests run by name (`python3 -m unittest`) with the folder they start in on its path."""
    runs_code: bool
    """Whether the tests give Python code by its words or its input (`python3 -c`), with that folder on its path."""
    folders: tuple[str, ...]
    """Where the grading looks for programs, canonical, in order."""
    by_path: Mapping[str, Change]
    """The changes by canonical path."""
    workdir: str = ""
    """Where the tests start, without a slash at its end; empty where that is / or not known."""
    started_in: frozenset[str] = frozenset()
    """That folder and those that the tests go to."""
    searched: frozenset[str] = frozenset()
    """Folders that the tests have Python look for modules in."""

    def text(self, path: str) -> str | None:
        """A changed file's content; None where it is not known."""
        content = self.evidence.contents.get(path)
        return None if content is None else content.decode("utf-8", "replace")

    def is_unread(self, path: str) -> bool:
        """Whether a file is there that was too large, or one of too many, to be looked at."""
        return path in self.evidence.unread

    def is_packaged(self, path: str) -> bool:
        """Whether a package manager put the file there as it is."""
        return canonical(path) in self.evidence.packaged

    def weighed(self, change: Change, severity: Severity = "critical") -> Severity:
        """How much a change weighs: nothing to speak of from a package manager, less where the instruction names the
        file or where a package manager that is not understood was at work."""
        path = change.path
        if self.is_packaged(path) or (change.change == "removed" and self._is_unpacked(canonical(path))):
            return "info"
        is_asked_for = path in self.task.instruction or any(path in step.instruction for step in self.task.steps)
        return "warning" if severity == "critical" and (is_asked_for or self.evidence.has_opaque_packages) else severity

    def _is_unpacked(self, path: str) -> bool:
        """Whether a package manager was at work where something is missing now; what its records said is gone too."""
        site = _SITE.match(path)
        if site is not None:
            return any(one.startswith(site[0]) and ".dist-info" in one for one in self.by_path)
        return self.had_packages

    @property
    def had_packages(self) -> bool:
        """Whether a package manager of the system was at work."""
        touched = (self.by_path.get(one) for one in _DATABASES)
        return any(change is not None and change.change == "modified" for change in touched)

    def is_named(self, name: str) -> bool:
        """Whether an instruction speaks of a program by this name, in quotes or as the end of a path."""
        named = re.compile(rf"[`'\"/]{re.escape(name)}[`'\"\s]")
        return any(named.search(text) for text in (self.task.instruction, *(s.instruction for s in self.task.steps)))

    def is_asked_for(self, module: str) -> bool:
        """Whether an instruction speaks of a file or a package of this name."""
        texts = (self.task.instruction, *(step.instruction for step in self.task.steps))
        is_file = any(re.search(rf"\b{re.escape(module)}(\.py\b|/)", text) for text in texts)
        return is_file or (self.is_named(module) and any(_SPEAKS_OF_MODULES.search(text) for text in texts))

    @property
    def uses_python(self) -> bool:
        """Whether the tests run Python."""
        return any(_PYTHON.fullmatch(word) for word in self.words)

    @property
    def uses_pytest(self) -> bool:
        """Whether the tests run pytest."""
        return "pytest" in self.words or "py.test" in self.words
