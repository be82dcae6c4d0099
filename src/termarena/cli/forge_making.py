"""`termarena forge`, the making half: from recordings to proven tasks, with the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from termarena.cli.extras import require_forge
from termarena.cli.output import (
    Column,
    JsonOption,
    print_json,
    print_line,
    print_table,
    print_text,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.forge.making import Making
    from termarena.forge.transcript import Transcript

__all__ = ["DEFAULT_FORGE", "ForgeOption", "existing_forge", "home_folder", "mount"]

RecordingArgument = Annotated[Path, typer.Argument(metavar="RECORDING", help="A recording.")]
ForgeOption = Annotated[Path, typer.Option("--forge", metavar="FOLDER", help="The forge's folder: settings, ledger.")]
DEFAULT_FORGE = Path("forge")


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Made when it is not there.")] = DEFAULT_FORGE,
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


def status(
    *,
    forge: ForgeOption = DEFAULT_FORGE,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the funnel as Markdown.")] = False,
    html: Annotated[bool, typer.Option("--html", help="Print the funnel as a page.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what came of the recordings, gate by gate.

    \b
    termarena forge status
    termarena forge status --markdown
    termarena forge status --html > funnel.html
    termarena forge status --json
    """
    from termarena.forge.funnel import funnel_html, funnel_markdown
    from termarena.forge.ledger import Ledger
    from termarena.forge.yields import yields_of

    with Ledger(existing_forge(forge)) as ledger:
        found = yields_of(ledger.latest(), ledger.last_run(), ledger.cost_usd())
    if json:
        print_json(found.model_dump(mode="json"))
        return
    if markdown or html:
        print_text(funnel_html(found) if html else funnel_markdown(found))
        return
    columns: list[str | Column] = [
        "gate",
        Column("came", "right"),
        Column("refused", "right"),
        Column("passed", "right"),
    ]
    rows = [
        [gate.name, gate.came, gate.refused, f"{100 * gate.share:.0f} %" if gate.came else None] for gate in found.gates
    ]
    print_table(
        [*columns, "most often because"], [[*row, gate.example] for row, gate in zip(rows, found.gates, strict=True)]
    )
    print_line()
    rate = f", {found.tasks_per_hour:.0f} tasks an hour" if found.tasks_per_hour else ""
    if found.cost_usd is None:
        rate += ", at a cost that is not known"
    elif found.cost_usd and found.admitted:
        rate += f", ${found.cost_usd / found.admitted:.4f} a task"
    known = f"; {found.last_known} of the last run's {found.last_taken} were known" if found.last_taken else ""
    print_line(f"{found.admitted} admitted of {found.recordings} recordings, {found.failed} failed{rate}{known}")


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

    with Ledger(existing_forge(forge)) as ledger:
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
    """Remove a recording and everything made from it, in exported sets too, and never make anything of it again.

    \b
    termarena forge takedown session.cast
    termarena forge takedown https://asciinema.example/a/123456
    """
    from termarena.forge.forgetting import take_down
    from termarena.forge.ledger import Ledger
    from termarena.forge.retrieving import RECORDINGS

    with Ledger(existing_forge(forge)) as ledger:
        done = take_down(name, ledger, forge / RECORDINGS)
    if json:
        print_json({"recording": done.recording, "removed": done.removed})
        return
    for path in done.removed:
        print_line(path)
    say(f"{done.source} is taken down: {len(done.removed)} paths removed")


def mount(group: typer.Typer) -> None:
    """Put the commands of this module into a group."""
    for name, command in COMMANDS.items():
        group.command(name)(command)


COMMANDS: dict[str, Callable[..., None]] = {
    "init": init,
    "synthesize": synthesize,
    "reproduce": reproduce,
    "test": show_facts,
    "status": status,
    "explain": explain,
    "takedown": takedown,
}


def _transcript(recording: Path) -> Transcript:
    require_forge()
    from termarena.core.errors import UsageError
    from termarena.forge.intake import transcripts_in

    found = list(transcripts_in([recording]))
    if len(found) != 1:
        raise UsageError(f"{recording} holds {len(found)} recordings, not one", hint="use termarena forge run")
    return found[0]


def existing_forge(forge: Path) -> Path:
    """The folder of a forge that was begun; raises `NotFound`."""
    from termarena.core.errors import NotFound
    from termarena.forge.home import SETTINGS
    from termarena.forge.ledger import FILE

    if (forge / FILE).is_file():
        return forge
    if (forge / SETTINGS).is_file():
        hint = f"begin: termarena forge run RECORDINGS --forge {forge}"
        raise NotFound(f"nothing was made in the forge at {forge} yet", hint=hint)
    raise NotFound(f"no forge is at {forge}", hint="name one with --forge, or begin: termarena forge run RECORDINGS")


def home_folder() -> Path:
    """Where this user keeps what can be made again."""
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
        driver = open_driver("namespace", home=home_folder())
        try:
            async with Bench(driver) as bench:
                making = Making(transcript, bench, workspace, config)
                await stage(making)
                return evidence(making)
        finally:
            await driver.aclose()

    with tempfile.TemporaryDirectory(prefix="termarena-forge-") as workspace:
        return asyncio.run(go(Path(workspace)))


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
    for line in _around(found["environment"]):
        print_line(line)
    if found["facts"]:
        print_line()
        print_table(["fact", "about"], [[fact["probe"], fact["about"]] for fact in found["facts"]])
    for said in found.get("model", {}).get("said", ()):
        print_line(f"model: {said['kind']}: {said['outcome']}{': ' if said['why'] else ''}{said['why']}")
    if found["trials"]:
        print_line()
        rows = [[t["kind"], t["variant"], _ended(t)] for t in found["trials"]]
        print_table(["trial", "variant", "outcome"], rows)


def _around(environment: dict[str, Any]) -> list[str]:
    """What the session was done again with, as far as that is no matter of course."""
    lines = [f"in the repository {one['url']} at {one['commit'][:12]}" for one in environment.get("repositories", ())]
    lines += [f"not in the repository it lies in: {why}" for why in [environment.get("unlinked")] if why]
    lines += [f"as of the day: {name} {version}" for name, version in environment.get("dated", {}).items()]
    lines += [f"not of the day, but the newest: {name}" for name in environment.get("undated", ())]
    return lines + [f"left out, because Debian does not have it: {name}" for name in environment.get("left_out", ())]


def _ended(trial: dict[str, Any]) -> str:
    if trial["is_equal"]:
        return "same result: does not count"
    return "holds" if trial["holds"] else "broken"
