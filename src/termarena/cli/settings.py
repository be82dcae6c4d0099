"""`termarena settings`: every setting, its value, and where the value comes from."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING

import typer

from termarena.cli.help import command_group
from termarena.cli.output import JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from termarena.core.settings import Origin

__all__ = ["app"]

app = command_group("""Show every setting and where its value comes from.

\b
termarena settings
termarena settings path

A value comes from the first of: a flag, a TERMARENA_… variable, the project's termarena.toml (the nearest one from the
current folder upwards), the user's termarena.toml, the default.
""")


@app.callback(invoke_without_command=True, no_args_is_help=False)
def show(context: typer.Context, *, json: JsonOption = False) -> None:
    """Show every setting, unless a sub-command was named."""
    if context.invoked_subcommand is not None:
        return
    from termarena.core.settings import SETTING_NAMES, resolve_settings, variable_of

    resolved = resolve_settings()
    values = {name: _row(value, resolved.origins[name]) for name, value in resolved.values().items()}
    if json:
        print_json({"schema_version": 1, "kind": "settings", "settings": values})
    else:
        rows = [
            (name, _shown(row["value"]), row["from"], row["where"] or variable_of(name)) for name, row in values.items()
        ]
        print_table(["setting", "value", "from", "file or variable"], rows)
    _warn_of_near_misses([variable_of(name) for name in SETTING_NAMES])


@app.command("path")
def path(*, json: JsonOption = False) -> None:
    """Show the files that are looked at, the one that wins first.

    \b
    termarena settings path
    """
    from termarena.core.settings import resolve_settings

    files = resolve_settings().files
    if json:
        listed = [{"of": file.kind, "path": str(file.path), "is_there": file.is_there} for file in files]
        print_json({"schema_version": 1, "kind": "settings-files", "files": listed})
        return
    for file in files:
        print_line(f"{file.path}  ({file.kind}{'' if file.is_there else ', not there'})")


def _row(value: object, origin: Origin) -> dict[str, object]:
    from termarena.tasks.pull import shown

    return {"value": shown(value) if isinstance(value, str) else value, "from": origin.kind, "where": origin.where}


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _warn_of_near_misses(known: list[str]) -> None:
    """A variable that is nearly the name of a setting is more likely a slip than somebody else's."""
    for name in sorted(set(os.environ) - set(known)):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.85) if name.startswith("TERMARENA_") else []
        if near:
            say(f"warning: {name} names no setting; did you mean {near[0]}?")
