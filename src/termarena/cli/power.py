"""`termarena power`: what a comparison will be able to find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_line, say

if TYPE_CHECKING:
    from termarena.analysis.planning import PowerPlan

__all__ = ["app"]

app = command_app()


@app.command()
def power(  # noqa: PLR0913 - one parameter per option
    *,
    tasks: Annotated[
        int | None, typer.Option("--tasks", "-t", min=1, metavar="N", help="Tasks; else those of --from.")
    ] = None,
    attempts: Annotated[int, typer.Option("--attempts", "-k", min=1, metavar="K", help="Attempts at each.")] = 1,
    runs: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="RUN", help="Take the noise from an earlier run, or from two (given twice)."),
    ] = None,
    effect: Annotated[
        float | None, typer.Option(metavar="POINTS", help="A difference in points of accuracy: how many tasks find it?")
    ] = None,
    alpha: Annotated[
        float, typer.Option(metavar="SHARE", help="How often equal agents may be called different.")
    ] = 0.05,
    wanted: Annotated[
        float, typer.Option("--power", metavar="SHARE", help="How often the difference is to be found.")
    ] = 0.8,
    json: JsonOption = False,
) -> None:
    """Say how small a difference between two agents can be and still be found, before anything is spent.

    \b
    termarena power --tasks 89 --attempts 5
    termarena power --tasks 89 --attempts 5 --effect 5
    termarena power --from runs/2026-11-15T10-00-00Z-mine --attempts 3

    Both agents try every task so often, and are compared task by task, as `termarena compare` does.
    """
    from termarena.analysis.planning import PowerOptions, noise_of, plan_power
    from termarena.cli.finding import find_run
    from termarena.core.errors import UsageError
    from termarena.runs.reading import read_run

    noise = noise_of([read_run(find_run(name)) for name in runs or ()])
    number = tasks or noise.tasks
    if number is None:
        raise UsageError("how many tasks?", hint="give --tasks N, or --from RUN to take those of a run")
    share = effect / 100 if effect is not None else None
    plan = plan_power(PowerOptions(number, attempts, alpha=alpha, power=wanted, effect=share), noise)
    _print_json(plan) if json else _print(plan)


def _print_json(plan: PowerPlan) -> None:
    from dataclasses import asdict

    print_json({"schema_version": 1, "kind": "power", **asdict(plan)})


def _print(plan: PowerPlan) -> None:
    from termarena.reports.telling import count

    options, variances = plan.options, plan.noise.variances
    size = f"{count(options.tasks, 'task')}, {count(options.attempts, 'attempt')} each"
    if plan.effect is None:
        print_line(f"{size}: no difference can be found at {options.alpha:g}, however large")
    else:
        beyond = "; no two agents can differ so much" if plan.effect > 1 else ""
        print_line(f"{size}: differences of {_points(plan.effect)} or more are found{beyond}")
    others = ", ".join(f"{number}: {_points(found)}" for number, found in plan.by_attempts.items())
    if others:
        print_line(f"by attempts: {others}; however many: {_points(plan.floor)}")
    if options.effect is not None:
        needed = "more than ten million" if plan.tasks_needed is None else f"{plan.tasks_needed:,}"
        print_line(f"for {_points(options.effect)}: {needed} tasks, {count(options.attempts, 'attempt')} each")
    found, wrong = f"{100 * options.power:g} %", f"{100 * options.alpha:g} %"
    say(f"found: in {found} of cases; equal agents are called different in {wrong} at most")
    say(f"noise: {plan.noise.source}; between tasks {variances.between:.3f}, within {variances.within:.3f}")
    if not variances.is_split:
        say("note: no task was tried twice there, so what more attempts would bring is not known")


def _points(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} points"
