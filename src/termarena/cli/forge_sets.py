"""`termarena forge`, sets of tasks: giving them away, counting them, having people look at them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from termarena.cli.forge_making import DEFAULT_FORGE, ForgeOption, existing_forge
from termarena.cli.help import command_group
from termarena.cli.output import Column, JsonOption, print_json, print_line, print_table, print_text, say

if TYPE_CHECKING:
    from termarena.forge.reviewing import Reviewed

__all__ = ["mount"]

SHOWN_PROGRAMS = 20
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="An admitted task.")]
AnnotatorOption = Annotated[str, typer.Option("--as", metavar="NAME", help="Whose word it is.")]
NoteOption = Annotated[str, typer.Option("--note", metavar="TEXT", help="What else there is to say.")]


class Word(StrEnum):
    """What a reviewer says."""

    ACCEPT = "accept"
    REJECT = "reject"


WordArgument = Annotated[Word, typer.Argument(metavar="accept|reject")]


def export(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Made, or written anew if it is such a set.")],
    *,
    forge: ForgeOption = DEFAULT_FORGE,
    name: Annotated[str, typer.Option("--name", metavar="ORGANISATION/NAME", help="Of the set.")] = "forge/set",
    verified: Annotated[bool, typer.Option("--verified", help="Only what two people accepted.")] = False,
    longest_span: Annotated[
        int,
        typer.Option(
            "--longest-span", metavar="N", min=0, help="Characters of a recording in a row without a licence."
        ),
    ] = 1000,
    json: JsonOption = False,
) -> None:
    """Write the admitted tasks as a set to give away: tasks, manifest, card with lineage, links and licences.

    \b
    termarena forge export my-set --name me/shell-sessions
    termarena forge export verified-set --verified
    termarena run --path my-set --agent oracle

    No recording goes along. A task that holds more of its recording than --longest-span, where no licence is known,
    stays behind and is told.
    """
    from termarena.forge.exporting import ExportPlan
    from termarena.forge.exporting import export as write_set
    from termarena.forge.ledger import Ledger
    from termarena.forge.reviewing import Reviews

    with Ledger(existing_forge(forge)) as ledger:
        accepted = {one.recording: one.accepted_by for one in Reviews(ledger).all() if one.standing == "accepted"}
        plan = ExportPlan(out, name, longest_span, "only" if verified else "all")
        done = write_set(plan, ledger, accepted)
    for one in done.left_out:
        say(f"left out: {one.task}: {one.reason}")
    if json:
        print_json(done.model_dump(mode="json"))
        return
    print_line(f"{done.folder}: {len(done.tasks)} tasks, {len(done.left_out)} left out")
    say(f"next: termarena run --path {out} --agent oracle")


def stats(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="FOLDER", help="Tasks; by default those of the forge.")
    ] = None,
    *,
    forge: ForgeOption = DEFAULT_FORGE,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", metavar="FOLDER", help="Another set, in any format; may be given again."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Count what a set is made of: categories, programs, and the share of them that another set does not have.

    \b
    termarena forge stats
    termarena forge stats my-set --against terminal-bench/tasks
    termarena forge stats my-set --json
    """
    from termarena.forge.counting import count_sets
    from termarena.forge.home import TASKS

    found = count_sets(folders or [forge / TASKS], against or ())
    if json:
        print_json({**found.model_dump(mode="json"), "absent_share": found.absent_share})
        return
    for title, counts in (
        ("category", found.categories),
        ("TerminalWorld's category", found.terminalworld_categories),
        ("licence", found.licences),
        ("program", dict(list(found.programs.items())[:SHOWN_PROGRAMS])),
    ):
        print_table([title, Column("tasks", "right")], list(counts.items()))
        print_line()
    broken = f", {found.broken} that do not load" if found.broken else ""
    told = f"{found.tasks} tasks{broken}; {len(found.programs)} programs; {found.calls_median:g} calls a solution"
    if found.absent_share is not None:
        absent = f"{100 * found.absent_share:.0f} % of the programs are not in the other set"
        told += f"; {absent}, which has {found.against_programs}"
    print_line(told)


review = command_group("Have two people look at each task; where they differ, a third decides.")


@review.command("queue")
def queue_command(*, annotator: AnnotatorOption, forge: ForgeOption = DEFAULT_FORGE, json: JsonOption = False) -> None:
    """Show what waits for somebody's review, tasks with one review first.

    \b
    termarena forge review queue --as ann
    termarena forge review queue --as ann --json
    """
    from termarena.forge.ledger import Ledger
    from termarena.forge.reviewing import Reviews

    with Ledger(existing_forge(forge)) as ledger:
        waiting = Reviews(ledger).queue(annotator)
    if json:
        # What others said stays untold: two who know of each other are not two.
        print_json([{"task": one.task, "folder": one.folder, "reviews": len(one.reviews)} for one in waiting])
        return
    print_table(
        ["task", Column("reviews", "right"), "folder"], [[one.task, len(one.reviews), one.folder] for one in waiting]
    )
    if waiting:
        say(f"next: termarena forge review show {waiting[0].task}")


