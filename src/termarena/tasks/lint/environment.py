"""The environment: whether its Dockerfile can be built, and what it puts within the agent's reach."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from termarena.tasks.dockerfile import KNOWN
from termarena.tasks.lint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.dockerfile import Copy
    from termarena.tasks.lint.rule import Severity
    from termarena.tasks.lint.view import Recipe, Source, View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check"]

TESTS_IN_IMAGE = Rule(
    "tests-in-image",
    "error",
    "the Dockerfile copies the tests into the agent's image",
    "remove the COPY: tests enter after the agent's work",
)
SOLUTION_IN_IMAGE = Rule(
    "solution-in-image", "error", "the Dockerfile copies the solution into the agent's image", "remove the COPY"
)
HARNESS_PATH = Rule(
    "harness-path-in-image",
    "warning",
    "the image has files in /tests or /solution",
    "use another folder: harnesses lay their own files there",
)
MISSING_COPY_SOURCE = Rule(
    "missing-copy-source",
    "error",
    "COPY names a file that is not in the build context",
    "add the file, or correct the path",
)
DOCKERFILE_SYNTAX = Rule("dockerfile-syntax", "error", "a Dockerfile that cannot be built", "correct the line")
USER_MISMATCH = Rule(
    "user-mismatch",
    "warning",
    "the Dockerfile ends with another USER than [agent] names",
    "use the same user in both",
)
RULES = (TESTS_IN_IMAGE, SOLUTION_IN_IMAGE, HARNESS_PATH, MISSING_COPY_SOURCE, DOCKERFILE_SYNTAX, USER_MISMATCH)

_REMOTE = re.compile(r"(?:https?|ftp|git|ssh)://|git@")


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    for recipe in view.recipes:
        yield from _syntax(recipe)
        yield from _hidden(view, recipe)
        if recipe.is_main:
            yield from _sources(view, recipe)
    yield from _user(view)


def _syntax(recipe: Recipe) -> Iterator[Finding]:
    instructions = recipe.parsed.instructions
    for number, instruction in enumerate(instructions):
        if instruction.name not in KNOWN:
            before = instructions[number - 1] if number else None
            hint = "BuildKit reads `<<EOF`, not `<< EOF`" if before and re.search(r"<<-?[ \t]", before.value) else None
            message = f"{instruction.name[:40]} is not an instruction"
            yield DOCKERFILE_SYNTAX.found(recipe.source.name, message, line=instruction.line, hint=hint)
            return
        for heredoc in instruction.heredocs:
            if not heredoc.is_closed and recipe.source.is_whole:
                message = f"the here-document {heredoc.name[:40]} is never closed"
                yield DOCKERFILE_SYNTAX.found(recipe.source.name, message, line=instruction.line)
    if instructions and not recipe.parsed.stages:
        yield DOCKERFILE_SYNTAX.found(recipe.source.name, "there is no FROM", line=1)


def _hidden(view: View, recipe: Recipe) -> Iterator[Finding]:
    """Tests and solutions that end up in the image."""
    for stage in recipe.parsed.image_stages:
        for copy in stage.copies():
            if copy.is_from_context:
                yield from _hidden_copy(view, recipe, copy)


def _hidden_copy(view: View, recipe: Recipe, copy: Copy) -> Iterator[Finding]:
    file, line = recipe.source.name, copy.instruction.line
    shown = f"`{copy.instruction.name} {' '.join(copy.sources)[:120]} {copy.destination[:80]}`"
    for written in copy.sources:
        source = _plain(written)
        if source == "." and view.document == "task.yaml" and recipe.is_main:
            message = f"{shown} takes the whole folder: `tb` would copy tests and solution too, here they are left out"
            yield TESTS_IN_IMAGE.found(file, message, line=line, severity="warning", hint="copy the files by name")
            return
        taken = _hidden_files(view, recipe, source)
        if taken is not None:
            severity: Severity | None = None if taken.is_decisive else "warning"
            yield taken.rule.found(
                file, f"{shown}: the agent will find {taken.name} there", line=line, severity=severity
            )
            return
    first = copy.destination.strip("/").split("/")[0]
    if copy.destination.startswith("/") and first in ("tests", "solution") and copy.sources:
        yield HARNESS_PATH.found(file, f"{shown} fills /{first}, where a harness lays its own files", line=line)


class _Taken(NamedTuple):
    """A hidden file that a COPY takes. It is decisive if it grades or solves; a helper kept beside the tests is not."""

    rule: Rule
    name: str
    is_decisive: bool


def _hidden_files(view: View, recipe: Recipe, source: str) -> _Taken | None:
    """What a source takes out of tests or solution. In environment/, a folder tests/ may be the project's own."""
    source = source.removeprefix("../")
    if source.split("/", 1)[0] not in view.hidden_roots:
        return None
    has_own_context = view.document == "task.toml"
    found = None
    for one in view.hidden:
        path = one.path if has_own_context else one.source.name
        if path != source and not path.startswith(source + "/"):
            continue
        rule = SOLUTION_IN_IMAGE if one.is_solution else TESTS_IN_IMAGE
        if one.is_solution or one.source in view.graders:
            if not has_own_context or _is_planted(recipe, source, one.source):
                return _Taken(rule, one.source.name, is_decisive=True)
        elif not has_own_context:
            found = found or _Taken(rule, one.source.name, is_decisive=False)
    return found


def _is_planted(recipe: Recipe, source: str, hidden: Source) -> bool:
    """Whether the hidden file, or one by its name, is what this source names in a context of its own."""
    name = posixpath.basename(hidden.file.path)
    below = [file.path for file in recipe.context if file.path == source or file.path.startswith(source + "/")]
    return not below or any(posixpath.basename(path) == name for path in below)


def _sources(view: View, recipe: Recipe) -> Iterator[Finding]:
    for stage in recipe.parsed.stages:
        for copy in stage.copies():
            if not copy.is_from_context or copy.instruction.is_onbuild:
                continue
            for written in copy.sources:
                if "$" in written or _REMOTE.match(written) or _hidden_files(view, recipe, _plain(written)):
                    continue
                if not _exists(view, _plain(written)):
                    message = f"{written[:200]} is not in the build context"
                    yield MISSING_COPY_SOURCE.found(recipe.source.name, message, line=copy.instruction.line)


def _plain(written: str) -> str:
    """A source as a path in the context: Docker drops leading slashes."""
    return posixpath.normpath(written.lstrip("/") or ".")


def _exists(view: View, source: str) -> bool:
    if source == "." or source in view.context_paths:
        return True
    pattern = source.split("/")
    is_pattern = any(mark in source for mark in "*?[")
    return is_pattern and any(_matches(file.path.split("/"), pattern) for file in view.task.environment.context)


def _matches(path: list[str], pattern: list[str]) -> bool:
    """Part by part, as Docker does; what lies below a folder that matches is copied too."""
    return len(path) >= len(pattern) and all(map(fnmatch.fnmatchcase, path, pattern))


def _user(view: View) -> Iterator[Finding]:
    wanted = view.task.agent.user
    recipe = next((one for one in view.recipes if one.is_main and one.parsed.stages), None)
    if wanted is None or recipe is None:
        return
    stages = recipe.parsed.image_stages
    last = next((found for stage in reversed(stages) if (found := stage.last("USER"))), None)
    if last is None or "$" in last.value:
        return
    user = last.value.split(":")[0].strip("\"' ")
    if {user, str(wanted)} not in ({"root", "0"}, {user}):
        message = f"the image ends as {user[:40]}, but the agent is to work as {wanted}"
        yield USER_MISMATCH.found(recipe.source.name, message, line=last.line)
