"""A reading of trajectories as one HTML page that needs nothing else: no script, no font, no server."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from termarena.analysis.telling import act_end, headline, phases_told, tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from termarena.analysis.acts import Act, Turn
    from termarena.analysis.reading import Reading, TrialReading
    from termarena.analysis.telling import Table

__all__ = ["as_html"]

SHOWN_STEPS: Final = 8

STYLE: Final = """
:root { color-scheme: light dark; --edge: color-mix(in srgb, currentColor 20%, transparent); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid var(--edge); padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
code, pre { font: .9em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
li > code, .said { white-space: pre-wrap; }
pre { white-space: pre-wrap; margin: .2rem 0; max-height: 16rem; overflow: auto; }
details { border: 1px solid var(--edge); border-radius: .4rem; padding: .4rem .8rem; margin: .4rem 0; }
summary { cursor: pointer; } ol { padding-left: 2.5rem; } li { margin: .3rem 0; }
.solved { color: #15803d; } .unsolved { color: #b91c1c; } .unscored { color: #a16207; }
@media (prefers-color-scheme: dark) {
  .solved { color: #4ade80; } .unsolved { color: #f87171; } .unscored { color: #facc15; }
}
.time { opacity: .7; } .failed { border-left: 3px solid #dc2626; padding-left: .5rem; }
blockquote { border-left: 3px solid var(--edge); margin-left: 0; padding-left: 1rem; white-space: pre-wrap; }
"""


def as_html(reading: Reading, *, prose: str = "") -> str:
    """The whole page. Everything that came from an agent or a task is text in it, never markup."""
    title = f"What the agent did in {', '.join(reading.runs)}"
    body = [
        f"<h1>{escape(title)}</h1><p><strong>{escape(headline(reading))}</strong></p>",
        f"<h2>In a model's words</h2><blockquote>{escape(prose)}</blockquote>" if prose else "",
        *map(_table, tables(reading)),
        "<h2>Trials</h2>",
        *(_trial(number, trial) for number, trial in enumerate(sorted(reading.trials, key=_flawed_first), 1)),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _table(made: Table) -> str:
    if not made.rows:
        return ""
    head = "".join(f"<th>{escape(text)}</th>" for text in made.columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in made.rows)
    said = f"<p>{escape(made.said)}</p>" if made.said else ""
    return f"<h2>{escape(made.title)}</h2>{said}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _flawed_first(trial: TrialReading) -> tuple[bool, str]:
    return not trial.flaws, trial.name


def _trial(number: int, trial: TrialReading) -> str:
    names = ", ".join(dict.fromkeys(flaw.name for flaw in trial.flaws)) or trial.problem or "no flaw"
    outcome = trial.trial.outcome
    summary = f'{escape(trial.name)}: <span class="{outcome}">{outcome}</span>, {escape(names)}'
    flaws = "".join(
        f"<li><strong>{flaw.name}</strong>: {_marked(flaw.sentence)} ({_links(number, flaw.steps)})</li>"
        for flaw in trial.flaws
    )
    phases = escape(phases_told(trial))
    anchors = _Anchors(number)
    steps = "".join(item for turn in trial.turns for item in _turn(anchors, turn))
    return (
        f"<details><summary>{summary}</summary>{f'<ul>{flaws}</ul>' if flaws else ''}"
        f"{f'<p class=time>{phases}</p>' if phases else ''}<ol>{steps}</ol></details>"
    )


def _marked(sentence: str) -> str:
    """Commands stand between backticks in a sentence of ours."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(sentence))


def _links(number: int, steps: Sequence[int]) -> str:
    """Steps that lead to their place in the timeline."""
    shown = ", ".join(f'<a href="#t{number}s{step}">{step}</a>' for step in steps[:SHOWN_STEPS])
    return f"step{'' if len(steps) == 1 else 's'} {shown}{' …' if len(steps) > SHOWN_STEPS else ''}"


class _Anchors:
    """Where links lead to: the first line of each step of one trial."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._placed: set[int] = set()

    def at(self, step_id: int) -> str:
        if step_id in self._placed:
            return ""
        self._placed.add(step_id)
        return f' id="t{self._number}s{step_id}"'


def _turn(anchors: _Anchors, turn: Turn) -> Iterator[str]:
    if turn.said or turn.input_tokens or not turn.acts:
        used = (
            f" <span class=time>{turn.input_tokens:,} + {turn.output_tokens:,} tokens</span>"
            if turn.input_tokens
            else ""
        )
        said = f"<span class=said>{escape(turn.said.strip()) or '(no words)'}</span>"
        yield f"<li{anchors.at(turn.step_id)}>{_time(turn.at_s, turn.step_id)} {said}{used}</li>"
    for act in turn.acts:
        yield _act(anchors, act)


def _act(anchors: _Anchors, act: Act) -> str:
    output = f"<pre>{escape(act.output)}</pre>" if act.output.strip() else ""
    mark = " class=failed" if act.is_error else ""
    done = f"<code>{escape(act.text)}</code> → {escape(act_end(act))}"
    return f"<li{anchors.at(act.step_id)}{mark}>{_time(act.at_s, act.step_id)} {done}{output}</li>"


def _time(at_s: float | None, step_id: int) -> str:
    told = f"step {step_id}" if at_s is None else f"+{at_s:.1f} s, step {step_id}"
    return f"<span class=time>{told}</span>"
