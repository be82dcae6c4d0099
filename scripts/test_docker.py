#!/usr/bin/env python3
"""ElizaOS's script of this name: whether a container engine answers, and with `--run` whether a task runs in one."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from elizaos_terminal_bench import TerminalBenchConfig, TerminalBenchRunner
from termarena.cli.checks import Machine, check_engine
from termarena.cli.output import print_line, say
from termarena.core.errors import TermArenaError


def main() -> int:
    """0 when everything that was tried works, else 1."""
    parser = argparse.ArgumentParser(description="Try the container engine")
    parser.add_argument("--run", action="store_true", help="run the sample hello-world in a container")
    parser.add_argument("--output-dir", type=Path, default=Path("benchmark_results/test-docker"), metavar="FOLDER")
    given = parser.parse_args()
    found = check_engine(Machine())
    print_line(f"engine: {found.status}: {found.found}")
    if found.status != "ok":
        say(f"hint: {found.advice or 'termarena doctor --docker'}")
        return 1
    return asyncio.run(_run(given.output_dir)) if given.run else 0


async def _run(output_dir: Path) -> int:
    config = TerminalBenchConfig(output_dir=output_dir, oracle=True, execution_backend="docker")
    runner = TerminalBenchRunner(config=config)
    try:
        await runner.setup(use_sample_tasks=True)
        result = await runner.run_single("hello-world")
    except TermArenaError as error:
        say(f"error: {error}")
        return 1
    print_line(
        f"hello-world in a container: {result.outcome}" + (f" ({result.error_message or ''})".replace(" ()", ""))
    )
    return 0 if result.success else 1


if __name__ == "__main__":
    sys.exit(main())
