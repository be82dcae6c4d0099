"""Loader for Harbor folders: Terminal-Bench 2 and later, TerminalWorld, and TermArena's own canonical form."""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

from termarena.core.errors import TaskFormatError
from termarena.tasks import harbor_parts as parts
from termarena.tasks.checking import Checker
from termarena.tasks.documents import parse_toml, read_text
from termarena.tasks.files import FileTree, not_content, scan, survey
from termarena.tasks.harbor_schema import KNOWN_SCHEMAS, Extension, TaskToml
from termarena.tasks.markers import HARBOR as MARKER
from termarena.tasks.metadata import metadata_of
from termarena.tasks.model import BareRecipe, Environment, Provenance, Solution, Step, Task, Tests
from termarena.tasks.texts import instruction_of, keystrokes_of

if TYPE_CHECKING:
    from termarena.tasks.harbor_schema import StepSection
    from termarena.tasks.model import AgentPhase, Artifact, Finding, Format, Grading, Metadata

__all__ = ["load_harbor"]

_OWN_NAMES = frozenset({MARKER, "instruction.md", "trajectory.json", "environment", "tests", "solution", "steps"})
_TERMINALWORLD_MARKS = frozenset({"status.json", "refinement_metadata.json"})
_FOLDERS = frozenset({"environment", "tests", "solution", "steps"})
_STEP_PARTS = ("instruction.md", "trajectory.json", "workdir/", "tests/", "solution/")
_PACKAGE = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*")
_STEP_NAME = re.compile(r'[^<>:"/\\|?*\x00-\x1f\x7f]{1,255}')


class _Document(NamedTuple):
    """A checked `task.toml` and what follows from it alone."""

    sections: TaskToml
    ours: Extension
    environment: Environment
    """Without its context."""
    agent: AgentPhase
    grading: Grading
    """As long as the tests bring no image of their own."""
    metadata: Metadata
    artifacts: tuple[Artifact, ...]
    findings: tuple[Finding, ...]
    unknown: dict[str, Any]


_NO_EXTENSION = Extension()
# Large sets are generated, with few different task.toml among them: one of 3,566 tasks has a single one.
_seen: dict[str, _Document] = {}
_MOST_SEEN = 64


def _document(folder: str) -> _Document:
    """Read, parse and check the folder's document. The same text gives the same, immutable parts."""
    file = f"{folder}/{MARKER}"
    text = read_text(file, boundary=folder)
    known = _seen.get(text)
    if known is None:
        known = _checked(text, Checker(file=file, name=MARKER))
        if len(_seen) >= _MOST_SEEN:
            _seen.pop(next(iter(_seen)), None)
        _seen[text] = known
    return known


def _checked(text: str, check: Checker) -> _Document:
    table = parse_toml(text, file=check.file)
    if "version" in table:
        table.setdefault("schema_version", table.pop("version"))
    free = table.get("metadata")
    own = free.get("termarena") if isinstance(free, dict) else None
    sections = check.check(TaskToml, table)
    ours = _NO_EXTENSION if own is None else check.check(Extension, own, prefix="metadata.termarena")
    if sections.task is not None and not _PACKAGE.fullmatch(sections.task.name):
        raise check.refuse("task.name", found=sections.task.name, expected="organisation/name")
    environment = parts.environment(check, sections.environment, FileTree(), names=())
    if sections.schema_version not in KNOWN_SCHEMAS:
        check.note("schema-version", f"unknown schema_version {sections.schema_version!r}", field="schema_version")
    return _Document(
        sections=sections,
        ours=ours,
        environment=environment,
        agent=parts.agent_phase(check, sections.agent, "agent"),
        grading=parts.grading(check, sections.verifier, "verifier", bundled=parts.NOTHING, outer=environment),
        metadata=metadata_of(check, sections),
        artifacts=parts.artifacts(check, sections.artifacts, "artifacts"),
        findings=tuple(check.findings),
        unknown={**check.unknown, **ours.unknown},
    )


def load_harbor(folder: str) -> Task:
    """Load one folder; the rules are those of `load_task`."""
    return _Folder(folder).task()


