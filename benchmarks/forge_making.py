"""What it costs to make tasks of recordings: seconds per admitted task, and what the ledger saves the second time.

Usage: python benchmarks/forge_making.py [RECORDING …] [--slots 2] [--json]

Without recordings, eight of our own from tests/data/forge: text, git, SQLite, C, archives, a merge conflict. Each is
made in sandboxes of this machine with every trial; then the same order is given again. Prints the machine's load with
the figures, because the time is that of many small processes. Exits 2 where sandboxes do not work here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.forge.intake import transcripts_in
from termarena.forge.ledger import Ledger
from termarena.forge.making import MakingConfig
from termarena.forge.working import Order, work
from termarena.sandbox.drivers import open_driver
from termarena.sandbox.namespace.probe import probe

if TYPE_CHECKING:
    from termarena.forge.ledger import Outcome

FOLDER = Path(__file__).parent.parent / "tests" / "data" / "forge"
NAMES = "sort-uniq grep-errors git-first-commit git-conflict sqlite-index make-program tar-backup python-json"
UNMEASURABLE = 2


async def _timed(order: Order, folder: Path, home: Path) -> tuple[list[Outcome], float]:
    outcomes: list[Outcome] = []
    driver = open_driver("namespace", home=home)
    began = time.monotonic()
    try:
        with Ledger(folder) as ledger:
            await work(order, ledger, driver, lambda one, _: outcomes.append(one))
    finally:
        await driver.aclose()
    return outcomes, time.monotonic() - began


def measure(paths: list[Path], slots: int) -> dict[str, object]:
    """Both rounds, in a folder of their own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        order = Order(list(transcripts_in(paths)), folder / "tasks", MakingConfig(), slots)
        made, first_s = asyncio.run(_timed(order, folder / "forge", folder / "home"))
        _, again_s = asyncio.run(_timed(order, folder / "forge", folder / "home"))
    admitted = [one for one in made if one.state == "admitted"]
    return {
        "recordings": len(made),
        "admitted": len(admitted),
        "least_mutation_score": min((one.mutation_score or 0.0 for one in admitted), default=None),
        "made_s": round(first_s, 2),
        "per_task_s": round(first_s / len(admitted), 2) if admitted else None,
        "again_s": round(again_s, 3),
        "load": os.getloadavg()[0],
    }


def main() -> int:
    """Measure and print; 2 where it cannot be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        if any(fact.is_needed and not fact.is_there for fact in probe(Path(home)).facts):
            print("the embedded sandbox does not work here: termarena doctor", file=sys.stderr)
            return UNMEASURABLE
    found = measure(options.recordings or [FOLDER / f"{name}.cast" for name in NAMES.split()], options.slots)
    if not options.json:
        for name, value in found.items():
            print(f"{name:22} {value}")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
