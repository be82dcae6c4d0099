"""What a trial costs: TermArena beside Harbor and Terminal-Bench's `tb`, on one engine, on the same hello-world tasks.

Usage: python benchmarks/trials.py [--base debian:bookworm] [--harbor PROGRAM] [--tb PROGRAM] [--tasks 20]
       [--concurrency 1 4] [--journal] [--out DIR]

The tasks are made in both formats, FROM the image --base, which must be on the engine of DOCKER_HOST and hold a shell;
for `tb`, which types into one, also bash, tmux and asciinema. The agent is `oracle`. The test is a shell's comparison:
no harness waits for a test framework. Every command runs once, start of the program included; each must solve every
task, or its figure is void. Harness CPU is what a command's processes used beyond a command with a quarter of the
trials, per trial, so that its start is not in it, and without what the sandboxes themselves used.

--journal: a run of 100,000 finished trials is written with the run's own code, then a fresh process opens it for
resuming and another makes its report; time and peak memory of both.

Prints the machine, a table, the ratios beside the aims, every command, and JSON. Exits 0 if every aim was met, 1 if one
was missed, 2 if none was missed but some could not be measured.
"""

from __future__ import annotations

import argparse
import compileall
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import termarena

sys.path.insert(0, str(Path(__file__).parent / "beside"))

from hello import write_harbor_tasks, write_terminal_bench_tasks
from long_journal import measure_journal
from peers import Harbor, Harness, Job, Ran, TermArena, TerminalBench, machine_facts, run_measured

WANTED_LIVE, WANTED_AUTO, WANTED_NAMESPACE = 10, 6, 60
WANTED_CPU_MS = 60
WANTED_OPEN_S = 5
WANTED_MEMORY_MB = 512
MORE = 4
"""How many times the trials for the processor time per trial."""


class Options(NamedTuple):
    """The command line."""

    base: str
    harbor: str | None
    tb: str | None
    tasks: int
    concurrency: list[int]
    journal: bool
    out: Path | None


class Figure(NamedTuple):
    """One command."""

    ran: Ran
    solved: int
    """Tasks, by the last attempt at each."""
    tasks: int
    attempts: int
    sandbox_cpu_s: float | None
    """What `ran.cpu_s` holds of the sandboxes' own work; None where nobody knows."""

    @property
    def is_void(self) -> bool:
        """Whether something else was measured than what was meant."""
        return self.solved != self.tasks or self.ran.exit_status != 0


class Aim(NamedTuple):
    """A figure beside what it should be."""

    what: str
    found: float | None
    """None: not measured."""
    wanted: float
    is_floor: bool = True
    unit: str = ""

    @property
    def is_met(self) -> bool | None:
        """None where it was not measured."""
        if self.found is None:
            return None
        return self.found >= self.wanted if self.is_floor else self.found <= self.wanted


class Bench:
    """The commands of one measurement, by name, and what came of each."""

    def __init__(self, options: Options, home: Path) -> None:
        """Make the tasks, and compile the package as an installation of the peers' leaves theirs."""
        compileall.compile_dir(Path(termarena.__file__).parent, quiet=2)
        self._count = options.tasks
        self._home = home
        self._folders = {
            "harbor": write_harbor_tasks(home / "harbor-tasks", options.tasks, options.base),
            "tb": write_terminal_bench_tasks(home / "tb-tasks", options.tasks, options.base),
        }
        self.figures: dict[str, Figure] = {}

    def measure(self, name: str, harness: Harness, form: str, concurrency: int, attempts: int = 1) -> None:
        """Run one command and keep its figure."""
        place = self._home / "runs" / name.replace(" ", "-")
        job = Job(self._folders[form], "oracle", concurrency, place, attempts)
        print(f"== {name}", file=sys.stderr)
        ran = run_measured(harness.command(job), place / "log.txt")
        solved = sum(row.verdict == "solved" for row in harness.rows(job).values())
        sandboxes = harness.sandbox_cpu_s(job) if isinstance(harness, TermArena) else None
        self.figures[name] = Figure(ran, solved, self._count, attempts, sandboxes)

    def wall_s(self, name: str) -> float | None:
        """Wall time, None if it was not measured or is void."""
        figure = self.figures.get(name)
        return None if figure is None or figure.is_void else figure.ran.wall_s

    def ratio(self, slow: str, fast: str) -> float | None:
        """How many times as long one takes as the other."""
        one, other = self.wall_s(slow), self.wall_s(fast)
        return None if one is None or other is None else one / other

    def cpu_ms_per_trial(self, few: str, many: str) -> float | None:
        """Processor time of the harness's own for one trial more."""
        own = [self._own_cpu_s(few), self._own_cpu_s(many)]
        if own[0] is None or own[1] is None:
            return None
        return (own[1] - own[0]) / (self._count * (MORE - 1)) * 1000

    def _own_cpu_s(self, name: str) -> float | None:
        if self.wall_s(name) is None:
            return None
        figure = self.figures[name]
        return None if figure.sandbox_cpu_s is None else figure.ran.cpu_s - figure.sandbox_cpu_s