@review.command("show")
def show_command(task: TaskArgument, *, forge: ForgeOption = DEFAULT_FORGE, json: JsonOption = False) -> None:
    """Show what is to be judged: the instruction, the solution, the tests.

    \b
    termarena forge review show sort-the-names-6b00a56f
    """
    from termarena.core.errors import NotFound
    from termarena.forge.ledger import Ledger

    with Ledger(existing_forge(forge)) as ledger:
        outcome = ledger.find(task)
    if outcome.folder is None or not Path(outcome.folder).is_dir():
        raise NotFound(f"the folder of {task} is gone", hint="run the forge again")
    names = ("instruction.md", "solution/solve.sh", "tests/test_state.py")
    texts = {name: (Path(outcome.folder) / name).read_text("utf-8") for name in names}
    if json:
        print_json({"task": outcome.task_id, "source": outcome.source, "folder": outcome.folder, "files": texts})
        return
    print_line(f"{outcome.task_id}, made of {outcome.source}")
    for name, text in texts.items():
        print_line(f"--- {name}")
        print_text(text.rstrip("\n"))
    say(f"next: termarena forge review judge {outcome.task_id} accept --as NAME")


@review.command("judge")
def judge_command(  # noqa: PLR0913 - one parameter per option
    task: TaskArgument,
    word: WordArgument,
    *,
    annotator: AnnotatorOption,
    flaws: Annotated[
        list[str] | None,
        typer.Option(
            "--flaw",
            metavar="FLAW",
            help="unclear, given-away, unfair, weak, trivial, private, harmful; may be given again.",
        ),
    ] = None,
    note: NoteOption = "",
    forge: ForgeOption = DEFAULT_FORGE,
    json: JsonOption = False,
) -> None:
    """Say whether a task is to be kept; a rejection has a reason.

    \b
    termarena forge review judge sort-the-names-6b00a56f accept --as ann
    termarena forge review judge sort-the-names-6b00a56f reject --as bob --flaw unclear --note "which order?"
    """
    from termarena.core.errors import NotFound
    from termarena.forge.ledger import Ledger
    from termarena.forge.reviewing import Flaw, Reviews

    unknown = [flaw for flaw in flaws or () if flaw not in list(Flaw)]
    if unknown:
        raise NotFound(f"no flaw is called {unknown[0]}", known=tuple(Flaw))
    with Ledger(existing_forge(forge)) as ledger:
        said = {"accepts": word is Word.ACCEPT, "flaws": [Flaw(one) for one in flaws or ()], "note": note}
        _tell(Reviews(ledger).judge(task, annotator, **said), json=json)  # type: ignore[arg-type]  # as named above


@review.command("resolve")
def resolve_command(
    task: TaskArgument,
    word: WordArgument,
    *,
    annotator: AnnotatorOption,
    note: NoteOption = "",
    forge: ForgeOption = DEFAULT_FORGE,
    json: JsonOption = False,
) -> None:
    """Decide between two who differ; a third person does.

    \b
    termarena forge review resolve sort-the-names-6b00a56f accept --as cleo
    """
    from termarena.forge.ledger import Ledger
    from termarena.forge.reviewing import Reviews

    with Ledger(existing_forge(forge)) as ledger:
        _tell(Reviews(ledger).resolve(task, annotator, accepts=word is Word.ACCEPT, note=note), json=json)


@review.command("status")
def status_command(*, forge: ForgeOption = DEFAULT_FORGE, json: JsonOption = False) -> None:
    """Show what stands of every task, and how well the two who looked at each agree (Cohen's kappa).

    \b
    termarena forge review status
    termarena forge review status --json
    """
    from termarena.forge.ledger import Ledger
    from termarena.forge.reviewing import Reviews
    from termarena.stats import agreement_of

    with Ledger(existing_forge(forge)) as ledger:
        reviews = Reviews(ledger)
        every, agreement = reviews.all(), agreement_of(reviews.pairs())
    if json:
        print_json({"tasks": [_told(one) for one in every], "agreement": agreement._asdict()})
        return
    styles = {"accepted": "green", "rejected": "red", "disputed": "yellow"}
    rows = [[one.task, one.standing, len(one.reviews), _flaws(one)] for one in every]
    print_table(["task", Column("stands", styles=styles), Column("reviews", "right"), "flaws"], rows)
    print_line()
    if agreement.observed is None:
        print_line("no task has two reviews yet")
        return
    kappa = "undefined: both always said the same" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    print_line(
        f"{agreement.pairs} tasks with two reviews; they agree on {100 * agreement.observed:.0f} %, kappa {kappa}"
    )


def mount(group: typer.Typer) -> None:
    """Put the commands of this module into a group."""
    group.command("export")(export)
    group.command("stats")(stats)
    group.add_typer(review, name="review")


def _told(one: Reviewed) -> dict[str, Any]:
    """With what was said; of a task that still waits, only how many reviews there are."""
    said = [review._asdict() for review in one.reviews] if one.standing != "waiting" else []
    return {"task": one.task, "standing": one.standing, "reviews": len(one.reviews), "said": said}


def _flaws(one: Reviewed) -> str:
    return ", ".join(sorted({flaw for review in one.reviews for flaw in review.flaws if one.standing != "waiting"}))


def _tell(one: Reviewed, *, json: bool) -> None:
    if json:
        print_json(_told(one))
        return
    print_line(f"{one.task}: {one.standing}")
    if one.standing == "disputed":
        say(f"next: somebody else decides: termarena forge review resolve {one.task} accept --as NAME")
