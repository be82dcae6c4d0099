"""Files: what is missing, what a shell or an editor would stumble over, what should not be there."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from termarena.tasks.lint.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks.files import FileTree
    from termarena.tasks.lint.view import Source, View
    from termarena.tasks.model import Finding

__all__ = ["RULES", "check", "unreadable"]

MISSING_SOLUTION = Rule(
    "missing-solution",
    "warning",
    "no reference solution",
    "add solution/solve.sh: without it nobody can show that the task can be solved",
)
EMPTY_TESTS = Rule(
    "empty-tests",
    "error",
    "the script that grades holds no command",
    "write the tests; an empty script cannot give a verdict",
)
MISSING_SHEBANG = Rule(
    "missing-shebang",
    "warning",
    "a script that is executed directly does not name its interpreter",
    "begin the file with #!/bin/bash or #!/bin/sh",
)
NOT_EXECUTABLE = Rule(
    "not-executable", "info", "a script that is executed directly lacks the executable bit", "chmod +x it"
)
CRLF = Rule("crlf-line-endings", "error", "a script with Windows line endings", "convert it to LF line endings")
CR_AFTER_BACKSLASH = Rule(
    "cr-after-backslash",
    "error",
    "a backslash before a CR does not continue the line",
    "convert the file to LF line endings",
)
BYTE_ORDER_MARK = Rule(
    "byte-order-mark",
    "error",
    "a script that begins with a byte order mark",
    "save it as UTF-8 without a byte order mark",
)
NOT_UTF8 = Rule(
    "not-utf-8", "warning", "a script that is not UTF-8", "save it as UTF-8; put binary data in a file of its own"
)
MERGE_CONFLICT = Rule("merge-conflict", "error", "a script with the marks of an unfinished merge", "finish the merge")
LARGE_FILE = Rule(
    "large-file",
    "warning",
    "a file of more than 50 MB",
    "generate it in the Dockerfile, or fetch it there with a checksum",
)
JUNK_FILE = Rule("junk-file", "info", "a file that an editor or a tool left behind", "delete it")
DANGLING_LINK = Rule(
    "dangling-link", "warning", "a symbolic link to nothing", "add the file it points to, or remove the link"
)
EMPTY_DOCKERFILE = Rule(
    "empty-dockerfile", "error", "a Dockerfile without instructions", "write it, or set docker_image in [environment]"
)
UNREADABLE = Rule("unreadable-file", "error", "a file that cannot be read", "check its owner and mode")
RULES = (
    MISSING_SOLUTION,
    EMPTY_TESTS,
    MISSING_SHEBANG,
    NOT_EXECUTABLE,
    CRLF,
    CR_AFTER_BACKSLASH,
    BYTE_ORDER_MARK,
    NOT_UTF8,
    MERGE_CONFLICT,
    LARGE_FILE,
    JUNK_FILE,
    DANGLING_LINK,
    EMPTY_DOCKERFILE,
    UNREADABLE,
)

LARGE_BYTES = 50 << 20
BOM = b"\xef\xbb\xbf"
_JUNK = re.compile(
    r"(?:^|/)(?:\.pytest_cache|\.mypy_cache|\.ruff_cache|\.idea|\.vscode|\.ipynb_checkpoints|Thumbs\.db|desktop\.ini|\.\w[^/]*\.sw[op]"
    r"|[^/]+~|[^/]+\.(?:orig|rej|pyc|bak\.\d+))(?:/|$)"
)
_CODING = re.compile(rb"^[ \t\f]*#[^\n]{0,200}?coding[:=][ \t]*[-\w.]", re.MULTILINE)
_EXECUTED = re.compile(r"(?:^|[;&|(]|\b(?:then|do|else|exec|if)\b)[ \t]*[\"']?(?:/(?:tests|solution)|\.)/([\w./-]+)")


def check(view: View) -> Iterator[Finding]:
    """The rules of this family."""
    yield from _solution(view)
    for suite in view.suites:
        if not suite.entry.statements and suite.entry.file.path.endswith(".sh") and not suite.entry.problem:
            yield EMPTY_TESTS.found(suite.entry.name, "there is no command in the script that grades")
    yield from _scripts(view)
    yield from _executed(view)
    yield from _trees(view)
    for recipe in view.recipes:
        if recipe.source.file.path == "Dockerfile" and not recipe.parsed.instructions and not recipe.source.problem:
            yield EMPTY_DOCKERFILE.found(recipe.source.name, "there is no instruction in it")


def unreadable(view: View) -> Iterator[Finding]:
    """What could not be read by any rule; to be asked when all of them are done."""
    for source in view.sources():
        if source.problem:
            yield UNREADABLE.found(source.name, f"it cannot be read: {source.problem}")


def _solution(view: View) -> Iterator[Finding]:
    task = view.task
    if task.steps:
        for step in task.steps:
            if step.solution is None and task.solution is None:
                yield MISSING_SOLUTION.found(f"steps/{step.name}/solution", "this step has no reference solution")
        return
    if task.solution is None or (task.solution.entry is None and not task.solution.keystrokes):
        missing = {"task.yaml": "solution.sh", "metadata.json": "solution.sh"}.get(view.document, "solution/solve.sh")
        yield MISSING_SOLUTION.found(missing, "there is no reference solution")


def _scripts(view: View) -> Iterator[Finding]:
    """Encodings and line endings of what a shell or Python will read: tests, solutions, what builds the image."""
    for source in view.test_texts:
        yield from _script(source)
    for _, sources in view.solutions:
        for source in sources:
            if source.is_shell or source.is_python:
                yield from _script(source)
    used = "\n".join(recipe.source.text for recipe in view.recipes)
    for source in view.environment:
        name = posixpath.basename(source.file.path)
        if source.is_shell and (name in used or source.file.path == getattr(view.task.environment.bare, "setup", None)):
            yield from _script(source, is_built=True)


def _script(source: Source, *, is_built: bool = False) -> Iterator[Finding]:
    raw = source.raw
    if raw.startswith(BOM) and source.is_shell:
        yield BYTE_ORDER_MARK.found(source.name, "it begins with a byte order mark, which hides the `#!`", line=1)
    if b"\r\n" in raw and source.is_shell:
        yield from _line_endings(source, is_built=is_built)
    if b"\n<<<<<<< " in raw and b"\n>>>>>>> " in raw and source.is_shell:
        yield from _conflict(source)
    if (
        not raw.isascii()
        and source.is_whole
        and not is_built
        and (b"coding" not in raw or not _CODING.search(raw[:400]))
    ):
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            yield NOT_UTF8.found(source.name, f"byte 0x{raw[error.start]:02x} is not UTF-8", line=line)


def _conflict(source: Source) -> Iterator[Finding]:
    marks = [one for one in source.statements if one.text.startswith(("<<<<<<< ", ">>>>>>> "))]
    if marks:
        yield MERGE_CONFLICT.found(source.name, f"`{marks[0].text[:40]}` is no command", line=marks[0].line)


def _line_endings(source: Source, *, is_built: bool) -> Iterator[Finding]:
    raw = source.raw
    count = raw.count(b"\r\n")
    line = raw.count(b"\n", 0, raw.index(b"\r\n")) + 1
    # A script of the environment may be broken on purpose: mending it is the task.
    severity = "warning" if is_built else CRLF.severity
    yield CRLF.found(
        source.name,
        f"{count} lines end in CR LF, which a shell reads as part of the command",
        line=line,
        severity=severity,
    )
    if (place := raw.find(b"\\\r\n")) >= 0:
        line = raw.count(b"\n", 0, place) + 1
        yield CR_AFTER_BACKSLASH.found(
            source.name, "the backslash escapes the CR, so the command ends here", line=line, severity=severity
        )


def _executed(view: View) -> Iterator[Finding]:
    """Scripts that a harness or another script executes by their path."""
    if view.document != "task.toml":
        return
    for suite in view.suites:
        yield from _direct(suite.entry, suite.sources)
    for solution, sources in view.solutions:
        entry = next((source for source in sources if source.file.path == solution.entry), None)
        if entry is not None:
            yield from _direct(entry, sources)


def _direct(entry: Source, sources: tuple[Source, ...]) -> Iterator[Finding]:
    if not entry.is_shell:
        return
    if entry.statements and not entry.raw.removeprefix(BOM).startswith(b"#!"):
        yield MISSING_SHEBANG.found(entry.name, "the first line does not name an interpreter", line=1)
    if not entry.file.executable:
        yield NOT_EXECUTABLE.found(entry.name, "the executable bit is not set; harnesses set it, a shell does not")
    by_path = {source.file.path: source for source in sources}
    for statement in entry.statements:
        match = _EXECUTED.search(statement.text) if "/" in statement.text else None
        called = by_path.get(match[1]) if match else None
        if called is not None and not called.file.executable and "chmod" not in entry.text:
            message = f"{entry.name} executes it in line {statement.line}, but its executable bit is not set"
            yield NOT_EXECUTABLE.found(called.name, message, severity="warning")


def _trees(view: View) -> Iterator[Finding]:
    task = view.task
    trees = [("environment/", task.environment.context), ("", task.extras)]
    trees += [("tests/", suite.tests.files) for suite in view.suites]
    trees += [("solution/", solution.files) for solution, _ in view.solutions]
    for folder, tree in trees:
        yield from _tree(folder, tree)


def _tree(folder: str, tree: FileTree) -> Iterator[Finding]:
    links = [file for file in tree if file.kind == "link"]
    for file in tree:
        if file.size_bytes > LARGE_BYTES:
            yield LARGE_FILE.found(folder + file.path, f"it has {file.size_bytes / (1 << 20):.0f} MB")
        if folder != "environment/" and _JUNK.search(file.path):
            yield JUNK_FILE.found(folder + file.path, "a tool or an editor left it behind")
    if links:
        there = {part for file in tree for part in _with_parents(file.path)}
        linked = {file.path for file in links}
        for file in links:
            place = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), file.target))
            if place != "." and place not in there and linked.isdisjoint(_with_parents(place)):
                yield DANGLING_LINK.found(folder + file.path, f"it points to {file.target}, which is not there")


def _with_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
