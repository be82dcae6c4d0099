"""`termarena doctor`: what this machine can do, found out by trying."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.help import command_app
from termarena.cli.output import Column, JsonOption, print_json, print_line, print_table
from termarena.core.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.cli.checks import Check

__all__ = ["app"]

app = command_app()

STATUS_STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}


@app.command()
def doctor(
    *,
    docker: Annotated[bool, typer.Option("--docker", help="Fail (exit 1) unless a container engine answers.")] = False,
    json: JsonOption = False,
) -> None:
    """Say what this machine can do, and what to do about each thing that is missing.

    \b
    termarena doctor
    termarena doctor --docker

    Every line is found out by trying, as the current user; nothing is left behind. Keys are named, never shown.
    """
    from termarena.cli.checks import CHECKS, Machine

    machine = Machine()
    checks = [check(machine) for check in CHECKS]
    if json:
        print_json({"schema_version": 1, "kind": "doctor", "checks": [asdict(check) for check in checks]})
    else:
        _show(checks)
    engine = next(check for check in checks if check.name == "container engine")
    if docker and engine.status != "ok":
        raise SandboxError(f"no container engine answers: {engine.found}", hint=engine.advice)


def _show(checks: Sequence[Check]) -> None:
    columns: list[str | Column] = ["check", Column("status", styles=STATUS_STYLES), "found"]
    print_table(columns, [(check.name, check.status, check.found) for check in checks])
    advised = [check for check in checks if check.advice]
    if advised:
        print_line()
        print_line("What to do:")
        for check in advised:
            print_line(f"  {check.name}: {check.advice}")
