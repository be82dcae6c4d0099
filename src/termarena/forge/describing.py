"""Which results can be asked for in words: by the command that made each, where its words have an exact meaning."""

from __future__ import annotations

import json
import posixpath
import shlex
from typing import TYPE_CHECKING

from termarena.forge.phrases import PHRASES, Flow, lines_of, printed_by
from termarena.forge.script import solution_script
from termarena.forge.steps import Role, files_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from termarena.forge.bench import Bench
    from termarena.forge.draft import Draft
    from termarena.forge.facts import Fact
    from termarena.forge.steps import Step
    from termarena.sandbox.staging import StartState
    from termarena.shell.lines import Line

__all__ = ["described", "descriptions"]


async def descriptions(bench: Bench, state: StartState, draft: Draft, facts: Sequence[Fact]) -> Mapping[str, str]:
    """For files that the words describe, the words; each was tried: the commands, run again at the end, change nothing.

    A result of what was there on the way, and is not there at the end, would be described wrongly.
    """
    found = described(draft)
    texts = {fact.path: fact for fact in facts if fact.probe == "text" and _is_whole_lines(fact.value)}
    wanted = {path: step for path, (step, _) in found.items() if path in texts}
    if not wanted:
        return {}
    again = "\n".join(f"cd {shlex.quote(step.cwd)}\n{_writing(step)}" for step in wanted.values())
    script = f"{solution_script(draft.steps, draft.workdir)}set +e\n{again}\ntrue\n"
    left = await bench.solve(state, script, tuple(("text", path) for path in wanted))
    same = [path for path in wanted if left.facts.get(json.dumps(["text", path])) == texts[path].value]
    return {path: _sentence(found[path][1]) for path in same}


def _is_whole_lines(value: object) -> bool:
    return isinstance(value, str) and value.endswith("\n")


def _writing(step: Step) -> str:
    return f"{{\n{step.text}\n}} > {shlex.quote(step.answer)}" if step.answer else step.text


def _sentence(flow: Flow) -> str:
    forms = {"number": "as a decimal number with a newline behind it", "lines": "each ended by a newline"}
    form = forms.get(flow.unit)
    return f"{flow.phrase}; {form}, and nothing else" if form else f"exactly {flow.phrase}"


def described(draft: Draft) -> dict[str, tuple[Step, Flow]]:
    """The files that one pipeline alone writes, and what it makes of the files it reads."""
    given = {path for step in draft.steps if step.role is Role.INPUT for path in files_of(step)}
    given |= {file.path for file in draft.inputs}
    found: dict[str, tuple[Step, Flow]] = {}
    touched: set[str] = set()
    for step in draft.steps:
        if step.role not in (Role.SOLVE, Role.ANSWER) or not step.changes:
            continue
        target = _target(step)
        # The paths in the words are seen from the task's own folder.
        flow = _flow(step) if target and step.cwd == draft.workdir else None
        if target and flow and target not in touched | given:
            found[target] = (step, flow)
        for path in [path for path in found if path != target and _may_write(step, path)]:
            del found[path]
        touched.update(files_of(step))
    return found


def _target(step: Step) -> str | None:
    """The one file that the step writes anew."""
    if step.answer is not None:
        return step.answer
    writes = [redirect for redirect in step.line.redirects if redirect.writes]
    last = step.line.simples[-1].bare if step.line.simples else ()
    if not writes and last[:1] == ("tee",) and len(last) == 2:  # noqa: PLR2004 - the program and one file
        return posixpath.normpath(posixpath.join(step.cwd, last[1]))
    if len(writes) != 1 or writes[0].operator not in (">", ">|"):
        return None
    return posixpath.normpath(posixpath.join(step.cwd, writes[0].target))


def _may_write(step: Step, path: str) -> bool:
    return path in files_of(step) or (not step.line.is_pipeline and posixpath.basename(path) in step.text)


def _flow(step: Step) -> Flow | None:
    line = step.line
    if not line.is_pipeline or not all(simple.is_literal and not simple.assignments for simple in line.simples):
        return None
    flow = _fed(line)
    for simple in line.simples:
        words = simple.bare
        if not words:
            return None
        phrase = PHRASES.get(words[0])
        flow = phrase(words[1:], flow) if phrase else printed_by(words, flow)
        if flow is None:
            return None
    return flow if flow is not None and flow.is_ordered else None


def _fed(line: Line) -> Flow | None:
    fed = [redirect.target for redirect in line.redirects if redirect.operator == "<"]
    return lines_of(tuple(fed)) if len(fed) == 1 else None
