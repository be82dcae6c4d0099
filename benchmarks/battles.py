"""Battles over A2A: what a command costs on top of the sandbox, many at once, many in a row, and the bundled samples.

Usage: python benchmarks/battles.py [--json] [--commands 100] [--at-once 50] [--in-a-row 50] [--samples]. The white
agent is a process of its own on loopback. Exits 2 where there is no embedded sandbox, or no extra `battles`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.battles.referee import Referee
    from termarena.tasks import Task

MISSING = 2
WHITE = """
import asyncio, json, sys
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.tasks import TaskUpdater
from termarena.battles.cards import WHITE_CARD
from termarena.battles.serving import Place, serve

class White(AgentExecutor):
    def __init__(self):
        self.turns = {}
    async def execute(self, context, queue):
        task = new_task_from_user_message(context.message)
        await queue.enqueue_event(task)
        updater = TaskUpdater(queue, task.id, task.context_id)
        turn = self.turns[task.context_id] = self.turns.get(task.context_id, 0) + 1
        asks = {"kind": "exec_request", "command": "echo 1 >/app/one.txt", "timeout": 60}
        if turn > int(sys.argv[1]):
            asks = {"kind": "final", "output": ""}
            del self.turns[task.context_id]
        await updater.complete(updater.new_agent_message([new_text_part(json.dumps(asks))]))
    async def cancel(self, context, queue):
        pass

