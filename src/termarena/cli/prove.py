"""`termarena prove`: what tasks are worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.choosing import StrictOption, open_task_or_dataset
from termarena.cli.extras import require
from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_table, say

if TYPE_CHECKING:
    from termarena.proof.evidence import Evidence
    from termarena.proof.policy import Policy
    from termarena.proof.proving import Proven
    from termarena.proof.radar import Sighting
    from termarena.tasks import Task

__all__ = ["app"]

app = command_app()

TasksArgument = Annotated[
    list[str], typer.Argument(metavar="TASK|DATASET", help="Tasks by path or id, folders of tasks, or samples.")
]
AttemptsOption = Annotated[int, typer.Option("--attempts", "-k", metavar="K", min=1, help="Of the reference solution.")]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option("--concurrency", "-n", min=1, metavar="N", help="Trials at once; else as many as processors."),
]
MutantsOption = Annotated[int, typer.Option("--mutants", min=0, metavar="N", help="Wrong solutions, at most.")]
OutOption = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where proofs and cards go.")]
DriverOption = Annotated[
    str, typer.Option("--driver", metavar="DRIVER", help="namespace, docker, or auto: per task, the first that can.")
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Use nothing that was found before, and keep nothing.")]
GateOption = Annotated[
    Path | None, typer.Option("--gate", metavar="POLICY", help="Exit 1 when a task falls short of this TOML file.")
]
RadarOption = Annotated[
    bool, typer.Option("--radar", help="Run the solutions again and tell what has rotted since the proofs in --out.")
]


@app.command()
def prove(  # noqa: PLR0913 - every option of the command is a parameter
    *,
    tasks: TasksArgument,
    attempts: AttemptsOption = 5,
    mutants: MutantsOption = 40,
    concurrency: ConcurrencyOption = None,
    out: OutOption = Path("proofs"),
    driver: DriverOption = "auto",
    gate: GateOption = None,
    radar: RadarOption = False,
    fresh: FreshOption = False,
    strict: StrictOption = None,
    json: JsonOption = False,
) -> None:
    """Find out by trying what tasks are worth. No model, no tokens.

    \b
    termarena prove my-task                  # one task: a folder
    termarena prove samples --concurrency 2  # all bundled tasks, two trials at once
    termarena prove hello-world -k 10        # the reference solution ten times
    termarena prove TASKS --gate policy.toml # for CI
    termarena prove TASKS --radar            # what has rotted since the last proof

    Each task gets a folder with proof.json (everything that was tried), card.md and card.html (one page); the folder
    above has a summary. What was found before on the same task is not tried again; an interrupted battery goes on where
    it stopped.

    Exits 0 when every task was tried, whatever its grade; 1 when one could not be, falls short of the --gate, or has
    rotted (--radar).
    """
    require("proof", "tree_sitter", "tree_sitter_bash", purpose="proving tasks")
    import asyncio

    from termarena.core.errors import NotFound
    from termarena.core.settings import resolve_settings
    from termarena.proof.battery import BatteryOptions
    from termarena.proof.policy import read_policy
    from termarena.proof.proving import ProveOptions, look_again, write_summary
    from termarena.proof.proving import prove as carry_out
    from termarena.proof.summary import summary_of
    from termarena.sandbox.drivers import AUTO, DRIVERS, check_driver

    policy = read_policy(gate) if gate is not None else None
    known = (*DRIVERS, AUTO)
    if driver not in known:
        raise NotFound(f"no driver is called {driver}", known=known)
    check_driver(driver)
    chosen = _tasks(tasks, strict=strict)
    options = ProveOptions(
        home=resolve_settings().settings.paths.home,
        driver=driver,
        jobs=concurrency or 0,
        is_cached=not fresh,
        battery=BatteryOptions(attempts=attempts, mutants=mutants),
        on_trial=_Telling().trial,
    )
    if radar:
        seen = asyncio.run(look_again(chosen, options, out=out, on_sighting=_say_sighting))
        raise typer.Exit(_print_radar(seen, json=json))
    proven = asyncio.run(carry_out(chosen, options, out=out, on_proof=_say_proof))
    summary = summary_of([one.proof for one in proven if one.proof is not None])
    write_summary(summary, out)
    _print(proven, policy, out, json=json)
    if any(one.proof is None or _short(one, policy) for one in proven):
        raise typer.Exit(1)


def _short(proven: Proven, policy: Policy | None) -> tuple[str, ...]:
    from termarena.proof.policy import falls_short

    return falls_short(proven.proof, policy) if policy is not None and proven.proof is not None else ()


def _tasks(names: list[str], *, strict: bool | None) -> list[Task]:
    """Every task that is named, each once, in the order of naming. Raises what opening them raises."""
    found: dict[str, Task] = {}
    for name in names:
        dataset = open_task_or_dataset(name, dataset=None, strict=strict)
        for task in dataset.whole():
            found.setdefault(task.provenance.path, task)
    return list(found.values())


class _Telling:
    """A word on stderr now and then: how many trials a task has behind it."""

    EVERY = 25

    def __init__(self) -> None:
        self._done: dict[str, int] = {}

    def trial(self, task: Task, evidence: Evidence) -> None:
        """One more is done."""
        done = self._done[task.id] = self._done.get(task.id, 0) + 1
        if done % self.EVERY == 0:
            say(f"{task.id}: {done} trials so far; stage: {evidence.stage}")


def _say_proof(proven: Proven) -> None:
    if proven.proof is None:
        say(f"{proven.task.id}: could not be tried: {proven.error}")
        return
    proof = proven.proof
    faults = ", ".join(dict.fromkeys(fault.rule for fault in proof.faults)) or "no fault"
    say(f"{proof.task_id}: {proof.letter}, {faults}; {proof.trials_run} of {proof.trials} trials in {proof.seconds} s")


def _print(proven: list[Proven], policy: Policy | None, out: Path, *, json: bool) -> None:
    from termarena.core.run_folder import folder_name

    if json:
        print_json([_as_json(one, policy) for one in proven])
        return
    rows = [
        (one.task.id, one.proof.letter, ", ".join(dict.fromkeys(fault.rule for fault in one.proof.faults)))
        if one.proof
        else (one.task.id, "-", f"not tried: {one.error}")
        for one in proven
    ]
    print_table(["task", "grade", "faults"], rows)
    if cards := [out / folder_name(one.task.id) / "card.md" for one in proven if one.proof]:
        say(f"next: read {cards[0] if len(cards) == 1 else out / 'summary.md'}")
    for one in proven:
        for reason in _short(one, policy):
            say(f"{one.task.id} falls short: {reason}")


def _as_json(proven: Proven, policy: Policy | None) -> dict[str, object]:
    if proven.proof is None:
        return {"task_id": proven.task.id, "error": str(proven.error)}
    plain: dict[str, object] = proven.proof.model_dump(mode="json", exclude={"evidence"})
    return plain if policy is None else {**plain, "falls_short": list(_short(proven, policy))}


def _say_sighting(sighting: Sighting) -> None:
    say(f"{sighting.task_id}: {sighting.status}")


def _print_radar(seen: list[Sighting | Proven], *, json: bool) -> int:
    """Tell what the radar saw; the exit status."""
    from termarena.proof.proving import Proven

    failed = [one for one in seen if isinstance(one, Proven)]
    sightings = [one for one in seen if not isinstance(one, Proven)]
    if json:
        errors: list[dict[str, object]] = [{"task_id": one.task.id, "error": str(one.error)} for one in failed]
        print_json([*(one.model_dump(mode="json") for one in sightings), *errors])
    else:
        rows: list[tuple[str, str, str]] = [(one.task_id, one.status, _reasons(one)) for one in sightings]
        rows += [(one.task.id, "-", f"not tried: {one.error}") for one in failed]
        print_table(["task", "status", "why"], rows)
    return 1 if failed or any(one.status in ("rotted", "untried") for one in sightings) else 0


def _reasons(sighting: Sighting) -> str:
    if sighting.status == "unproven":
        return "there is no proof to compare with: run it without --radar first"
    if sighting.status == "untried":
        return f"could not be tried: {sighting.message}"
    parts = [
        ("files", sighting.paths),
        ("tests", sighting.tests),
        ("answered differently", sighting.answers),
        ("fetches", sighting.fetches),
    ]
    told = "; ".join(f"{name}: {', '.join(found)}" for name, found in parts if found)
    return told if told or sighting.passes else sighting.message
