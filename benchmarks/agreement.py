"""Whether TermArena and the harness that a task was written for come to the same verdicts, and how long each takes.

Usage: python benchmarks/agreement.py TASKS [TASKS …] --out DIR [--harbor PROGRAM] [--tb PROGRAM] [--agents oracle nop]
       [--concurrency 2] [--grading auto] [--driver docker] [--only peer|ours] [--reasons FILE] [--table FILE]

TASKS is a folder of task folders of one format: those with a `task.toml` are run by Harbor, those with a `task.yaml` by
Terminal-Bench's `tb`, and both by `termarena run`, on the engine of DOCKER_HOST, with the same concurrency. Every
command runs once and its results stay under DIR: a command that came to its end there is not run again, so that halves
can be run on different days. A folder to run anew is a folder to delete.

Two verdicts agree if they are the same of `solved`, `unsolved` and `unscored`, and, where both harnesses give a number,
if it is the same number. FILE tells why some differ: JSON, {AGENT: {TASK: SENTENCE}}.

Prints tables, every difference, wall times, loads and the commands; writes DIR/agreement.json, and with `--table` all
verdicts as a table in Markdown. Exits 0 if at least nine in ten agree and every difference has a reason, 1 if not, 2 if
there was nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "beside"))

from peers import Harbor, Harness, Job, Ran, Row, TermArena, TerminalBench, machine_facts, run_measured
from peers.contract import tasks_in

WANTED_SHARE = 0.9
SAME_REWARD = 1e-6
NOTHING = Row("unscored", None, "no result")


class Options(NamedTuple):
    """The command line."""

    tasks: list[Path]
    out: Path
    harbor: str
    tb: str
    agents: list[str]
    concurrency: int
    grading: str
    driver: str
    only: str | None
    reasons: dict[str, dict[str, str]]
    table: Path | None


class Side(NamedTuple):
    """One harness's half of a comparison."""

    harness: str
    ran: Ran
    rows: dict[str, Row]


class Comparison(NamedTuple):
    """One folder and one agent; a side that was not run is None."""

    tasks: list[str]
    folder: Path
    agent: str
    peer: Side | None
    ours: Side | None

    @property
    def is_whole(self) -> bool:
        """Whether there are two sides."""
        return self.peer is not None and self.ours is not None

    def pair(self, task: str) -> tuple[Row, Row]:
        """What the peer says, and what we say."""
        peer = self.peer.rows.get(task, NOTHING) if self.peer else NOTHING
        return peer, self.ours.rows.get(task, NOTHING) if self.ours else NOTHING

    def differing(self) -> list[str]:
        """The tasks on which the two do not agree."""
        return [task for task in self.tasks if not agree(*self.pair(task))]


def agree(one: Row, other: Row) -> bool:
    """The same verdict, and the same number where there are two."""
    if one.verdict != other.verdict:
        return False
    return one.reward is None or other.reward is None or abs(one.reward - other.reward) <= SAME_REWARD


def peer_of(folder: Path, options: Options) -> Harness:
    """Which harness the tasks of a folder were written for."""
    formats = {name for name in ("task.toml", "task.yaml") for path in folder.glob(f"*/{name}") if path.is_file()}
    if len(formats) != 1:
        found = "both formats" if formats else "no task"
        raise SystemExit(f"{folder}: holds {found}; a folder of tasks of one format is needed")
    return Harbor(options.harbor) if formats == {"task.toml"} else TerminalBench(options.tb)


def side_of(harness: Harness, job: Job) -> Side:
    """The results of a job, which is run now if it has not come to its end before."""
    record = job.out / "ran.json"
    if record.is_file():
        ran = Ran(**json.loads(record.read_text()))
        print(f"== {job.out}: results of an earlier run", file=sys.stderr)
    else:
        if job.out.exists():
            raise SystemExit(
                f"{job.out}: results of a run that did not come to its end; delete the folder to run it anew"
            )
        job.out.mkdir(parents=True)
        print(f"== {' '.join(harness.command(job))}", file=sys.stderr)
        ran = run_measured(harness.command(job), job.out / "log.txt")
        record.write_text(json.dumps(ran._asdict()))
    return Side(harness.name, ran, harness.rows(job))


def compare(folder: Path, agent: str, options: Options) -> Comparison:
    """Both halves of one folder and one agent, the peer's first."""
    peer = peer_of(folder, options)
    ours = TermArena(options.driver, options.grading)
    sides: dict[str, Side | None] = {"peer": None, "ours": None}
    for role, harness in (("peer", peer), ("ours", ours)):
        if options.only in (None, role):
            place = (options.out / f"{folder.name}-{agent}" / harness.name).resolve()
            sides[role] = side_of(harness, Job(folder.resolve(), agent, options.concurrency, place))
    return Comparison(tasks_in(folder), folder, agent, sides["peer"], sides["ours"])


def show_side(side: Side | None, tasks: list[str]) -> None:
    """Verdicts, time and command of one half."""
    if side is None:
        print("  (not run)")
        return
    counts = Counter(side.rows.get(task, NOTHING).verdict for task in tasks)
    words = "  ".join(f"{counts[word]:>4} {word}" for word in ("solved", "unsolved", "unscored"))
    load = "" if side.ran.load is None else f"   load {side.ran.load:g}"
    print(f"  {side.harness:<10}{words}   wall {side.ran.wall_s:8.1f} s   processor {side.ran.cpu_s:7.1f} s{load}")
    print(f"    {' '.join(side.ran.command)}  (exit {side.ran.exit_status})")


