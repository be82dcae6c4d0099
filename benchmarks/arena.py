"""The arena with many trials: how fast runs are taken in, how long pages take while twenty people read, how late two
hundred people see what happens in a battle, and what a recording of 50 MB takes.

Usage: python benchmarks/arena.py [--runs 2000] [--seconds 30] [--viewers 200] [--json]

Every run has 100 tasks and 5 attempts at each; 100 runs share a dataset, and 20 agents made 5 runs each of them. Run
folders are made, taken in and removed one after the other; then a server in a process of its own answers twenty
readers, each of whom asks for a page once a second, whether or not the last one has come (an open loop): leaderboards
and pages of runs in turn. A latency counts from the moment at which the request was due. Then viewers, each with a
stream of its own, watch one battle of which fifty things a second are told; how late one is seen counts from when it
was told, and includes that the database is asked every 0.4 s.

Prints a table, then one line of JSON (`--json`: that alone). Exits 1 where what does not depend on other programs is
missed: trials taken in per second of processor time, processor time of a page, size of a page, events that a viewer
did not get. Latencies are told with the load beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import httpx

    from termarena.arena import battling
    from termarena.arena.database import Database
    from termarena.arena.ingest import take_in
    from termarena.arena.schema import Contender
    from termarena.arena.standings import refresh_standings
except ModuleNotFoundError as missing:
    sys.stderr.write(f"{missing.name} is not installed: pip install 'termarena[arena,fetch]'\n")
    sys.exit(2)

from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import ConfigLock, LockedDataset, LockedTask, Versions, digest_of_all
from termarena.runs.journal import Journal, now
from termarena.runs.opening import begin_run
from termarena.runs.plan import RunOptions
from termarena.runs.result import TrialSummary
from termarena.runs.segments import cut_recording

if TYPE_CHECKING:
    from collections.abc import Iterator

TASKS, ATTEMPTS, AGENTS, RUNS_OF_ONE = 100, 5, 20, 5
READERS = 20
WANTED_TRIALS_PER_S = 1_000
WANTED_PAGE_CPU_S = 0.05
WANTED_PAGE_BYTES = 200_000
WANTED_MEDIAN_S, WANTED_P99_S = 0.1, 0.3
TOLD_AT_ONCE, TOLD_EVERY_S = 5, 0.1
CAST_BYTES = 50 << 20
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Answer:
    """One page."""

    latency_s: float
    size_bytes: int
    is_whole: bool


def make_run(place: Path, number: int, chance: random.Random) -> RunFolder:
    """One run, with a journal as a real one has it."""
    dataset, agent = number // (AGENTS * RUNS_OF_ONE), number % AGENTS
    tasks = tuple(
        LockedTask(id=f"set-{dataset}/task-{n:03}", digest="task1:same", path="", format="harbor") for n in range(TASKS)
    )
    options = RunOptions(agent=f"agents:Number{agent}", model=f"acme/model-{agent % 7}", attempts=ATTEMPTS)
    lock = ConfigLock(
        created_at=now(),
        options=options,
        agent=options.agent,
        driver="namespace",
        versions=Versions(termarena="0", python="3", kernel="6", agent="1", driver=None),
        dataset=LockedDataset(name=f"set-{dataset}", digest=digest_of_all(tasks)),
        tasks=tasks,
        machine=None,
        argv=(),
    )
    folder = RunFolder(place / f"run-{number:05}")
    with begin_run(folder, lock) as journal:
        _write_trials(journal, tasks, agent, chance)
    return folder


def _write_trials(journal: Journal, tasks: tuple[LockedTask, ...], agent: int, chance: random.Random) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        for place, task in enumerate(tasks):
            is_solved = chance.random() < 0.2 + 0.03 * agent - 0.004 * (place % 50)
            summary = TrialSummary(
                task_id=task.id,
                attempt=attempt,
                outcome="solved" if is_solved else "unsolved",
                agent_end="submitted",
                failure_mode="NONE" if is_solved else "TEST_FAILED",
                reward=float(is_solved),
                graded_in="sealed",
                tests_passed=3,
                tests_total=4,
                duration_s=20.0,
                work_s=15.0,
                commands=12,
                input_tokens=30_000,
                output_tokens=2_000,
                cost_usd=0.01 * (1 + agent % 7),
            )
            journal.append("trial_finished", summary.model_dump(mode="json"))
    journal.append("run_finished", {})


def fill(database: Database, runs: int) -> dict[str, float]:
    """Take in so many runs; the seconds are those of taking in alone."""
    chance, wall_s, cpu_s = random.Random(7), 0.0, 0.0  # noqa: S311 - no secret
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as place:
        for number in range(runs):
            folder = make_run(Path(place), number, chance)
            wall, cpu = time.perf_counter(), time.process_time()
            take_in(database, folder)
            wall_s, cpu_s = wall_s + time.perf_counter() - wall, cpu_s + time.process_time() - cpu
            shutil.rmtree(folder.path)
    cpu = time.process_time()
    boards = refresh_standings(database)
    trials = runs * TASKS * ATTEMPTS
    return {
        "trials": trials,
        "trials_per_s": trials / wall_s,
        "trials_per_cpu_s": trials / cpu_s,
        "leaderboard_cpu_s": (time.process_time() - cpu) / max(1, boards),
    }


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


@contextmanager
def serving(db: Path) -> Iterator[tuple[str, int]]:
    """A server over the database: its address and its process."""
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as empty:
        words = ["serve", "--runs", empty, "--db", f"sqlite:///{db}", "--port", "0", "--no-battles"]
        server = subprocess.Popen([sys.executable, "-m", "termarena", *words], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own program
        try:
            assert server.stdout is not None  # noqa: S101 - it is a pipe
            yield server.stdout.readline().strip(), server.pid
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def serve_and_read(db: Path, runs: int, seconds: int) -> dict[str, float]:
    """A server over the database, and its readers."""
    with serving(db) as (url, pid):
        paths = _paths(url, runs)
        asyncio.run(read(url, paths, 2))
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
    moment = now()
    with database.writing() as session:
        about = {"name": "white", "url": "http://127.0.0.1:1", "role": "white", "about": "{}", "owner": "bench"}
        card = json.dumps({"description": "", "version": "1", "skills": []})
        times = {"registered_at": moment, "checked_at": moment}
        session.add(Contender(slug="bench", card=card, is_alive=True, problem="", **about, **times))
    battling.create(database, battling.Wish("bench", None, {}, "bench"))


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


def _paths(url: str, runs: int) -> list[str]:
    """Leaderboards and runs in turn."""
    digests = [row["digest"] for row in _answering(url).json()]
    chance = random.Random(3)  # noqa: S311 - no secret
    pages = [f"/runs/run-{chance.randrange(runs):05}" for _ in range(50)]
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
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as place:
        db = Path(place) / "arena.db"
        database = Database(f"sqlite:///{db}")
        database.migrate()
        found = fill(database, given.runs)
        database.close()
        found |= serve_and_read(db, given.runs, given.seconds)
        found |= serve_and_watch(db, given.viewers, given.seconds)
        found |= cut()
        found |= {"database_bytes": float(db.stat().st_size), "load_1m": os.getloadavg()[0]}
    if not given.json:
        _print_table(found)
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))
    is_met = found["trials_per_cpu_s"] >= WANTED_TRIALS_PER_S and found["page_cpu_s"] <= WANTED_PAGE_CPU_S
    is_whole = not found["failed"] and not found["events_lost"]
    return 0 if is_met and is_whole and found["largest_page_bytes"] <= WANTED_PAGE_BYTES else 1


def _print_table(found: dict[str, float]) -> None:
    wanted = {
        "trials_per_cpu_s": f"at least {WANTED_TRIALS_PER_S}",
        "median_s": f"at most {WANTED_MEDIAN_S}",
        "p99_s": f"at most {WANTED_P99_S}",
        "page_cpu_s": f"at most {WANTED_PAGE_CPU_S}",
        "largest_page_bytes": f"at most {WANTED_PAGE_BYTES}",
        "events_lost": "none",
    }
    for name, value in found.items():
        print(f"{name:22} {value:14,.3f}  {wanted.get(name, '')}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