class _Folder:
    """A folder being loaded: its checked document, and what a survey saw beside it."""

    def __init__(self, folder: str) -> None:
        self.path = folder
        self.known = _document(folder)
        self.document = self.known.sections
        self.ours = self.known.ours
        self.check = Checker(file=f"{folder}/{MARKER}", name=MARKER)
        self.survey = survey(folder, folders=_FOLDERS)

    def task(self) -> Task:
        document, known = self.document, self.known
        environment = self._environment()
        tests = self._bundled("tests")
        grading = known.grading
        if grading.mode == "separate":
            grading = parts.grading(self.check, document.verifier, "verifier", bundled=tests, outer=environment)
        return Task(
            id=self._id(),
            instruction="" if document.steps else instruction_of(f"{self.path}/instruction.md", boundary=self.path),
            environment=environment,
            agent=known.agent,
            grading=grading,
            tests=self._tests(tests, grading, is_needed=not document.steps),
            solution=self._solution("solution"),
            steps=self._steps(environment, grading),
            reward_strategy=document.multi_step_reward_strategy or "mean",
            artifacts=known.artifacts,
            integrity_allow=self.ours.integrity_allow,
            trajectory=self._trajectory(""),
            metadata=known.metadata,
            provenance=self._provenance(),
            extras=self._extras(),
            unknown=known.unknown,
            findings=(*known.findings, *self.check.findings),
        )

    def _id(self) -> str:
        if self.ours.id:
            return self.ours.id
        return self.document.task.name if self.document.task else os.path.basename(self.path)  # noqa: PTH119 - hot path

    def _bundled(self, place: str) -> parts.Bundled:
        """A folder of the task and the names of files at its top; empty if there is no such folder."""
        names = self.survey.names.get(place)
        return parts.NOTHING if names is None else parts.Bundled(self.survey.tree(self.path, place), names)

    def _extras(self) -> FileTree:
        """Every file that no other part of the task holds."""
        rest = self.survey.tree(self.path, skip=_OWN_NAMES | not_content(self.path))
        stray = [name for name in ("instruction.md",) if self.document.steps and name in self.survey.names[""]]
        if not stray and "steps" not in self.survey.names:
            return rest
        steps = tuple(step.name for step in self.document.steps or ())
        taken = tuple(f"steps/{name}/{part}" for name in steps for part in _STEP_PARTS)
        everything = scan(self.path, boundary=self.path, skip=not_content(self.path))
        left = [
            f for f in everything if f.path in stray or (f.path.startswith("steps/") and not f.path.startswith(taken))
        ]
        return FileTree.of([*rest, *left])

    def _trajectory(self, place: str) -> FileTree:
        if "trajectory.json" not in self.survey.names.get(place, ()):
            return FileTree()
        tree = scan(f"{self.path}/{place}", boundary=self.path)
        return FileTree(tuple(file for file in tree if file.path == "trajectory.json"))

    def _provenance(self) -> Provenance:
        names = self.survey.names
        is_terminalworld = not _TERMINALWORLD_MARKS.isdisjoint(names[""]) or "info.json" in names.get("source", ())
        made_as: Format = "terminalworld" if is_terminalworld else "harbor"
        named = self.document.metadata.get("task_source")
        return Provenance(
            format=self.ours.format or made_as,
            path=self.path,
            schema_version=self.document.schema_version,
            source=self.document.source or (named if isinstance(named, str) else None),
        )

    def _environment(self) -> Environment:
        context, names = self._bundled("environment")
        ours = self.ours
        environment = self.known.environment.model_copy(update={"context": context, "compose": parts.compose_in(names)})
        parts.check_buildable(environment, names, self.path)
        if ours.setup is not None and context.get(ours.setup) is None:
            raise self.check.refuse("metadata.termarena.setup", found=ours.setup, expected="a file in environment/")
        if ours.requires is None and not ours.services:
            return environment
        bare = None if ours.requires is None else BareRecipe(requires=ours.requires, setup=ours.setup)
        return environment.model_copy(update={"bare": bare, "services": ours.services})

    def _tests(self, found: parts.Bundled, grading: Grading, *, is_needed: bool, place: str = "tests") -> Tests | None:
        """The tests in a folder; without an entry where the grader's own image, or a step, brings one."""
        ours = self.ours.tests
        tree = found.tree.under(ours.root) if ours.root else found.tree
        names = tuple(file.path for file in tree) if ours.root else found.names
        entry = next((name for name in (ours.entry, "test.bat") if name in names), None)
        own_image = grading.environment is not None
        if entry is None and is_needed and not own_image:
            raise TaskFormatError(
                f"{self.path}/{place}/{ours.entry}", found="no such file", expected="the script that grades"
            )
        if entry is None and (not tree or (grading.environment is not None and grading.environment.context == tree)):
            return None
        return Tests(
            files=tree, entry=entry, verdict=ours.verdict, same_shell=ours.same_shell, toolchain=ours.toolchain
        )

    def _solution(self, place: str) -> Solution | None:
        tree, names = self._bundled(place)
        env = self.document.solution.env
        if not env and place not in self.survey.names:
            return None
        typed = self.ours.keystrokes
        return Solution(
            files=tree,
            entry=next((name for name in ("solve.sh", "solve.bat") if name in names), None),
            keystrokes=keystrokes_of(f"{self.path}/{place}/{typed}", boundary=self.path, check=self.check)
            if typed in names
            else (),
            env=env,
        )

    def _steps(self, outer: Environment, grading: Grading) -> tuple[Step, ...]:
        steps: list[Step] = []
        seen: set[str] = set()
        for number, section in enumerate(self.document.steps or ()):
            place = f"steps.{number}"
            key = unicodedata.normalize("NFC", section.name).casefold()
            if not _STEP_NAME.fullmatch(section.name) or section.name.strip(" .") != section.name or key in seen:
                raise self.check.refuse(
                    f"{place}.name", found=section.name, expected="a unique name that can be a folder's"
                )
            seen.add(key)
            tests = self._bundled(f"steps/{section.name}/tests")
            own = parts.grading(
                self.check, section.verifier, f"{place}.verifier", bundled=tests, outer=outer, above=grading
            )
            phase = parts.agent_phase(self.check, section.agent, f"{place}.agent", above=self.known.agent)
            steps.append(self._step(section, tests, agent=phase, grading=own))
        return tuple(steps)

    def _has_shared_entry(self) -> bool:
        return not {self.ours.tests.entry, "test.bat"}.isdisjoint(self.survey.names.get("tests", ())) or bool(
            self.ours.tests.root
        )

    def _step(self, section: StepSection, tests: parts.Bundled, *, agent: AgentPhase, grading: Grading) -> Step:
        folder = f"steps/{section.name}"
        return Step(
            name=section.name,
            instruction=instruction_of(f"{self.path}/{folder}/instruction.md", boundary=self.path),
            workdir=self._bundled(f"{folder}/workdir").tree,
            tests=self._tests(tests, grading, is_needed=not self._has_shared_entry(), place=f"{folder}/tests"),
            solution=self._solution(f"{folder}/solution"),
            trajectory=self._trajectory(folder),
            agent=agent,
            grading=grading,
            min_reward=section.min_reward,
            healthcheck=section.healthcheck,
            artifacts=parts.artifacts(self.check, section.artifacts, f"steps.{section.name}.artifacts"),
        )
