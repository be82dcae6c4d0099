"""The card of a set: what is in it, where each task comes from, what it may be used under, how to have one removed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from termarena.core.markdown import code, plain, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.forge.exporting import Lineage

__all__ = ["card"]

_HEAD: Final = """\
---
pretty_name: {name}
task_categories: [other]
tags: [terminal, agents, benchmark, harbor]
license: other
license_name: per-task
---

# {title}

{count} tasks in Harbor's layout, made of terminal recordings by TermArena's forge: `termarena run --path .`

Each was admitted by trials: the whole solution passes every test each time (AllPassing), doing nothing fails every
single test (Nop), and solutions with a part missing or wrong fail at least one (Partial). {verified} of them were
looked at and accepted by people.

No recording is part of this set: a task holds its own instruction, solution, environment and tests. Private values were
replaced before anything was made.

## Licences

{licences}

A task is derived from its recording: what the recording's licence asks for holds for the task. *unknown* means that
nobody has told; such tasks hold at most {longest} characters of their recording in a row.

## To have a task removed

If you made one of these recordings and do not want a task made of it, tell whoever gave you this set;
`termarena forge takedown ADDRESS` removes it and everything made of it, and keeps it from coming back. `lineage.json`
has the recording's digest beside its address.

## What is in it

{categories}

## Lineage

{lineage}
"""


def card(name: str, tasks: Sequence[Lineage]) -> str:
    """The card in Markdown, with the front matter that hubs read."""
    licences = Counter(one.licence or "unknown" for one in tasks)
    categories = Counter((one.category, one.terminalworld_category) for one in tasks)
    unlicensed = [one.longest_span for one in tasks if one.licence is None]
    return _HEAD.format(
        name=name,
        title=plain(name),
        count=len(tasks),
        verified=sum(bool(one.verified_by) for one in tasks),
        longest=max(unlicensed, default=0),
        licences=table(("licence of the recording", "tasks"), [(plain(k), str(v)) for k, v in licences.most_common()]),
        categories=table(
            ("category", "TerminalWorld's", "tasks"),
            [(plain(ours), plain(theirs), str(count)) for (ours, theirs), count in categories.most_common()],
        ),
        lineage=table(
            ("task", "recording", "licence", "fidelity", "mutation score"),
            [(_code(one.task), _link(one), plain(one.licence or "unknown"), *_figures(one)) for one in tasks],
        ),
    )


def _code(text: str) -> str:
    """A name as code."""
    return f"`{code(text)}`"


def _link(one: Lineage) -> str:
    if "://" not in one.source:
        return plain(one.source)
    # What could end the link is written as Markdown cannot read it.
    target = quote(one.source, safe=":/?#@!$&'*+,;=%~")
    return f"[{plain(one.title or one.source)}]({target})"


def _figures(one: Lineage) -> tuple[str, str]:
    return tuple("" if value is None else f"{value:.2f}" for value in (one.fidelity, one.mutation_score))  # type: ignore[return-value]  # of two
