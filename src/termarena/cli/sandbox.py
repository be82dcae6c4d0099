"""`termarena sandbox`: what is running, what dead harnesses left, how fast it is here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from termarena.cli.help import command_group
from termarena.cli.output import (
    Column,
    ExitStatus,
    JsonOption,
    print_json,
    print_line,
    print_table,
    say,
)

if TYPE_CHECKING:
    from termarena.sandbox import Driver, SandboxRecord, SandboxSpec
    from termarena.sandbox.bench import Figures

__all__ = ["app"]

app = command_group("List and remove sandboxes, and measure them.")

DriverOption = Annotated[
    Literal["all", "namespace", "docker"], typer.Option("--driver", metavar="DRIVER", help="Only this kind of sandbox.")
]


def _drivers(chosen: str) -> list[Driver]:
    from termarena.sandbox.drivers import DRIVERS, open_driver

    return [open_driver(name) for name in (DRIVERS if chosen == "all" else (chosen,))]


def _list_all(chosen: str) -> list[tuple[str, SandboxRecord]]:
    """Every sandbox with its driver; without a choice, an engine that does not answer is only mentioned."""
    from termarena.core.errors import EngineError

    found: list[tuple[str, SandboxRecord]] = []
    for driver in _drivers(chosen):
        try:
            found += [(driver.name, record) for record in driver.list()]
        except EngineError as error:
            if chosen != "all":
                raise
            say(f"no containers are listed: {error}")
    return found


@app.command("list")
def list_sandboxes(*, driver: DriverOption = "all", json: JsonOption = False) -> None:
    """List the sandboxes of this user, those of other processes too.

    \b
    termarena sandbox list
    termarena sandbox list --driver docker --json
    """
    found = _list_all(driver)
    if json:
        rows = [
            {
                "driver": name,
                "id": record.id,
                "is_alive": record.is_alive,
                "started_at": record.started_at,
                "harness_pid": record.harness_pid,
                "root": record.root,
                "changes": record.changes,
            }
            for name, record in found
        ]
        print_json({"schema_version": 1, "kind": "sandboxes", "sandboxes": rows})
        return
    if not found:
        say("there is no sandbox")
        return
    columns: list[str | Column] = ["sandbox", "driver", Column("state", styles={"left behind": "yellow"})]
    print_table(
        [*columns, "started", Column("harness", align="right"), "root", "files in"],
        [
            (
                one.id,
                name,
                "alive" if one.is_alive else "left behind",
                one.started_at,
                one.harness_pid,
                one.root,
                one.changes or "-",
            )
            for name, one in found
        ],
    )
    if any(not record.is_alive for _, record in found):
        say("hint: termarena sandbox prune removes what was left behind")


@app.command("prune")
def prune(*, driver: DriverOption = "all", json: JsonOption = False) -> None:
    """Remove what dead harnesses left behind, and old root file systems; what living ones use stays.

    \b
    termarena sandbox prune
    """
    from termarena.core.errors import EngineError

    removed: dict[str, int] = {}
    left: dict[str, list[str]] = {}
    for one in _drivers(driver):
        try:
            dead = _left_behind(one)
            removed[one.name] = one.sweep()
            left[one.name] = sorted(dead & _left_behind(one))
        except EngineError as error:
            if driver != "all":
                raise
            say(f"no containers are removed: {error}")
    if json:
        print_json({"schema_version": 1, "kind": "pruned", "removed": removed, "left": left})
    else:
        print_line(", ".join(f"{name}: {count} removed" for name, count in removed.items()))
    stuck = {name: ids for name, ids in left.items() if ids}
    for name, ids in stuck.items():
        say(f"{name}: could not be removed, the next start tries again: {', '.join(ids)}")
    if stuck:
        raise typer.Exit(ExitStatus.FAULT)


def _left_behind(driver: Driver) -> set[str]:
    return {record.id for record in driver.list() if not record.is_alive}


@app.command("bench")
def bench(
    *,
    driver: DriverOption = "all",
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="How often each is measured.")] = 30,
    image: Annotated[str, typer.Option(metavar="NAME", help="What containers start from.")] = "debian:bookworm",
    json: JsonOption = False,
) -> None:
    """Measure start, command and stop of each driver, side by side.

    \b
    termarena sandbox bench
    termarena sandbox bench --driver namespace --rounds 100
    """
    import asyncio
    from dataclasses import asdict

    from termarena.core.errors import SandboxError

    figures: list[Figures] = []
    for one in _drivers(driver):
        try:
            figures.append(asyncio.run(_measure(one, _spec_for(one.name, image), rounds)))
        except SandboxError as error:
            if driver != "all":
                raise
            say(f"{one.name} is not measured: {error}")
    if json:
        print_json({"schema_version": 1, "kind": "sandbox-bench", "figures": [asdict(row) for row in figures]})
    if not figures:
        say("nothing was measured; `termarena doctor` says what is missing")
        raise typer.Exit(ExitStatus.FAULT)
    if json:
        return
    titles = ("start, true, stop", "start", "true")
    print_table(
        ["driver", *(Column(f"{title} (ms)", align="right") for title in titles), Column("rounds", align="right")],
        [
            (row.driver, *(f"{ms:.1f}" for ms in (row.start_true_stop_ms, row.start_ms, row.exec_true_ms)), row.rounds)
            for row in figures
        ],
    )


def _spec_for(driver: str, image: str) -> SandboxSpec:
    from termarena.sandbox import Root, SandboxSpec

    return SandboxSpec(root=Root(kind="image", image=image)) if driver == "docker" else SandboxSpec()


async def _measure(driver: Driver, spec: SandboxSpec, rounds: int) -> Figures:
    from termarena.sandbox.bench import measure_driver

    try:
        return await measure_driver(driver, spec, rounds=rounds)
    finally:
        await driver.aclose()
