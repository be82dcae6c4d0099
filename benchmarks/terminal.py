"""Terminal figures: a command's round trip against bare reads and writes on a shell's terminal, and the emulators.

Everything is measured side by side, in turns, and reported as medians; the machine is named.
    python benchmarks/terminal.py [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pyte

from termarena.sandbox import SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.terminal import Terminal, TerminalOptions, open_terminal
from termarena.sandbox.terminal.screen import Emulator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.sandbox import Sandbox

SHELLS = ("/bin/bash", "/bin/zsh", "/bin/dash")
FLOOD_BYTES = 20_000_000


class BareShell:
    """The same shell with nothing between: type a line, read until its output is there."""

    def __init__(self, fd: int) -> None:
        """`fd` is the master."""
        self._fd = fd
        self._seen = b""
        self._change: asyncio.Future[None] | None = None

    def readable(self) -> None:
        """Take what came."""
        self._seen += os.read(self._fd, 65536)
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    async def until(self, pattern: bytes) -> None:
        """Until the pattern has come."""
        while not re.search(pattern, self._seen):
            self._change = asyncio.get_running_loop().create_future()
            await self._change
        self._seen = b""

    async def echo(self) -> None:
        """`echo x`, up to the prompt after the line `x`."""
        os.write(self._fd, b"echo x\n")
        await self.until(rb"(?s)[\r\n]x\r\n.*# ")


async def _ms(act: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await act()
    return (time.perf_counter() - started) * 1000


async def _typed(terminal: Terminal) -> None:
    terminal.type_text("echo x\n")
    await terminal.wait_idle()


async def _round_trips(box: Sandbox, shell: str, rounds: int) -> dict[str, float]:
    async with open_terminal(box, TerminalOptions(shell_argv=(shell,))) as terminal:
        pty = await box.open_pty([shell])
        bare = BareShell(pty.master_fd)
        asyncio.get_running_loop().add_reader(pty.master_fd, bare.readable)
        times: dict[str, list[float]] = {"bare": [], "run": [], "typed": []}
        await bare.until(b"# ")
        await bare.echo()
        for _ in range(rounds):
            times["bare"].append(await _ms(bare.echo))
            times["run"].append(await _ms(lambda: terminal.run("echo x")))
            times["typed"].append(await _ms(lambda: _typed(terminal)))
        asyncio.get_running_loop().remove_reader(pty.master_fd)
        await pty.kill()
        pty.close()
    found = {f"{name}_ms": statistics.median(all_times) for name, all_times in times.items()}
    return {**found, "run_overhead_ms": found["run_ms"] - found["bare_ms"]}


async def _open_ms(box: Sandbox, rounds: int) -> float:
    async def once() -> None:
        async with open_terminal(box, TerminalOptions(shell_argv=("/bin/bash",))):
            pass

    return statistics.median([await _ms(once) for _ in range(rounds)])


async def _flood(box: Sandbox) -> dict[str, float]:
    async with open_terminal(box, TerminalOptions(shell_argv=("/bin/bash",))) as terminal:
        taken = await _ms(lambda: terminal.run(f"yes 'a line of text' | head -c {FLOOD_BYTES}", timeout_s=300))
    return {"bytes": FLOOD_BYTES, "mb_per_s": FLOOD_BYTES / taken / 1000}


def _session() -> bytes:
    """Like a recording: a build log with colours, a progress line, a full-screen redraw."""
    log = b"".join(
        b"\x1b[32m[%4d/1000]\x1b[0m Building object src/part_%d/file.o\r\n" % (at, at % 17) for at in range(1000)
    )
    progress = b"".join(b"\rDownloading %3d%% %s" % (at, b"#" * (at // 2)) for at in range(101))
    redraw = b"".join(b"\x1b[%d;1H\x1b[K\x1b[1mrow %d\x1b[0m value %d" % (at % 24 + 1, at, at * 7) for at in range(500))
    return (log + progress + b"\r\n" + redraw + b"\x1b[24;1H\r\n") * 3


def _emulators(rounds: int) -> dict[str, float]:
    stream = _session()
    times: dict[str, list[float]] = {"pyghostty": [], "pyte": []}
    for _ in range(rounds):
        ours = Emulator(80, 24, scrollback_lines=1000, reply=lambda _: None)
        theirs = pyte.ByteStream(pyte.Screen(80, 24))
        for name, feed in (("pyghostty", ours.feed), ("pyte", theirs.feed)):
            started = time.perf_counter()
            for at in range(0, len(stream), 4096):
                feed(stream[at : at + 4096])
            times[name].append(time.perf_counter() - started)
        ours.close()
    rates = {f"{name}_mb_per_s": len(stream) / statistics.median(all_times) / 1e6 for name, all_times in times.items()}
    return {"bytes": len(stream), **rates, "ratio": rates["pyghostty_mb_per_s"] / rates["pyte_mb_per_s"]}


async def measure(home: Path, rounds: int) -> dict[str, object]:
    """Everything, in about half a minute on two cores."""
    async with NamespaceDriver(home=home) as driver, driver.start(SandboxSpec()) as box:
        shells = [shell for shell in SHELLS if (await box.exec(["test", "-x", shell])).exit_status == 0]
        return {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
            "python": platform.python_version(),
            "pyghostty": version("pyghostty"),
            "load_before": os.getloadavg()[0],
            "echo_x": {shell: await _round_trips(box, shell, rounds) for shell in shells},
            "open_and_close_ms": await _open_ms(box, max(5, rounds // 4)),
            "flood": await _flood(box),
            "emulators": _emulators(max(3, rounds // 12)),
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="termarena-bench-") as home:
        found = asyncio.run(measure(Path(home), chosen.rounds))
    text = json.dumps(found, indent=1)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