def peers_of(options: Options) -> list[tuple[str, Harness]]:
    """The other harnesses that are there."""
    found: list[tuple[str, Harness]] = []
    if harbor := options.harbor or shutil.which("harbor"):
        found.append(("harbor", Harbor(harbor)))
    if tb := options.tb or shutil.which("tb"):
        found.append(("tb", TerminalBench(tb)))
    return found


def measure_all(bench: Bench, options: Options) -> None:
    """Every command, ours between the peers', so that a change in the machine's load falls on both."""
    live, auto = TermArena("docker", "live"), TermArena("docker", "auto")
    for concurrency in options.concurrency:
        for form, peer in peers_of(options):
            bench.measure(f"{form} {concurrency}", peer, form, concurrency)
        for form in ("harbor", "tb"):
            bench.measure(f"docker live, {form} {concurrency}", live, form, concurrency)
            bench.measure(f"docker auto, {form} {concurrency}", auto, form, concurrency)
        bench.measure(f"namespace {concurrency}", TermArena("namespace", "auto"), "harbor", concurrency)
    bench.measure("docker live, harbor 1, more", live, "harbor", 1, MORE)
    bench.measure("namespace 1, more", TermArena("namespace", "auto"), "harbor", 1, MORE)


def aims_of(bench: Bench, options: Options) -> list[Aim]:
    """What was wanted beside what was found."""
    aims = []
    for concurrency in options.concurrency:
        for form in ("harbor", "tb"):
            for grading, wanted in (("live", WANTED_LIVE), ("auto", WANTED_AUTO)):
                ours = f"docker {grading}, {form} {concurrency}"
                found = bench.ratio(f"{form} {concurrency}", ours)
                aims.append(Aim(f"{form} {concurrency} / {ours}", found, wanted))
        found = bench.ratio(f"harbor {concurrency}", f"namespace {concurrency}")
        aims.append(Aim(f"harbor {concurrency} / namespace {concurrency}", found, WANTED_NAMESPACE))
    for kind in ("docker live, harbor 1", "namespace 1"):
        found = bench.cpu_ms_per_trial(kind, f"{kind}, more")
        aims.append(Aim(f"harness CPU per trial, {kind}", found, WANTED_CPU_MS, is_floor=False, unit=" ms"))
    return aims


def journal_aims(home: Path) -> list[Aim]:
    """The figures of a long run."""
    found = measure_journal(home)
    aims = []
    for name, cost, wanted_s in (("opening", found.opening, WANTED_OPEN_S), ("report", found.reporting, None)):
        used = "" if cost is None else f" ({cost.wall_s:.1f} s, {cost.cpu_s:.1f} s of processor)"
        what = f"100,000 trials: {name}{used}"
        if wanted_s is not None:
            aims.append(Aim(f"{what}, wall time", cost and cost.wall_s, wanted_s, is_floor=False, unit=" s"))
        aims.append(Aim(f"{what}, memory", cost and cost.peak_mb, WANTED_MEMORY_MB, is_floor=False, unit=" MB"))
    return aims


def show(bench: Bench, aims: list[Aim]) -> None:
    """The tables."""
    print(f"{'command':<34}{'wall':>10}{'a trial':>10}{'processor':>11}{'solved':>9}")
    for name, figure in bench.figures.items():
        each = figure.ran.wall_s / (figure.tasks * figure.attempts)
        void = "   void" if figure.is_void else ""
        print(
            f"{name:<34}{figure.ran.wall_s:>8.2f} s{each:>8.3f} s{figure.ran.cpu_s:>9.2f} s"
            f"{figure.solved:>5}/{figure.tasks}{void}"
        )
    print()
    for aim in aims:
        found = "not measured" if aim.found is None else f"{aim.found:.2f}{aim.unit}"
        word = {True: "met", False: "MISSED", None: ""}[aim.is_met]
        print(f"{aim.what:<72}{found:>14}   {'at least' if aim.is_floor else 'at most'} {aim.wanted}{aim.unit}  {word}")
    print("\ncommands:")
    for name, figure in bench.figures.items():
        print(f"  {name}: {' '.join(figure.ran.command)}")


def read_options() -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="debian:bookworm")
    parser.add_argument("--harbor", help="the program `harbor`; by default the one on the PATH")
    parser.add_argument("--tb", help="the program `tb`; by default the one on the PATH")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--journal", action="store_true")
    parser.add_argument("--out", type=Path, help="keep tasks and results in this folder")
    return Options(**vars(parser.parse_args()))


def main() -> int:
    """Measure and print."""
    options = read_options()
    facts = machine_facts()
    print(json.dumps(facts))
    with tempfile.TemporaryDirectory(prefix="termarena-trials-") as scratch:
        home = (options.out or Path(scratch)).resolve()
        bench = Bench(options, home)
        measure_all(bench, options)
        aims = aims_of(bench, options) + (journal_aims(home / "journal") if options.journal else [])
    show(bench, aims)
    figures = {name: figure._asdict() | {"ran": figure.ran._asdict()} for name, figure in bench.figures.items()}
    verdicts = [aim._asdict() | {"is_met": aim.is_met} for aim in aims]
    print(json.dumps({"schema_version": 1, "kind": "trials", "machine": facts, "figures": figures, "aims": verdicts}))
    met = {aim.is_met for aim in aims}
    return 1 if False in met else 2 if None in met else 0


if __name__ == "__main__":
    sys.exit(main())
