"""`termarena battle`: the kick-off."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli import serving_options
from termarena.cli.help import command_app
from termarena.cli.output import Column, JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.battles.asking import Asked
    from termarena.core.records import Json

__all__ = ["app"]

app = command_app()


@app.command()
def battle(  # noqa: PLR0913 - every option of the command is a parameter
    *,
    white: Annotated[str, typer.Option("--white", metavar="URL", help="The agent to be measured.")],
    green: Annotated[str, typer.Option("--green", metavar="URL", help="The referee.")] = "http://127.0.0.1:9009",
    task: Annotated[
        list[str] | None, typer.Option("--task", "-t", metavar="ID", help="This task, or those a glob matches; repeat.")
    ] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", metavar="A,B", help="These tasks.")] = None,
    n_tasks: Annotated[int | None, typer.Option("--n-tasks", metavar="N", min=1, help="The first so many.")] = None,
    attempts: Annotated[int, typer.Option("--attempts", "-k", metavar="K", min=1, help="Trials per task.")] = 1,
    max_parallel: Annotated[
        int | None, typer.Option("--max-parallel", metavar="N", min=1, help="Trials at once.")
    ] = None,
    backend: Annotated[
        str | None, typer.Option("--backend", metavar="URL", help="Through this AgentBeats backend, which knows both.")
    ] = None,
    key_file: serving_options.SentKeyFileOption = None,
    allow_network: serving_options.AllowNetworkOption = None,
    json: JsonOption = False,
) -> None:
    """Ask a green agent for a battle with a white agent, and show how it goes.

    \b
    termarena battle --white http://127.0.0.1:9019 --task hello-world
    termarena battle --green http://127.0.0.1:9009 --white http://127.0.0.1:9019 --tasks hello-world,sales-summary
    termarena battle --white http://127.0.0.1:9019 --n-tasks 10 -k 3 --json
    termarena battle --backend http://127.0.0.1:9000 --white http://127.0.0.1:9019 --task hello-world

    The green agent's key, where it asks for one, is in TERMARENA_GREEN_KEY or --key-file. Ctrl-C cancels the battle.
    Exits 0 for a battle that ended, whatever the score, 1 when nothing could be scored or the green agent failed, 2
    when it refused.
    """
    serving_options.require_packages("battle")
    import asyncio

    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.asking import Asked, ask_for_battle
    from termarena.cli.serving import GREEN_KEY, key_in

    names: list[Json] = [*(task or []), *(tasks.split(",") if tasks else [])]
    config: dict[str, Json] = {"tasks": names or "all", "attempts": attempts}
    config |= {"n_tasks": n_tasks} if n_tasks is not None else {}
    config |= {"max_parallel": max_parallel} if max_parallel is not None else {}
    asked = Asked(green, white, config, key_in(key_file, GREEN_KEY))
    policy = AddressPolicy.of(allow_network or [])
    if backend is not None:
        from termarena.battles.asking import ask_backend
        from termarena.battles.backend import Backend
        from termarena.cli.serving import TOKEN_VARIABLE

        known = Backend(backend, policy, os.environ.get(TOKEN_VARIABLE))
        result = asyncio.run(ask_backend(known, asked, say))
    else:
        result = asyncio.run(ask_for_battle(asked, say, policy=policy))
    _print(asked, result, json=json)
    if result.get("unscored") == result.get("max_score"):
        say("error: no trial could be scored")
        raise typer.Exit(1)


def _print(asked: Asked, result: Mapping[str, object], *, json: bool) -> None:
    if json:
        print_json(result)
        return
    rows = result.get("rows")
    cells = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    names = ("task_id", "attempt", "outcome", "failure_mode", "n_commands", "duration_sec")
    titles: list[str | Column] = ["task", Column("attempt", "right"), "outcome", "failure"]
    titles += [Column("commands", "right"), Column("seconds", "right")]
    print_table(titles, [[_shown(row.get(name)) for name in names] for row in cells])
    print_line()
    score = f"{_whole(result.get('score'))} of {_whole(result.get('max_score'))} solved"
    print_line(f"{asked.white_url}: {score}, pass rate {result.get('pass_rate')} %")


def _shown(value: object) -> object:
    """A cell of the table: no failure is an empty one."""
    return None if value == "NONE" else _whole(value)


def _whole(value: object) -> object:
    """Protobuf makes every number a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
