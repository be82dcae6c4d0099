"""Reading and screening recordings: how many a second on all cores, and whether memory stays flat.

Usage: python benchmarks/forge.py [--recordings 400] [--folder FOLDER] [--jobs N] [--sizes N N N] [--json]

Without `--folder` the corpus is made of our own recordings, lengthened to the sizes that public ones have: half of them
under 23 kB, one in twenty over 413 kB, none over 3.4 MB. Measured by the clock and in processor time, in two halves, so
that growth would be seen. Prints a table and one line of JSON; exits 1 if processor time allows less than 30 recordings
a second on one core, and 2 where the parsers are not installed.

With `--sizes` each size is measured in a process of its own, and what the largest took is extrapolated to the 80,870
recordings that TerminalWorld began with: linear, if a recording costs as much in the largest corpus as in the smallest.
`--recordings 80870` does them all: some ten minutes on two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from termarena.core.errors import MissingExtra
from termarena.forge.finding import find_recordings
from termarena.forge.screening import ScreenPlan, screen_files
from termarena.forge.sharding import Where

OWN = Path(__file__).parent.parent / "tests" / "data" / "forge"
MEDIAN_BYTES, SIGMA, LARGEST_BYTES = 23_000, math.log(413 / 23) / 1.645, 3_400_000
WANTED_PER_CORE = 30.0
GROWTH = 1.2
TERMINALWORLD = 80_870
DISTINCT = 5_000
"""Half a gigabyte; each is read and judged as often as it is there."""


class Half(NamedTuple):
    """One half of the corpus, screened."""

    recordings: int
    kept: int
    wall_s: float
    processor_s: float
    peak_mb: float


def make_corpus(folder: Path, count: int) -> None:
    """Recordings of our own, each with what a long build would have printed; beyond the first 5,000, the same again."""
    chance = random.Random(11)  # noqa: S311 - sizes, not secrets
    sources = sorted(OWN.glob("*.cast"))
    for number in range(count):
        path = folder / f"{number:06}.cast"
        if number >= DISTINCT:
            os.link(folder / f"{number % DISTINCT:06}.cast", path)
            continue
        wanted = min(LARGEST_BYTES, int(MEDIAN_BYTES * math.exp(chance.gauss(0, SIGMA))))
        lines = sources[number % len(sources)].read_text().splitlines(keepends=True)
        header, body = json.loads(lines[0]), lines[1:]
        at = 0.0
        if header["version"] == 2:  # noqa: PLR2004 - times count from the beginning there
            at = json.loads(body[-1])[0]
        filling = _filling(at, wanted - sum(map(len, lines)), chance)
        path.write_text("".join([lines[0], *body, *filling]))


def _filling(at: float, size: int, chance: random.Random) -> list[str]:
    """Events of a few lines each, with the colours and redraws of a build."""
    made: list[str] = []
    while size > 0:
        step = chance.randrange(100)
        text = f"\x1b[32m[{step:3}%]\x1b[0m Building object {chance.random():.9f}.o\r\n" * chance.randint(1, 6)
        event = json.dumps([at, "o", text + f"\rchecking {step}\x1b[K\r"]) + "\n"
        made.append(event)
        size -= len(event)
    return made


def screen_half(paths: list[Path], jobs: int) -> Half:
    """Read and screen, and what it took."""
    before, started = _processor_s(), time.monotonic()
    kept = sum(screening.kept for screening in screen_files(paths, ScreenPlan(where=Where(jobs))))
    wall_s, processor_s = time.monotonic() - started, _processor_s() - before
    peaks = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Half(len(paths), kept, wall_s, processor_s, max(peaks))


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def compare_sizes(sizes: list[int], jobs: int) -> int:
    """Measure each size by itself; 1 if a recording costs a fifth more, or memory a fifth more, in the largest."""
    rows = []
    for size in sizes:
        words = [sys.executable, __file__, "--recordings", str(size), "--jobs", str(jobs), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
        if not done.stdout:
            print(done.stderr, file=sys.stderr)
            return done.returncode
        rows.append(json.loads(done.stdout))
    first, last = rows[0], rows[-1]
    growth = first["per_s_per_core"] / last["per_s_per_core"]
    memory = max(last["peak_mb"]) / max(first["peak_mb"])
    minutes = TERMINALWORLD / last["per_s_per_core"] / jobs / 60
    told = {"sizes": rows, "cost_growth": round(growth, 3), "memory_growth": round(memory, 3)}
    print(json.dumps({**told, "minutes_for_80870_on_these_cores": round(minutes, 1)}))
    return 0 if growth < GROWTH and memory < GROWTH else 1


def main() -> int:
    """Measure, tell, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--recordings", type=int, default=400)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="only the line of JSON")
    parser.add_argument("--sizes", type=int, nargs="+", help="several corpora, the smallest first")
    given = parser.parse_args()
    if given.sizes:
        return compare_sizes(given.sizes, given.jobs)
    with tempfile.TemporaryDirectory() as made:
        if given.folder is None:
            make_corpus(Path(made), given.recordings)
        paths = list(find_recordings([given.folder or Path(made)]))
        size_mb = sum(path.stat().st_size for path in paths) / 1e6
        try:
            halves = [screen_half(half, given.jobs) for half in (paths[::2], paths[1::2])]
        except MissingExtra as error:
            print(error.message, file=sys.stderr)
            return 2
    per_core = len(paths) / sum(half.processor_s for half in halves)
    if not given.json:
        for name, half in zip(("first half", "second half"), halves, strict=True):
            rate = half.recordings / half.wall_s
            print(f"{name:12} {half.recordings:6} recordings  {rate:7.1f}/s by the clock  peak {half.peak_mb:6.0f} MB")
        print(f"{size_mb:.0f} MB in all; {per_core:.1f} recordings a second of processor time, {given.jobs} processes")
    figures = {
        "recordings": len(paths),
        "size_mb": round(size_mb, 1),
        "jobs": given.jobs,
        "per_s_wall": round(len(paths) / sum(half.wall_s for half in halves), 1),
        "per_s_per_core": round(per_core, 1),
        "kept": sum(half.kept for half in halves),
        "peak_mb": [round(half.peak_mb) for half in halves],
    }
    print(json.dumps(figures))
    return 0 if per_core >= WANTED_PER_CORE else 1


if __name__ == "__main__":
    sys.exit(main())