async def main():
    async with serve(White(), WHITE_CARD, Place()) as served:
        print(served.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""
TASK = {
    "task.toml": (
        'schema_version = "1.4"\n[metadata.termarena]\nrequires = ["sh"]\nsetup = "setup.sh"\n'
        "[agent]\ntimeout_sec = 300.0\n[verifier]\ntimeout_sec = 60.0\n"
        '[environment]\nnetwork_mode = "no-network"\nworkdir = "/app"\n'
    ),
    "instruction.md": "Write 1 to /app/one.txt.\n",
    "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n",
    "environment/setup.sh": "mkdir -p /app\n",
    "tests/test.sh": "#!/bin/sh\nif grep -qx 1 /app/one.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n",
}


class White(NamedTuple):
    """A white agent that runs."""

    said: str
    """Its first line."""
    pid: int

    def cpu_s(self) -> float:
        """What it has used of a processor."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def white(*words: str) -> Iterator[White]:
    """A white agent in its own process."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own
    assert process.stdin is not None  # noqa: S101 - asked for above
    assert process.stdout is not None  # noqa: S101 - asked for above
    try:
        yield White(process.stdout.readline().strip(), process.pid)
    finally:
        process.stdin.close()
        process.terminate()
        process.wait()


def scripted(commands: int) -> contextlib.AbstractContextManager[White]:
    """One that runs so many commands."""
    return white(sys.executable, "-c", WHITE, str(commands))


def task_in(folder: Path) -> Task:
    """The smallest task."""
    from termarena.tasks import load_task  # noqa: PLC0415 - after the check for what is missing

    for name, text in TASK.items():
        path = folder / "one" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_task(folder / "one")


def referee(folder: Path, tasks: tuple[Task, ...], *, at_once: int = 64) -> Referee:
    """A referee whose battles are kept in the folder."""
    from termarena.battles.addresses import AddressPolicy  # noqa: PLC0415 - as above
    from termarena.battles.config import GreenConfig, LimitSettings  # noqa: PLC0415 - as above
    from termarena.battles.referee import Referee  # noqa: PLC0415 - as above
    from termarena.core.settings import resolve_settings  # noqa: PLC0415 - as above

    limits = LimitSettings(trials_at_once=at_once, trials_per_white=at_once)
    config = GreenConfig(driver="namespace", limits=limits)
    home = resolve_settings().settings.paths.home
    return Referee(config, tasks, dataset="bench", out=folder / "battles", home=home, policy=AddressPolicy())


async def overhead(folder: Path, commands: int) -> dict[str, Any]:
    """What a turn takes beyond its command; and, since that grows with the load of the machine, the processor time of
    both sides for each command, the rest of the battle included."""
    from termarena.battles.orders import Order  # noqa: PLC0415 - as above

    judge = referee(folder, (task_in(folder),))
    with scripted(commands) as agent:
        await judge.fight(Order(agent.said, battle_id="warm"), lambda _: None)
        before = time.process_time(), agent.cpu_s()
        await judge.fight(Order(agent.said, battle_id="measured"), lambda _: None)
        used = time.process_time() - before[0], agent.cpu_s() - before[1]
    await judge.aclose()
    kept = next((folder / "battles" / "battle_measured").rglob("messages.jsonl"))
    sent = [json.loads(line)["at"] for line in kept.read_text().splitlines() if '"direction": "sent"' in line]
    calls = json.loads(kept.with_name("tool_calls.json").read_text())["calls"]
    cycles = [(_at(later) - _at(earlier)) * 1000 for earlier, later in itertools.pairwise(sent[1:])]
    inside = [call["duration_s"] * 1000 for call in calls if call["name"] == "terminal.run"]
    cycle, command = statistics.median(cycles), statistics.median(inside)
    return {
        "commands": len(inside),
        "cycle_ms": round(cycle, 2),
        "lowest_decile_ms": round(statistics.quantiles(cycles, n=10)[0], 2),
        "command_ms": round(command, 2),
        "overhead_ms": round(cycle - command, 2),
        "referee_cpu_ms": round(used[0] * 1000 / len(inside), 2),
        "white_cpu_ms": round(used[1] * 1000 / len(inside), 2),
    }


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


async def at_once(folder: Path, battles: int, commands: int) -> dict[str, Any]:
    """So many battles at the same time with one white agent; how many came to their end, with every command."""
    from termarena.battles.orders import Order  # noqa: PLC0415 - as above

    judge = referee(folder, (task_in(folder),))
    began = time.monotonic()
    with scripted(commands) as agent:
        results = await asyncio.gather(*(judge.fight(Order(agent.said), lambda _: None) for _ in range(battles)))
    took = time.monotonic() - began
    await judge.aclose()
    done = sum(result["score"] == 1 and result["rows"][0]["n_commands"] == commands for result in results)  # type: ignore[index,call-overload]  # JSON
    return {"battles": battles, "commands": commands, "whole": done, "lost": battles - done, "seconds": round(took, 1)}


async def in_a_row(folder: Path, battles: int) -> dict[str, Any]:
    """One after the other; memory and descriptors after a tenth of them, and at the end."""
    from termarena.battles.orders import Order  # noqa: PLC0415 - as above

    judge = referee(folder, (task_in(folder),))
    seen: list[tuple[int, int]] = []
    solved = 0
    with scripted(3) as agent:
        for _ in range(battles):
            result = await judge.fight(Order(agent.said), lambda _: None)
            solved += result["score"] == 1
            seen.append((_rss_kib(), len(os.listdir("/proc/self/fd"))))  # noqa: PTH208 - a count
    await judge.aclose()
    early, last = seen[battles // 10], seen[-1]
    return {
        "battles": battles,
        "solved": solved,
        "rss_growth_kib": last[0] - early[0],
        "fd_growth": last[1] - early[1],
        "rss_kib": last[0],
    }


def _rss_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


async def samples(folder: Path) -> dict[str, Any]:
    """Every bundled sample with the reference solutions behind A2A; how many battles came to a verdict."""
    from termarena.battles.orders import Order  # noqa: PLC0415 - as above
    from termarena.tasks import SAMPLES, load_dataset  # noqa: PLC0415 - as above

    tasks = load_dataset(SAMPLES).tasks
    judge = referee(folder, tasks, at_once=2)
    program = str(Path(sys.executable).with_name("termarena"))
    with white(program, "white", "--port", "0", "--json") as agent:
        result = await judge.fight(Order(json.loads(agent.said)["url"]), lambda _: None)
    await judge.aclose()
    return {"battles": result["max_score"], "solved": result["score"], "unscored": result["unscored"]}


def is_possible() -> bool:
    """Whether the embedded sandbox and the packages are there."""
    from termarena.cli.checks import Machine  # noqa: PLC0415 - heavy

    try:
        import a2a  # noqa: F401, PLC0415 - an extra
        import mcp  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return False
    return all(fact.is_there for fact in Machine().facts.values() if fact.is_needed)


async def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for, one after the other."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = {
            "overhead": await overhead(folder / "a", given.commands),
            "at_once": await at_once(folder / "b", given.at_once, 20),
            "in_a_row": await in_a_row(folder / "c", given.in_a_row),
        }
        return {**found, "samples": await samples(folder / "d")} if given.samples else found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--commands", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=50)
    parser.add_argument("--in-a-row", type=int, default=50)
    parser.add_argument("--samples", action="store_true")
    given = parser.parse_args()
    if not is_possible():
        print("no embedded sandbox here, or no extra `battles`: nothing was measured", file=sys.stderr)
        return MISSING
    found = asyncio.run(measure(given))
    if not given.json:
        for name, row in found.items():
            print(f"{name:<10} {', '.join(f'{key} {value}' for key, value in row.items())}")
    print(json.dumps({"schema_version": 1, "kind": "battles", "load": os.getloadavg()[0], **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
