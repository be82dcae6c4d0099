"""What the files of a task's tests say of how they are run."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Final

from termarena.grading.parsers import PARSERS
from termarena.grading.rules.tools import OURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from termarena.tasks.files import FileTree
    from termarena.tasks.model import Task, Tests

__all__ = ["HERE", "TEXT_BYTES", "entered_folders", "modules_run", "named_paths", "runs_code", "words_of"]

TEXT_BYTES: Final = 1 << 18
MOST_TEXTS: Final = 200
_WORD: Final = re.compile(r"[\w.+\-\[]+")
# `-m NAME` or `-mNAME` with the flags before it, as a shell or as a list of words has them; few, because each of a long
# row of flags could begin one.
_RUN_BY_NAME: Final = re.compile(
    r"(?<![\w.-])(?P<flags>(-[A-Za-z]+[\s\"',]{1,8}){0,8})-(?P<last>[A-Za-z]{0,8}?)m[\s\"',]{0,8}(?P<module>[A-Za-z_]\w*)"
)
_KEPT_OFF: Final = frozenset("IP")
"""Flags with which Python does not look into the folder that it is started in."""
# Python with code in its words or on its input: `python3 -c …`, `python3 - <<E`, `… | python3`, `sys.executable, "-c"`.
_RUN_AS_CODE: Final = re.compile(
    r"(?:\bpython[\d.]{0,5}|\bsys\.executable)[\"',\s]{0,8}(?P<flags>(?:-[A-Za-z]+[\s\"',]{1,8}){0,8})"
    r"(?:(?<=[\s\"',])-(?P<last>[A-Za-z]{0,8})c(?![\w-])|(?<=[\s\"',])-(?=[\s\"',<;|&)]|$)|<)|"
    r"\|[ \t]{0,8}python[\d.]{0,5}[ \t]{0,8}(?:$|[;&|)])",
    re.MULTILINE,
)
_ENTERED: Final = re.compile(r"\bcd[ \t]{1,8}[\"']?(?P<folder>/[\w./+-]{0,200})|\bcwd=[\"'](?P<named>/[\w./+-]{0,200})")
_SEARCHED: Final = re.compile(
    r"PYTHONPATH=[\"']?(?P<path>[\w./:+${}-]{1,400})|sys\.path\.insert\(0, ?[\"'](?P<first>[\w./+-]{1,200})"
)
HERE: Final = "."


def words_of(task: Task) -> frozenset[str]:
    """Every word in the tests' files, and what laying and starting them takes."""
    words = set(OURS)
    for tests in _suites(task):
        words.update(word for text in _texts(tests.files) for word in _WORD.findall(text))
        words |= {"bash"} if tests.verdict in PARSERS else set()
        words |= {"python3"} if any(file.path.endswith(".py") for file in tests.files.files[:MOST_TEXTS]) else set()
    return frozenset(words)


def modules_run(task: Task) -> frozenset[str]:
    """What Python runs by name, not kept off the folder that it is started in."""
    found = [one for text in _all_texts(task) for one in _RUN_BY_NAME.finditer(text)]
    return frozenset(one["module"] for one in found if _KEPT_OFF.isdisjoint(one["flags"] + one["last"]))


def runs_code(task: Task) -> bool:
    """Whether Python is given code by its words or its input, not kept off the folder that it is started in."""
    found = (one for text in _all_texts(task) for one in _RUN_AS_CODE.finditer(text))
    return any(_KEPT_OFF.isdisjoint((one["flags"] or "") + (one["last"] or "")) for one in found)


def entered_folders(task: Task) -> frozenset[str]:
    """The folders that something is started in, by their absolute paths."""
    found = (one["folder"] or one["named"] for text in _all_texts(task) for one in _ENTERED.finditer(text))
    return frozenset(map(posixpath.normpath, found))


def named_paths(task: Task, env: Mapping[str, str]) -> frozenset[str]:
    """The folders that Python is told to look for modules in, before its own library, by the tests or by the variables
    that they have from the sandbox (`env`) and the task; `.` is wherever it is started."""
    found = [one["path"] or one["first"] for text in _all_texts(task) for one in _SEARCHED.finditer(text)]
    given = (env, task.environment.env, task.grading.env, *(step.grading.env for step in task.steps))
    found += [variables["PYTHONPATH"] for variables in given if variables.get("PYTHONPATH")]
    parts = [part for path in found for part in path.split(":")]
    return frozenset(posixpath.normpath(part) if part.startswith("/") else HERE for part in parts)


def _suites(task: Task) -> tuple[Tests, ...]:
    return tuple(tests for tests in (task.tests, *(step.tests for step in task.steps)) if tests is not None)


def _all_texts(task: Task) -> Iterator[str]:
    for tests in _suites(task):
        yield from _texts(tests.files)


def _texts(files: FileTree) -> Iterator[str]:
    for file in files.files[:MOST_TEXTS]:
        content = file.read(TEXT_BYTES) if file.kind == "file" else b""
        if b"\0" not in content:
            yield content.decode("utf-8", "replace")
