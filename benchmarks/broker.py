"""What the model broker adds to a request, how many streams it holds, and what a baked agent adds to a start.

Usage: python benchmarks/broker.py [--requests 300] [--streams 500] [--starts 20] [--json]

A model server in a process of its own answers at once. The same request goes to it directly and through the broker,
which is a process of its own as well, in turns; what is told is the difference of the medians. Then --streams streams
of twenty events, one every tenth of a second, are open at once, directly and through the broker: every event must
come, and what the slowest stream took longer is told. Last, trials with an installed agent start in turns with trials
of the same command without one; its layer is there already.

Prints a table and then JSON (--json: JSON alone). Exits 0 if every aim was met, 1 if one was missed, 2 where the
embedded driver or the broker cannot run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "beside"))

from stream_server import PAUSE_S, WORDS
from termarena.core.errors import CapabilityMissing, MissingExtra
from termarena.core.run_folder import AttemptFolder
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.trials import Trials
from termarena.sandbox.drivers import choose_driver
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

WANTED_MS = 3.0
WANTED_STREAMS = 500
WARM_UP = 20
HERE = Path(__file__).parent
AGENT = 'name = "bench"\ninstall = "head -c 50000000 /dev/zero >$PREFIX/large"\ncommand = "true"\n'


class Target(NamedTuple):
    """Where requests go."""

    name: str
    port: int
    path: str
    key: str


class Server(NamedTuple):
    """One that runs."""

    line: str
    """The first that it printed."""
    pid: int

    @property
    def cpu_s(self) -> float:
        """What it has used of the processor."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(*command: str) -> Iterator[Server]:
    """A server for the length of a `with`."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own programs
        assert process.stdout is not None  # noqa: S101 - it was asked for
        try:
            yield Server(process.stdout.readline().strip(), process.pid)
        finally:
            process.terminate()


class Connection:
    """One client: a bare HTTP connection that stays."""

    def __init__(self, target: Target) -> None:
        """Nothing is opened yet."""
        self._target = target
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, *, stream: bool) -> bytes:
        """The body of one answer."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._target.port)
        request = {"model": "toy", "stream": stream, "messages": [{"role": "user", "content": "x" * 4000}]}
        body = json.dumps(request).encode()
        head = f"POST {self._target.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._target.key}\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if not answered.startswith(b"http/1.1 200"):
            raise RuntimeError(answered.decode())
        if b"chunked" in answered:
            return await self._reader.readuntil(b"\r\n0\r\n\r\n")
        size = int(answered.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await self._reader.readexactly(size)

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()


async def latencies(targets: list[Target], count: int) -> dict[str, list[float]]:
    """Milliseconds of each request, in turns."""
    connections = {target.name: Connection(target) for target in targets}
    took: dict[str, list[float]] = {target.name: [] for target in targets}
    for number in range(count + WARM_UP):
        for name, connection in connections.items():
            began = time.perf_counter()
            await connection.ask(stream=False)
            if number >= WARM_UP:
                took[name].append((time.perf_counter() - began) * 1000)
    for connection in connections.values():
        connection.close()
    return took


async def streams(target: Target, count: int) -> dict[str, Any]:
    """So many at once; each must be whole."""

    async def one() -> float:
        connection = Connection(target)
        began = time.perf_counter()
        body = await connection.ask(stream=True)
        connection.close()
        if body.count(b"word") != WORDS or b"[DONE]" not in body:
            raise RuntimeError(f"a stream is not whole: {body[-200:]!r}")
        return time.perf_counter() - began

    took = await asyncio.gather(*(one() for _ in range(count)))
    return {"streams": count, "median_s": round(statistics.median(took), 3), "slowest_s": round(max(took), 3)}


async def starts(count: int, home: Path, url: str) -> dict[str, list[float]]:
    """Milliseconds of the prepare phase of trials with and without an agent in the sandbox, in turns."""
    task = next(task for task in load_dataset("samples") if task.id.endswith("/hello-world"))
    (home / "agent.toml").write_text(AGENT)
    (home / "script.sh").write_text("true\n")
    agents = {"installed": f"cli:custom:{home / 'agent.toml'}", "script": f"script:{home / 'script.sh'}"}
    took: dict[str, list[float]] = {name: [] for name in agents}
    runs = {
        name: Trials(
            RunOptions(agent=word, model=f"openai:toy@{url}" if name == "installed" else None, driver="namespace"),
            home=home,
            run_id="bench",
        )
        for name, word in agents.items()
    }
    for number in range(count + 2):
        for name, trials in runs.items():
            folder = AttemptFolder(home / "attempts" / f"{name}-{number}")
            result = await trials.run(plan_of(task, 1), task, folder=folder)
            if number >= 2:  # noqa: PLR2004 - the first ones install and stage
                took[name].append(result.clocks["prepare"].duration_s * 1000)
    for trials in runs.values():
        await trials.aclose()
    return took


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    upstream = served(sys.executable, str(HERE / "beside" / "stream_server.py"))
    with tempfile.TemporaryDirectory(prefix="termarena-bench-") as folder, upstream as model:
        url = f"http://127.0.0.1:{model.line}/v1"
        with served(sys.executable, "-m", "termarena", "broker", "--model", f"openai:toy@{url}") as server:
            address, _, key = server.line.partition(" ")
            direct = Target("direct", int(model.line), "/v1/chat/completions", "none")
            broker = Target("broker", int(address.rpartition(":")[2]), "/v1/chat/completions", key)
            before_s = server.cpu_s
            took = asyncio.run(latencies([direct, broker], arguments.requests))
            cpu_s = server.cpu_s - before_s
            held = {target.name: asyncio.run(streams(target, arguments.streams)) for target in (direct, broker)}
        begun = asyncio.run(starts(arguments.starts, Path(folder), url))
    medians = {name: round(statistics.median(rows), 3) for name, rows in took.items()}
    start_ms = {name: round(statistics.median(rows), 1) for name, rows in begun.items()}
    return {
        "python": platform.python_version(),
        "request_ms": medians,
        "added_ms": round(medians["broker"] - medians["direct"], 3),
        "broker_cpu_ms": round(cpu_s / (arguments.requests + WARM_UP) * 1000, 3),
        "streams": held,
        "stream_s_at_least": WORDS * PAUSE_S,
        "start_ms": start_ms,
    }


def main() -> int:
    """Run it; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--streams", type=int, default=WANTED_STREAMS)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="JSON alone")
    arguments = parser.parse_args()
    try:
        task = next(iter(load_dataset("samples")))
        choose_driver("namespace", task.environment, home=Path(tempfile.gettempdir()) / "termarena-bench-home")
        figures = measure(arguments)
    except (CapabilityMissing, MissingExtra) as error:
        print(f"cannot be measured here: {error}", file=sys.stderr)
        return 2
    if not arguments.json:
        held = figures["streams"]["broker"]
        print(f"a request: {figures['request_ms']['direct']} ms directly, {figures['added_ms']} ms more by the broker,")
        print(f"  which uses {figures['broker_cpu_ms']} ms of a processor for it")
        print(f"{held['streams']} streams at once: all whole, the slowest {held['slowest_s']} s")
        start = figures["start_ms"]
        print(f"prepare phase: {start['installed']} ms with an agent, {start['script']} ms without")
    print(json.dumps(figures, indent=2))
    return 0 if figures["added_ms"] < WANTED_MS else 1


if __name__ == "__main__":
    sys.exit(main())
