"""The arena with many trials: how fast runs are taken in, how long pages take while twenty people read, how late two
hundred people see what happens in a battle, and what a recording of 50 MB takes.

Usage: python benchmarks/arena.py [--runs 2000] [--seconds 30] [--viewers 200] [--db FILE] [--alone] [--json]

Every run has 100 tasks and 5 attempts at each; 100 runs share a dataset, and 20 agents made 5 runs each of them. Run
folders are made, taken in and removed one after the other; then a server in a process of its own answers twenty
readers, each of whom asks for a page once a second, whether or not the last one has come (an open loop): leaderboards
and pages of runs in turn. A latency counts from the moment at which the request was due. Then viewers, each with a
stream of its own, watch one battle of which fifty things a second are told; how late one is seen counts from when it
was told, and includes that the database is asked every 0.4 s.

`--db` keeps the database: one that has runs already is filled up to `--runs`, and what is told of taking in is of the
runs that were missing.

Prints a table, then one line of JSON (`--json`: that alone). Exits 1 where what does not depend on other programs is
missed: trials taken in per second of processor time, processor time of a page, size of a page, events that a viewer
did not get. Latencies are told with the load beside them; with `--alone`, on a machine that does nothing else, they and
the trials per second by the clock count too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

try:
    import httpx
    from sqlalchemy import func, select

    from termarena.arena import battling
    from termarena.arena.database import Database
    from termarena.arena.ingest import take_in
    from termarena.arena.schema import Contender, Run
    from termarena.arena.standings import refresh_standings
except ModuleNotFoundError as missing:
    sys.stderr.write(f"{missing.name} is not installed: pip install 'termarena[arena,fetch]'\n")
    sys.exit(2)

from termarena.runs.journal import now
from termarena.runs.segments import cut_recording

sys.path.insert(0, str(Path(__file__).parent / "beside"))
from arena_runs import ATTEMPTS, TASKS, make_run, serving

READERS = 20
PAGES = 200
WARM_UP_S = 2
WANTED = {
    "trials_per_s": 1_000,
    "trials_per_cpu_s": 1_000,
    "median_s": 0.1,
    "p99_s": 0.3,
    "failed": 0,
    "page_cpu_s": 0.05,
    "largest_page_bytes": 200_000,
    "events_lost": 0,
}
AT_LEAST = ("trials_per_s", "trials_per_cpu_s")
STEADY = ("trials_per_cpu_s", "failed", "page_cpu_s", "largest_page_bytes", "events_lost")
CLOCK = ("trials_per_s", "median_s", "p99_s")
TOLD_AT_ONCE, TOLD_EVERY_S = 5, 0.1
CAST_BYTES = 50 << 20
TOLD_EVERY_RUNS = 100
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Answer:
    """One page."""

    latency_s: float
    size_bytes: int
    is_whole: bool


def fill(database: Database, runs: int) -> dict[str, float]:
    """Take in the runs that are missing; the seconds are those of taking in alone."""
    wall_s, cpu_s = 0.0, 0.0
    with database.reading() as session:
        first = session.scalar(select(func.count()).select_from(Run)) or 0
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as place:
        for number in range(first, runs):
            folder = make_run(Path(place), number, random.Random(number))  # noqa: S311 - no secret
            wall, cpu = time.perf_counter(), time.process_time()
            take_in(database, folder)
            wall_s, cpu_s = wall_s + time.perf_counter() - wall, cpu_s + time.process_time() - cpu
            shutil.rmtree(folder.path)
            if number % TOLD_EVERY_RUNS == 0:
                print(f"{number} of {runs} runs", file=sys.stderr)
    wall, cpu = time.perf_counter(), time.process_time()
    boards = refresh_standings(database)
    found = {"trials": float(max(first, runs) * TASKS * ATTEMPTS)}
    if first < runs:
        taken = (runs - first) * TASKS * ATTEMPTS
        found |= {"trials_per_s": taken / wall_s, "trials_per_cpu_s": taken / cpu_s}
    if boards:
        found["leaderboard_s"] = (time.perf_counter() - wall) / boards
        found["leaderboard_cpu_s"] = (time.process_time() - cpu) / boards
    return found


async def read(url: str, paths: list[str], seconds: int) -> list[Answer]:
    """Every reader, once a second, beginning at different moments."""
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        asked: list[asyncio.Task[Answer]] = []
        begin = time.perf_counter()
        for number in range(READERS * seconds):
            due = begin + number / READERS
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            asked.append(asyncio.create_task(_ask(client, paths[number % len(paths)], due)))
        return await asyncio.gather(*asked)


async def _ask(client: httpx.AsyncClient, path: str, due: float) -> Answer:
    answer = await client.get(path)
    return Answer(time.perf_counter() - due, len(answer.content), answer.status_code == httpx.codes.OK)


def serve_and_read(db: Path, slugs: list[str], seconds: int) -> dict[str, float]:
    """A server over the database, and its readers."""
    with serving(db) as (url, pid):
        paths = _paths(url, slugs)
        asyncio.run(read(url, paths, WARM_UP_S))
        before = _cpu_s(pid)
        answers = asyncio.run(read(url, paths, seconds))
        cpu_s = _cpu_s(pid) - before
    latencies = sorted(answer.latency_s for answer in answers)
    return {
        "requests": len(answers),
        "failed": sum(not answer.is_whole for answer in answers),
        "median_s": statistics.median(latencies),
        "p99_s": latencies[int(len(latencies) * 0.99) - 1],
        "page_cpu_s": cpu_s / len(answers),
        "largest_page_bytes": max(answer.size_bytes for answer in answers),
    }


def serve_and_watch(db: Path, viewers: int, seconds: int) -> dict[str, float]:
    """One battle, and everyone who watches it."""
    database = Database(f"sqlite:///{db}")
    _queue_battle(database)
    claimed = battling.claim(database, "bench", lease_s=3600, has_referee=True)
    assert claimed is not None  # noqa: S101 - it was queued
    with serving(db) as (url, pid):
        _answering(url)
        before = _cpu_s(pid)
        lags = asyncio.run(_watched(url, database, claimed, viewers=viewers, seconds=seconds))
        cpu_s = _cpu_s(pid) - before
    database.close()
    told = round(seconds / TOLD_EVERY_S) * TOLD_AT_ONCE
    every = sorted(lag for some in lags for lag in some)
    return {
        "viewers": viewers,
        "events_told": told,
        "events_lost": viewers * told - len(every),
        "seen_median_s": statistics.median(every),
        "seen_p99_s": every[int(len(every) * 0.99) - 1],
        "cpu_s_per_1000_seen": 1000 * cpu_s / max(1, len(every)),
    }


def _queue_battle(database: Database) -> None:
    moment, slug = now(), f"bench-{time.time_ns()}"
    with database.writing() as session:
        about = {"name": "white", "url": f"http://127.0.0.1:1/{slug}", "role": "white", "about": "{}", "owner": "bench"}
        card = json.dumps({"description": "", "version": "1", "skills": []})
        times = {"registered_at": moment, "checked_at": moment}
        session.add(Contender(slug=slug, card=card, is_alive=True, problem="", **about, **times))
    battling.create(database, battling.Wish(slug, None, {}, "bench"))


async def _watched(
    url: str, database: Database, claimed: battling.Claim, *, viewers: int, seconds: int
) -> list[list[float]]:
    """How late each viewer saw each event."""
    limits = httpx.Limits(max_connections=viewers + 10)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        ready = asyncio.Semaphore(0)
        watching = [asyncio.create_task(_watch(client, claimed.slug, ready)) for _ in range(viewers)]
        for _ in range(viewers):
            await ready.acquire()
        for _ in range(round(seconds / TOLD_EVERY_S)):
            told = [{"text": "x" * 100, "sent": time.time()}] * TOLD_AT_ONCE
            await asyncio.to_thread(battling.tell, database, claimed.slug, told)
            await asyncio.sleep(TOLD_EVERY_S)
        await asyncio.to_thread(battling.end, database, claimed, "bench", "finished", message="")
        return await asyncio.gather(*watching)


async def _watch(client: httpx.AsyncClient, slug: str, ready: asyncio.Semaphore) -> list[float]:
    lags: list[float] = []
    async with client.stream("GET", f"/api/battles/{slug}/live") as answer:
        is_told = is_ready = False
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and is_told:
                lags.append(time.time() - json.loads(line[6:])["sent"])
            if line == "event: state" and not is_ready:
                is_ready = True
                ready.release()
            is_told = line == "event: told" or (is_told and not line.startswith("event:"))
    return lags


def cut() -> dict[str, float]:
    """What a recording of 50 MB takes before its first piece can be fetched, once."""
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as place:
        cast, into = Path(place) / "terminal.cast", Path(place) / "pieces"
        into.mkdir()
        with cast.open("w") as file:
            file.write(json.dumps({"version": 2, "width": 120, "height": 40}) + "\n")
            number = 0
            while file.tell() < CAST_BYTES:
                file.write(
                    json.dumps([number / 100, "o", f"\x1b[32mstep {number}\x1b[0m {'x' * (number % 90)}\r\n"]) + "\n"
                )
                number += 1
        began = time.process_time()
        cut_recording(cast, into)
        pieces = [path.stat().st_size for path in into.iterdir()]
        return {"cut_cpu_s": time.process_time() - began, "pieces": len(pieces) - 1, "largest_piece_bytes": max(pieces)}


def _paths(url: str, slugs: list[str]) -> list[str]:
    """Leaderboards and runs in turn."""
    digests = [row["digest"] for row in _answering(url).json()]
    chance = random.Random(3)  # noqa: S311 - no secret
    pages = [f"/runs/{chance.choice(slugs)}" for _ in range(PAGES)]
    return [path for n, page in enumerate(pages) for path in (f"/datasets/{digests[n % len(digests)]}", page)]


def _answering(url: str) -> httpx.Response:
    """The first answer of a server that has just begun."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return httpx.get(f"{url}/api/datasets", timeout=60)
        except httpx.TransportError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="2000 are a million trials")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--db", type=Path, help="a file of SQLite's, kept; filled up where runs are missing")
    parser.add_argument("--alone", action="store_true", help="nothing else runs here: what the clock says counts")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as place:
        found = measure(given.db or Path(place) / "arena.db", given)
    if not given.json:
        _print_table(found)
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))
    return 0 if all(_is_met(found, name) for name in (*STEADY, *(CLOCK if given.alone else ()))) else 1


def measure(db: Path, given: argparse.Namespace) -> dict[str, float]:
    """Everything, in turn."""
    load = os.getloadavg()[0]
    database = Database(f"sqlite:///{db}")
    database.migrate()
    found = fill(database, given.runs)
    with database.reading() as session:
        slugs = list(session.scalars(select(Run.slug).order_by(Run.id)))
    database.close()
    found |= serve_and_read(db, slugs, given.seconds)
    found |= serve_and_watch(db, given.viewers, given.seconds)
    found |= cut()
    return found | {"database_bytes": float(db.stat().st_size), "load_before": load, "load_1m": os.getloadavg()[0]}


def _is_met(found: dict[str, float], name: str) -> bool:
    """Whether a figure is as wanted; one that was not measured is not missed."""
    if name not in found:
        return True
    wanted = WANTED[name]
    return found[name] >= wanted if name in AT_LEAST else found[name] <= wanted


def _print_table(found: dict[str, float]) -> None:
    for name, value in found.items():
        side = "at least" if name in AT_LEAST else "at most"
        wanted = f"{side} {WANTED[name]:,}" if name in WANTED else ""
        print(f"{name:22} {value:14,.3f}  {wanted}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
