"""Tests whose runner is not there: what they say then is no verdict on anybody's work.

The usual script fetches its runner when it is run, and writes a zero if that did not work. Whether the runner is there
is asked of the sandbox, after the tests have ended.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from termarena.grading.suites import TEXT_BYTES
from termarena.sandbox.bare import filled_in
from termarena.tasks.lint.shell import downloads, statements

if TYPE_CHECKING:
    from termarena.grading.job import GradingJob
    from termarena.sandbox.contract import Sandbox

__all__ = ["absent_runners", "runners_of"]

_RUNNER: Final = re.compile(
    r"(?:^|[;&|(!]|\b(?:then|do|else|if|while|until|exec|time|env|sudo)[ \t])[ \t]*"
    r"(?:\w{1,64}=\S{0,400}[ \t]{1,8}){0,16}"
    r"(?:(?P<program>uvx|uv|pytest|py\.test|tox|nox|nose2|bats)(?![\w./=-])|"
    r"(?P<python>python(?:3(?:\.\d+)?)?)(?:[ \t]+-[A-Za-z]{1,8}){0,8}[ \t]+-[A-Za-z]{0,8}m[ \t]*"
    r"(?P<module>pytest|nose2|tox|nox|behave|robot)(?![\w.-]))"
)
"""Programs, and modules of Python, that run tests and do nothing else, where a command begins."""
_BY_NAME: Final = re.compile(r"[ \t]-[A-Za-z]{0,8}m[ \t]*(?:pytest|nose2|tox|nox|behave|robot)(?![\w.-])")
_ELSEWHERE: Final = re.compile(r"\bactivate\b|\bPATH=|\b\w+_(DIR|HOME|INSTALL)=|\balias\b|-m[ \t]*unittest\b")
"""What leads to a runner that a look at the usual places does not find."""
_OTHER_MODULES: Final = re.compile(r"\bPYTHON(PATH|HOME|USERBASE)=|[ \t](-t|--target|--prefix|--root|--user)\b")
LOOK_S: Final = 20.0
# A folder without modules: Python looks into the one that it is started in.
_IS_ANY_THERE: Final = """
PATH="$PATH:$HOME/.local/bin:$HOME/.cargo/bin:/root/.local/bin"
cd /proc
for runner do
  program=${runner%% *}
  command -v "$program" >/dev/null 2>&1 || continue
  [ "$program" != "$runner" ] || exit 0
  "$program" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "${runner##* }" \
    >/dev/null 2>&1 && exit 0
done
exit 9
"""
NONE_IS: Final = 9


def runners_of(job: GradingJob) -> tuple[str, ...]:
    """Programs, or modules of Python (`python3 -m pytest`), by which a script that fetches something runs its tests;
    none where it is not plain that it is to bring them: nothing is fetched, or the instruction speaks of one."""
    script = job.files.get(job.entry or "")
    if script is None or script.kind != "file":
        return ()
    lines = statements(script.read(TEXT_BYTES).decode("utf-8", "replace"))
    if not downloads(lines) or any(_ELSEWHERE.search(line.text) for line in lines):
        return ()
    found = [one for line in lines for one in _RUNNER.finditer(line.text)]
    modules = [one["module"] for one in found if one["module"]]
    named = sum(len(_BY_NAME.findall(line.text)) for line in lines)
    if named != len(modules) or (modules and any(_OTHER_MODULES.search(line.text) for line in lines)):
        return ()
    told = " ".join((job.task.instruction, *(step.instruction for step in job.task.steps)))
    if any(re.search(rf"\b{re.escape(one['program'] or one['module'])}\b", told) for one in found):
        return ()
    return tuple(dict.fromkeys(one["program"] or f"{one['python']} -m {one['module']}" for one in found))


async def absent_runners(box: Sandbox, job: GradingJob) -> tuple[str, ...]:
    """What the tests are run by, if nothing of it is in the sandbox. Raises what `exec` raises."""
    runners = runners_of(job)
    if not runners:
        return ()
    words = ["/bin/sh", "-c", _IS_ANY_THERE, "sh", *runners]
    env = filled_in(job.grading.env, job.variables)
    done = await box.exec(words, user=job.user, cwd="/", env=env, timeout_s=LOOK_S, max_output_bytes=1 << 12)
    return runners if done.exit_status == NONE_IS else ()
