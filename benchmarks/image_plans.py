"""How many Dockerfiles of public task sets our builder reads and plans, and what it refuses.

Usage: python benchmarks/image_plans.py FOLDER [FOLDER …] [--json] [--shown 20]

Every `Dockerfile` below the folders is planned as `termarena images build CONTEXT --dry-run` would: parsed, each
instruction checked, what it copies found in its context (the folder that holds it). Nothing is made, pulled or fetched.
Prints a table of refusals by reason, with how many and one example. Exits 2 if there is no Dockerfile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from termarena.core.errors import ImageError
from termarena.sandbox.images import ImageShelf, plan_build
from termarena.sandbox.namespace import NamespaceDriver

NAMES = re.compile(r"(?<=: )\S+(?= is no\b)|\(at .*\)|\S*/\S*|\S+\.\w+|\d+")


class Figures(NamedTuple):
    """What came of it."""

    found: int
    planned: int
    steps: int
    took_s: float
    refused: dict[str, str]
    """What is wrong, by path."""


async def plan_all(recipes: list[Path], home: Path) -> Figures:
    """Plan each of them, one after the other."""
    refused: dict[str, str] = {}
    steps = planned = 0
    began = time.monotonic()
    async with NamespaceDriver(home=home) as driver:
        shelf = ImageShelf(driver, home)
        for recipe in recipes:
            try:
                plan = await plan_build(shelf, recipe.parent)
            except ImageError as error:
                problem = error.message.partition(str(recipe))[2] or error.message
                refused[str(recipe)] = problem.strip(": ")
            else:
                planned += 1
                steps += len(plan.steps)
        shelf.close()
    return Figures(len(recipes), planned, steps, time.monotonic() - began, refused)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--shown", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    recipes = sorted(path for folder in options.folders for path in folder.rglob("Dockerfile") if path.is_file())
    if not recipes:
        print("there is no Dockerfile: name folders of task sets", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as home:
        figures = asyncio.run(plan_all(recipes, Path(home)))
    if options.json:
        print(json.dumps(figures._asdict(), indent=2))
        return 0
    print(f"{figures.planned} of {figures.found} Dockerfiles planned, {figures.steps} steps, {figures.took_s:.1f} s")
    reasons = {path: NAMES.sub("…", problem) for path, problem in figures.refused.items()}
    for reason, count in Counter(reasons.values()).most_common(options.shown):
        example = next(path for path, found in reasons.items() if found == reason)
        print(f"{count:5}  {reason}\n       {example}: {figures.refused[example]}")
    print(json.dumps({**figures._asdict(), "refused": len(figures.refused)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