def show(comparison: Comparison, reasons: dict[str, str]) -> None:
    """One folder and one agent."""
    count = len(comparison.tasks)
    print(f"\n{comparison.folder.name}, {comparison.agent}, {count} tasks")
    show_side(comparison.peer, comparison.tasks)
    show_side(comparison.ours, comparison.tasks)
    if comparison.peer is None or comparison.ours is None:
        return
    differing = comparison.differing()
    ratio = comparison.peer.ran.wall_s / comparison.ours.ran.wall_s
    print(f"  agree on {count - len(differing)} of {count}")
    print(f"  {comparison.peer.harness} takes {ratio:.1f} times as long")
    for task in differing:
        peer, ours = (describe(row) for row in comparison.pair(task))
        print(f"  differs: {task}\n    {comparison.peer.harness}: {peer}\n    termarena: {ours}")
        print(f"    because: {reasons.get(task, 'NO REASON GIVEN')}")


def describe(row: Row) -> str:
    """A row in one line."""
    number = "" if row.reward is None else f" {row.reward:g}"
    return f"{row.verdict}{number}" + (f" ({row.note})" if row.note else "")


def table_of(comparisons: list[Comparison]) -> str:
    """Every task once: what either harness says about each agent, and how long its trial took."""
    agents = list(dict.fromkeys(item.agent for item in comparisons))
    heads = [f"{who} {agent}" for agent in agents for who in ("peer", "TermArena")]
    lines = [f"| task | peer | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for folder in dict.fromkeys(item.folder for item in comparisons):
        mine = {item.agent: item for item in comparisons if item.folder == folder}
        first = next(iter(mine.values()))
        peer = first.peer.harness if first.peer else ""
        for task in first.tasks:
            pairs = [mine[agent].pair(task) if agent in mine else (NOTHING, NOTHING) for agent in agents]
            cells = [_cell(row) for pair in pairs for row in pair]
            lines.append(f"| `{task}` | {peer} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row) -> str:
    number = "" if row.reward is None or row.reward in (0.0, 1.0) else f" {row.reward:.3g}"
    seconds = "" if row.seconds is None else f", {row.seconds:.0f} s"
    return f"{row.verdict}{number}{seconds}"


def record_of(comparisons: list[Comparison], options: Options) -> dict[str, object]:
    """Everything, for programs."""
    rows = [
        {
            "folder": item.folder.name,
            "agent": item.agent,
            "task": task,
            "agree": agree(*item.pair(task)),
            "peer": item.pair(task)[0]._asdict(),
            "ours": item.pair(task)[1]._asdict(),
            "reason": options.reasons.get(item.agent, {}).get(task),
        }
        for item in comparisons
        for task in item.tasks
    ]
    commands = [
        {"folder": item.folder.name, "agent": item.agent, "harness": side.harness, **side.ran._asdict()}
        for item in comparisons
        for side in (item.peer, item.ours)
        if side is not None
    ]
    return {"schema_version": 1, "kind": "agreement", "machine": machine_facts(), "commands": commands, "rows": rows}


def judge(comparisons: list[Comparison], options: Options) -> int:
    """The last lines, and the exit status."""
    whole = [item for item in comparisons if item.is_whole]
    total = sum(len(item.tasks) for item in whole)
    if not total:
        print("\nnothing to compare: one side only" if comparisons else "not measured: no folder of tasks was given")
        return 2
    differing = [(item.agent, task) for item in whole for task in item.differing()]
    unexplained = [task for agent, task in differing if task not in options.reasons.get(agent, {})]
    share = 1 - len(differing) / total
    print(f"\nagreement: {total - len(differing)} of {total} ({share:.1%}; wanted {WANTED_SHARE:.0%})")
    print(f"differences without a reason: {len(unexplained)}")
    return int(share < WANTED_SHARE or bool(unexplained))


def read_options() -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", type=Path, metavar="TASKS")
    parser.add_argument("--out", type=Path, default=Path("agreement"))
    parser.add_argument("--harbor", default="harbor", help="the program `harbor`")
    parser.add_argument("--tb", default="tb", help="the program `tb`")
    parser.add_argument("--agents", nargs="+", default=["oracle", "nop"])
    parser.add_argument("--concurrency", type=int, default=2)
    parser.add_argument("--grading", default="auto")
    parser.add_argument("--driver", default="docker")
    parser.add_argument("--only", choices=["peer", "ours"], help="run one half now, the other another time")
    parser.add_argument("--reasons", type=Path)
    parser.add_argument("--table", type=Path, help="a Markdown file for all verdicts")
    found = vars(parser.parse_args())
    found["reasons"] = json.loads(found["reasons"].read_text()) if found["reasons"] else {}
    return Options(**found)


def main() -> int:
    """Run, print, write."""
    options = read_options()
    comparisons = [compare(folder, agent, options) for folder in options.tasks for agent in options.agents]
    for comparison in comparisons:
        show(comparison, options.reasons.get(comparison.agent, {}))
    if options.table is not None:
        options.table.write_text(table_of(comparisons))
    status = judge(comparisons, options)
    if comparisons:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "agreement.json").write_text(json.dumps(record_of(comparisons, options), indent=1) + "\n")
        print(json.dumps(machine_facts()))
    return status


if __name__ == "__main__":
    sys.exit(main())
