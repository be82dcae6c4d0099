#!/usr/bin/env python3
"""ElizaOS's script of this name: `terminal-bench` with fewer flags."""

from __future__ import annotations

import argparse
import sys

from elizaos_terminal_bench.cli import main


def arguments(given: list[str] | None = None) -> list[str]:
    """The words for `terminal-bench`."""
    parser = argparse.ArgumentParser(description="Run Terminal-Bench; see also: terminal-bench --help")
    parser.add_argument("--sample", action="store_true", help="the bundled tasks")
    parser.add_argument("--max-tasks", metavar="N")
    parser.add_argument("--model", metavar="NAME", help="as for terminal-bench")
    parser.add_argument("--filter", metavar="ID,ID", help="task ids, separated by commas")
    parser.add_argument("-v", "--verbose", action="store_true", help="as it is without -q")
    parser.add_argument("-q", "--quiet", action="store_true", help="only the ends of trials")
    found = parser.parse_args(given)
    words = ["--sample"] if found.sample else []
    words += ["--max-tasks", found.max_tasks] if found.max_tasks else []
    words += ["--model", found.model] if found.model else []
    if found.filter is not None:
        words += ["--task-ids", *(name.strip() for name in found.filter.split(",") if name.strip())]
    return words if found.quiet else [*words, "--verbose"]


if __name__ == "__main__":
    sys.exit(main(arguments()))
