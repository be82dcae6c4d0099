"""`termarena forge`, the making half: from recordings to proven tasks, with the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from termarena.cli.extras import require
from termarena.cli.output import (
    Column,
    JsonOption,
    print_json,
    print_line,
    print_table,
    print_text,
    progress,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.forge.ledger import Outcome
    from termarena.forge.making import Making
    from termarena.forge.transcript import Transcript

__all__ = ["mount"]

RecordingArgument = Annotated[Path, typer.Argument(metavar="RECORDING", help="A recording.")]
ForgeOption = Annotated[Path, typer.Option("--forge", metavar="FOLDER", help="The forge's folder: settings, ledger.")]
DEFAULT_FORGE = Path("forge")
STATES = {"admitted": "green", "refused": "yellow", "failed": "red"}


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Made when it is not there.")] = DEFAULT_FORGE,
    *,
    json: JsonOption = False,
) -> None:
    """Make a forge's folder, with settings to change.

    \b
    termarena forge init
    termarena forge init my-forge
    """
    from termarena.forge.home import init as make_folder

    path = make_folder(folder)
    print_json({"folder": str(folder), "settings": str(path)}) if json else print_line(str(path))
    say(f"next: termarena forge run RECORDINGS --forge {folder}")


def synthesize(recording: RecordingArgument, *, json: JsonOption = False) -> None:
    """Show the solution that a session is sliced into, and why each command is part of it or not.

    \b
    termarena forge synthesize session.cast
    termarena forge synthesize session.cast --json

    Nothing is run.
    """
    from termarena.forge.draft import synthesize as slice_session

    draft = slice_session(_transcript(recording))
    if json:
        steps = [{"number": s.number, "command": s.text, "role": s.role, "reason": s.reason} for s in draft.steps]
        print_json({"id": draft.id, "solution": draft.solution, "inputs": draft.preparation, "steps": steps})
        return
    for step in draft.steps:
        say(f"{step.number:3} {step.role:8} {step.text[:80]}{f'  ({step.reason})' if step.reason else ''}")
    print_text(draft.solution.rstrip("\n"))


def reproduce(recording: RecordingArgument, *, forge: ForgeOption = DEFAULT_FORGE, json: JsonOption = False) -> None:
    """Run a session again in a sandbox without a network, and hold it against the recording.

    \b
    termarena forge reproduce session.cast

    Shows of each command how it ended and how like its output is to the recorded one. Exits 1 for a session that is
    refused.
    """
    found = _try(recording, forge, lambda making: making.reproduce())
    if json:
        print_json({name: found[name] for name in ("task_id", "fidelity", "steps")})
        return
    columns: list[str | Column] = [Column("step", "right"), "role", Column("status", "right"), Column("like", "right")]
    rows = [[s["number"], s["role"], s.get("status"), s.get("likeness"), s["command"][:100]] for s in found["steps"]]
    print_table([*columns, "command"], rows)
    print_line(f"fidelity {found['fidelity']:.2f}")


def show_facts(recording: RecordingArgument, *, forge: ForgeOption = DEFAULT_FORGE, json: JsonOption = False) -> None:
    """Show the facts that a session leaves in every perturbed run: one test each.

    \b
    termarena forge test session.cast
    """
    found = _try(recording, forge, lambda making: making.test())
    if json:
        print_json({name: found[name] for name in ("task_id", "fidelity", "facts")})
        return
    print_table(["probe", "about"], [[fact["probe"], fact["about"]] for fact in found["facts"]])


def run(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Recordings: files, or folders of them.")],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Where tasks go; else tasks/ of the forge.")
    ] = None,
    forge: ForgeOption = DEFAULT_FORGE,
    slots: Annotated[int, typer.Option("--slots", "-n", min=1, help="Recordings at once.")] = 2,
    json: JsonOption = False,
) -> None:
    """Make tasks of recordings: every stage, every gate; admitted tasks are written, the others explained.

    \b
    termarena forge run session.cast --out tasks
    termarena forge run recordings/ -n 4
    termarena forge run recordings/ --json

    What the ledger has an outcome for is not made again; interrupted, the same command goes on. Exits 0 whatever was
    refused, 1 if something failed that is not the recordings' fault.
    """
    _require_packages()
    from termarena.forge.home import TASKS
    from termarena.forge.home import init as make_folder
    from termarena.forge.intake import transcripts_in

    make_folder(forge)
    transcripts = list(transcripts_in(paths, lambda _, error: say(f"unreadable: {error}")))
    outcomes: list[Outcome] = []
    with progress("recordings", total=len(transcripts)) as bar:

        def on_outcome(outcome: Outcome, was_known: bool) -> None:  # noqa: FBT001 - the library's callback
            outcomes.append(outcome)
            bar.advance()
            say(f"{outcome.state}{' (known)' if was_known else ''}: {outcome.source}: {_why(outcome)}")

        _work(transcripts, out or forge / TASKS, forge, slots=slots, on_outcome=on_outcome)
    _show_outcomes(outcomes, as_json=json)
    if any(outcome.state == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def status(*, forge: ForgeOption = DEFAULT_FORGE, json: JsonOption = False) -> None:
    """Show what came of the recordings, gate by gate.

    \b
    termarena forge status
    termarena forge status --json
    """
    from termarena.forge.ledger import Ledger
    from termarena.forge.yields import yields_of

    with Ledger(_existing(forge)) as ledger:
        found = yields_of(ledger.latest())
    if json:
        print_json(found.model_dump(mode="json"))
        return
    columns: list[str | Column] = [
        "gate",
        Column("came", "right"),
        Column("refused", "right"),
        Column("passed", "right"),
    ]
    rows = [[gate.name, gate.came, gate.refused, f"{gate.share:.0%}" if gate.came else None] for gate in found.gates]
    print_table(
        [*columns, "most often because"], [[*row, gate.example] for row, gate in zip(rows, found.gates, strict=True)]
    )
    print_line()
    rate = f", {found.tasks_per_hour:.0f} tasks an hour" if found.tasks_per_hour else ""
    print_line(f"{found.admitted} admitted of {found.recordings} recordings, {found.failed} failed{rate}")


def explain(
    name: Annotated[str, typer.Argument(metavar="ID", help="A recording's file, digest or task.")],
    *,
    forge: ForgeOption = DEFAULT_FORGE,
    json: JsonOption = False,
) -> None:
    """Say what was decided about a recording, at which gate, and on what evidence.

    \b
    termarena forge explain session.cast
    termarena forge explain sort-the-names-6b00a56f --json
    """
    from termarena.forge.ledger import Ledger

    with Ledger(_existing(forge)) as ledger:
        outcome = ledger.find(name)
        found = ledger.evidence(outcome.evidence)
    if json:
        print_json({**outcome._asdict(), "evidence": found})
        return
    print_line(f"{outcome.source}: {outcome.state} at {outcome.gate}: {outcome.reason}")
    _explain(found)


def takedown(
    name: Annotated[str, typer.Argument(metavar="ID", help="A recording's file, digest or task.")],
    *,
    forge: ForgeOption = DEFAULT_FORGE,
    json: JsonOption = False,
) -> None:
    """Remove everything made from a recording, and never make anything of it again.

    \b
    termarena forge takedown session.cast
    """
    from termarena.forge.ledger import Ledger

    with Ledger(_existing(forge)) as ledger:
        outcome = ledger.find(name)
        removed = ledger.take_down(outcome)
    if json:
        print_json({"recording": outcome.recording, "removed": removed})
        return
    for path in removed:
        print_line(path)
    say(f"{outcome.source} is taken down: {len(removed)} paths removed")


def mount(group: typer.Typer) -> None:
    """Put the commands of this module into a group."""
    for name, command in COMMANDS.items():
        group.command(name)(command)


COMMANDS: dict[str, Callable[..., None]] = {
    "init": init,
    "synthesize": synthesize,
    "reproduce": reproduce,
    "test": show_facts,
    "run": run,
    "status": status,
    "explain": explain,
    "takedown": takedown,
}


def _require_packages() -> None:
    require("forge", "detect_secrets", "tree_sitter", "tree_sitter_bash", purpose="making tasks of recordings")


def _transcript(recording: Path) -> Transcript:
    _require_packages()
    from termarena.core.errors import UsageError
    from termarena.forge.intake import transcripts_in

    found = list(transcripts_in([recording]))
    if len(found) != 1:
        raise UsageError(f"{recording} holds {len(found)} recordings, not one", hint="use termarena forge run")
    return found[0]


def _existing(forge: Path) -> Path:
    from termarena.core.errors import NotFound
    from termarena.forge.ledger import FILE

    if not (forge / FILE).is_file():
        raise NotFound(
            f"no forge is at {forge}", hint="name one with --forge, or begin: termarena forge run RECORDINGS"
        )
    return forge


def _home() -> Path:
    from termarena.core.settings import resolve_settings

    return resolve_settings().settings.paths.home


def _try(recording: Path, forge: Path, stage: Callable[[Making], Awaitable[Any]]) -> dict[str, Any]:
    """The evidence after one stage of one recording; nothing is written."""
    import asyncio
    import tempfile

    from termarena.forge.bench import Bench
    from termarena.forge.home import settings_of
    from termarena.forge.making import Making, evidence
    from termarena.sandbox.drivers import open_driver

    transcript, config = _transcript(recording), settings_of(forge)

    async def go(workspace: Path) -> dict[str, Any]:
        driver = open_driver("namespace", home=_home())
        try:
            async with Bench(driver) as bench:
                making = Making(transcript, bench, workspace, config)
                await stage(making)
                return evidence(making)
        finally:
            await driver.aclose()

    with tempfile.TemporaryDirectory(prefix="termarena-forge-") as workspace:
        return asyncio.run(go(Path(workspace)))


def _work(
    transcripts: list[Transcript], out: Path, forge: Path, *, slots: int, on_outcome: Callable[[Outcome, bool], None]
) -> None:
    import asyncio

    from termarena.forge.home import settings_of
    from termarena.forge.ledger import Ledger
    from termarena.forge.working import Order, work
    from termarena.sandbox.drivers import open_driver

    order = Order(transcripts, out, settings_of(forge), slots)

    async def go(ledger: Ledger) -> None:
        driver = open_driver("namespace", home=_home())
        try:
            await work(order, ledger, driver, on_outcome)
        finally:
            await driver.aclose()

    with Ledger(forge) as ledger:
        asyncio.run(go(ledger))


def _why(outcome: Outcome) -> str:
    if outcome.state == "admitted":
        return f"{outcome.task_id} (fidelity {outcome.fidelity:.2f}, mutation score {outcome.mutation_score:.2f})"
    return f"{outcome.gate}: {outcome.reason}"


def _show_outcomes(outcomes: list[Outcome], *, as_json: bool) -> None:
    ordered = sorted(outcomes, key=lambda outcome: outcome.source)
    if as_json:
        print_json([outcome._asdict() for outcome in ordered])
        return
    columns: list[str | Column] = ["recording", Column("outcome", styles=STATES), "task or reason"]
    print_table(columns, [[Path(one.source).name, one.state, _why(one)] for one in ordered])
    print_line()
    admitted = [one for one in ordered if one.state == "admitted"]
    print_line(f"{len(admitted)} of {len(ordered)} recordings became tasks")
    if admitted and admitted[0].folder:
        say(f"next: termarena run --path {Path(admitted[0].folder).parent} --agent oracle")


def _explain(found: dict[str, Any]) -> None:
    columns: list[str | Column] = [Column("step", "right"), "role", Column("status", "right"), Column("like", "right")]
    rows = [
        [step["number"], step["role"], step.get("status"), step.get("likeness"), step["command"][:80], step["reason"]]
        for step in found["steps"]
    ]
    for finding in found["screening"]:
        print_line(
            f"screen: {finding['gate']}: {finding['reason']}{' (refused)' if finding['effect'] == 'drop' else ''}"
        )
    if rows:
        print_table([*columns, "command", "why"], rows)
    if found["facts"]:
        print_line()
        print_table(["fact", "about"], [[fact["probe"], fact["about"]] for fact in found["facts"]])
    if found["trials"]:
        print_line()
        rows = [[t["kind"], t["variant"], _ended(t)] for t in found["trials"]]
        print_table(["trial", "variant", "outcome"], rows)


def _ended(trial: dict[str, Any]) -> str:
    if trial["is_equal"]:
        return "same result: does not count"
    return "holds" if trial["holds"] else "broken"
