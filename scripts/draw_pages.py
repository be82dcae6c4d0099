"""Makes the documentation's pictures of the arena: a server with made-up runs, and a real battle, in a real browser.

    PYTHONPATH=tests .venv/bin/python scripts/draw_pages.py docs/images
    PYTHONPATH=tests .venv/bin/python scripts/draw_pages.py --all /tmp/pages

With `--all` every page is drawn, wide and as on a phone, light and dark: for looking at them. Chromium is needed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from playwright.sync_api import sync_playwright

from support.arena_server import served, until
from support.battle_ground import asked, battle_config, ended, registered, white_served
from support.made_proofs import proof_named
from support.made_runs import Made, made_run
from termarena.arena.keys import add_key
from termarena.forge.ledger import Ledger, Outcome
from termarena.proof.faults import Fault
from termarena.proof.report import write_proof

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from support.arena_server import Server

__all__ = ["main"]

PATIENCE_S: Final = 60.0
TASKS: Final = 40
SKILLS: Final = (
    ("terminus", "acme/large", 0.74, 0.44),
    ("tools", "acme/large", 0.70, 0.33),
    ("terminus", "other/medium", 0.57, 0.09),
    ("tools", "acme/small", 0.38, 0.02),
    ("mine:Agent", None, 0.24, 0.004),
)
"""Agents that there are not: a name, a model, how much they solve, dollars a trial."""
COMMANDS: Final = (
    "ls -la /app",
    "head -3 /etc/os-release",
    'for i in 1 2 3; do echo "building part $i of 3"; done',
    "printf '\\033[32mPASS\\033[0m unit\\n\\033[31mFAIL\\033[0m lint\\n'",
    "echo 1 >/app/one.txt && cat /app/one.txt",
)
REFUSED: Final = (
    ("screen", "it holds no command", 14),
    ("reproduce", "a command needs a network", 9),
    ("test", "nothing that stays was changed", 4),
    ("prove", "wrong solutions pass", 2),
)
ADMITTED: Final = 7
LETTERS: Final = "AABACAABFA"


class Shot(NamedTuple):
    """A picture: a page, its size, its colours."""

    name: str
    path: str
    width: int = 1200
    height: int = 820
    scheme: str = "light"


class Stage(NamedTuple):
    """What is shown."""

    server: Server
    battle: str
    may_end: threading.Event


@contextmanager
def _stage(place: Path) -> Iterator[Stage]:
    """An arena with runs, proofs, a ledger, and a battle that goes on until it may end."""
    _make_runs(place / "runs")
    _make_proofs(place / "proofs")
    _make_ledger(place / "forge")
    done, may_end = threading.Event(), threading.Event()

    async def say(turn: int, _: str) -> Any:  # noqa: ANN401 - any JSON
        if turn <= len(COMMANDS):
            return {"kind": "exec_request", "command": COMMANDS[turn - 1], "timeout": 30}
        done.set()
        await asyncio.to_thread(may_end.wait, PATIENCE_S * 10)
        return {"kind": "final", "output": "done"}

    battles = battle_config(place / "runs", place / "home", tasks=("one", "two"))
    shown: dict[str, Any] = {"battles": battles, "proofs": place / "proofs", "forge": place / "forge"}
    with white_served(say) as white, served(place / "runs", **shown) as server:
        key = add_key(server.held.database, "lab-3", ["submit"])
        server.client.headers["Authorization"] = f"Bearer {key}"
        battle = asked(server, registered(server, white, name="Typist"), config={"tasks": ["one"], "attempts": 1})
        until(done.is_set)
        try:
            yield Stage(server, battle, may_end)
        finally:
            may_end.set()


def _make_runs(runs: Path) -> None:
    chance = random.Random(11)  # noqa: S311 - no secret
    hardness = [chance.uniform(-0.3, 0.3) for _ in range(TASKS)]
    for number, (agent, model, skill, cost_usd) in enumerate(SKILLS):
        for again in range(2):
            outcomes = {
                f"task-{task:02}": "".join("1" if chance.random() < skill + hard else "0" for _ in range(3))
                for task, hard in enumerate(hardness)
            }
            if again and number < 3:  # noqa: PLR2004 - some have trials without a score
                outcomes["task-07"] = "1?0"
            made = Made(agent=agent, model=model, dataset="terminal-tasks", cost_usd=cost_usd)
            made_run(runs / f"made-{number}-{again}", outcomes, made)


def _make_proofs(proofs: Path) -> None:
    for number, letter in enumerate(LETTERS):
        rule = "fragile" if letter == "B" else "weak-tests"
        faults = () if letter == "A" else (Fault(rule=rule, message="Of 12 wrong solutions 4 pass."),)
        (proofs / str(number)).mkdir(parents=True)
        proof = proof_named(f"task-{number:02}", task_digest="task1:same", letter=letter, faults=faults, trials=61)
        write_proof(proofs / str(number) / "proof.json", proof)


def _make_ledger(folder: Path) -> None:
    told = [("refused", gate, why) for gate, why, count in REFUSED for _ in range(count)]
    told += [("admitted", "prove", "")] * ADMITTED
    with Ledger(folder) as ledger:
        for number, (state, gate, reason) in enumerate(told):
            is_in = state == "admitted"
            task, share = (f"forged/task-{number}", 0.97) if is_in else (None, None)
            known = (f"sha256:{number}", "k", f"/x/{number:03}.cast", f"Session {number}", state, gate, reason)
            ledger.write(Outcome(*known, task, None, share, share, 31.0, "", "2026-11-15T00:00:00Z"))  # type: ignore[arg-type] # plain words


def _draw(browser: Browser, stage: Stage, shot: Shot, out: Path) -> None:
    scheme: Any = shot.scheme
    context = browser.new_context(viewport={"width": shot.width, "height": shot.height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(stage.server.url + shot.path)
    _settle(page)
    page.screenshot(path=out / f"{shot.name}.png")
    sys.stderr.write(f"{shot.name}: {shot.path}\n")
    context.close()


def _settle(page: Page) -> None:
    """Until a live terminal shows its last command, and a recording can be played."""
    page.wait_for_load_state("load")
    if page.locator("#screen").count():
        page.get_by_text("FAIL lint").wait_for(timeout=PATIENCE_S * 1000)
    if page.locator("#player").count():
        page.wait_for_selector("#player[data-state=ready]", timeout=PATIENCE_S * 1000)
        if page.locator("#step-4 .seek").count():
            page.locator("#step-4 .seek").click()
            page.wait_for_selector(".step[aria-current=step]", timeout=PATIENCE_S * 1000)
        page.evaluate("scrollTo(0, 0)")


def _documented(stage: Stage) -> tuple[list[Shot], list[Shot]]:
    """While the battle goes on, and after it."""
    trial = f"/runs/battle_{stage.battle}/one/1"
    after = [
        Shot("arena-leaderboard", "/", 1200, 1000),
        Shot("arena-trial", trial, 1280, 860, "dark"),
        Shot("arena-forge", "/forge", 1200, 800),
    ]
    return [Shot("arena-battle", f"/battles/{stage.battle}")], after


def _everything(stage: Stage) -> tuple[list[Shot], list[Shot]]:
    server = stage.server
    (digest,) = [one["digest"] for one in server.json("/datasets") if one["name"] == "terminal-tasks"]
    entrant = server.json("/runs/made-0-0")["run"]["entrant"]["id"]
    during = {"battle": f"/battles/{stage.battle}", "battles": "/battles"}
    after = {
        "leaderboard": "/",
        "runs": "/runs",
        "run": "/runs/made-0-1",
        "compare": "/compare?first=made-0-0&second=made-3-0",
        "trial": f"/runs/battle_{stage.battle}/one/1",
        "fought": f"/battles/{stage.battle}",
        "task": "/tasks/task-02",
        "dataset": f"/datasets/{digest}/tasks",
        "agents": "/agents",
        "agent": f"/agents/{entrant}",
        "proofs": "/proofs",
        "forge": "/forge",
    }
    sizes = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
    return tuple(  # type: ignore[return-value] # two of them
        [
            Shot(f"{name}-{width}-{scheme}", path, width, 900, scheme)
            for name, path in some.items()
            for width, scheme in sizes
        ]
        for some in (during, after)
    )


def main() -> None:
    """Draw them into a folder."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("out", type=Path, help="the folder for the pictures")
    words.add_argument("--all", action="store_true", help="every page, wide and narrow, light and dark")
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, _stage(Path(place)) as stage, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        during, after = (_everything if given.all else _documented)(stage)
        for shot in during:
            _draw(browser, stage, shot, given.out)
        stage.may_end.set()
        ended(stage.server, stage.battle)
        stage.server.look()
        for shot in after:
            _draw(browser, stage, shot, given.out)
        browser.close()


if __name__ == "__main__":
    main()
