"""A recording of 50 MB in a real browser: how long until it can be played, how long its page is held up, and what is
fetched.

Usage: python benchmarks/arena_replay.py [--mib 50] [--json]

A run with one attempt whose recording has so many MiB is served by a server in a process of its own; Debian's Chromium
opens the trial's page, plays, and goes to the middle, the beginning and the end. `opened_s` is until the player shows
the last screen, what cutting takes included; `opened_again_s` is a second visit. `longest_task_ms` is the longest that
the page's own thread was not free, as the browser itself tells it (it tells of tasks from 50 ms on; 0 is none).

Prints a table, then one line of JSON (`--json`: that alone). Exits 1 where a task took longer than 200 ms of a machine
with little other load, or the whole recording was fetched; 2 without Playwright or Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

try:
    from playwright.sync_api import expect, sync_playwright
except ModuleNotFoundError as missing:
    sys.stderr.write(f"{missing.name} is not installed: pip install 'termarena[arena,fetch]' playwright\n")
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).parent / "beside"))
from arena_runs import make_run, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = Path("/usr/bin/chromium")
TASK = "set-0/task-000"
LONGEST_TASK_MS = 200
PATIENCE_MS = 300_000
LITTLE_LOAD = 4.0
WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => list.getEntries().forEach((one) => window.longTasks.push(one.duration)))
  .observe({ type: "longtask", buffered: true });
"""


def write_cast(path: Path, size_bytes: int) -> str:
    """Such a recording; the last line that it shows."""
    number = 0
    with path.open("w") as file:
        file.write(json.dumps({"version": 2, "width": 120, "height": 40}) + "\n")
        while file.tell() < size_bytes:
            text = f"\x1b[3{number % 7}mstep {number}\x1b[0m {'x' * (number % 90)}\r\n"
            file.write(json.dumps([number / 100, "o", text]) + "\n")
            number += 1
    return f"step {number - 1}"


def measure(page: Page, url: str, last: str) -> dict[str, float]:
    """Open, play, seek; what the browser says of it."""
    fetched: list[int] = []
    page.on("requestfinished", lambda request: fetched.append(request.sizes()["responseBodySize"]))
    page.add_init_script(WATCH)
    screen = page.locator("#player .ap-term")
    found: dict[str, float] = {}
    for name in ("opened_s", "opened_again_s"):
        began = time.perf_counter()
        page.goto(url)
        expect(screen).to_contain_text(last, timeout=PATIENCE_MS)
        found[name] = time.perf_counter() - began
    page.locator("#player").click()
    page.wait_for_selector("#player[data-state=playing]")
    page.keyboard.press(" ")
    for key, name in (("5", "middle"), ("0", "beginning"), ("9", "end")):
        before, began = screen.inner_text(), time.perf_counter()
        page.keyboard.press(key)
        expect(screen).not_to_have_text(before, timeout=PATIENCE_MS, use_inner_text=True)
        found[f"seek_{name}_s"] = time.perf_counter() - began
    tasks: list[float] = page.evaluate("window.longTasks")
    return found | {"longest_task_ms": max(tasks, default=0.0), "long_tasks": len(tasks), "fetched_bytes": sum(fetched)}


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if not CHROMIUM.exists():
        sys.stderr.write(f"{CHROMIUM} is not there\n")
        return 2
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="arena-replay-") as place:
        runs = Path(place) / "runs"
        runs.mkdir()
        attempt = make_run(runs, 0, random.Random(1)).attempt(TASK, 1)  # noqa: S311 - no secret
        attempt.path.mkdir(parents=True)
        attempt.result.write_text("{}")
        last = write_cast(attempt.cast(), given.mib << 20)
        with serving(Path(place) / "arena.db", runs) as (url, _), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
            address = f"{url}/runs/run-00000/{attempt.path.parent.name}/1"
            found = measure(browser.new_page(), _waited(browser.new_page(), address), last)
            browser.close()
        found |= {"cast_bytes": attempt.cast().stat().st_size, "load_1m": load}
    if not given.json:
        for name, value in found.items():
            print(f"{name:20} {value:16,.3f}")
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))
    is_held_up = found["longest_task_ms"] > LONGEST_TASK_MS and load < LITTLE_LOAD
    return 1 if is_held_up or found["fetched_bytes"] >= found["cast_bytes"] else 0


def _waited(page: Page, address: str) -> str:
    """The address of the trial, once the server has taken its run in."""
    deadline = time.monotonic() + 60
    while True:
        answer = page.request.get(address)
        if answer.ok:
            page.close()
            return address
        if time.monotonic() > deadline:
            raise RuntimeError(answer.text()[:500])
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
