"""`termarena agents`: which agents there are, and installing those that live in the sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from termarena.cli.help import command_group
from termarena.cli.output import JsonOption, print_json, print_line, print_table, say

if TYPE_CHECKING:
    from termarena.agents.installed.description import Description
    from termarena.agents.installed.layers import Layer

__all__ = ["app"]

app = command_group("List agents, and install those that live in the sandbox.")


@app.command("list")
def list_agents(*, json: JsonOption = False) -> None:
    """List every agent, its kind and what it needs.

    \b
    termarena agents list
    termarena agents list --json

    Capitals stand for something to fill in. A version is what is installed unless you ask for another one, as in
    cli:codex@0.34.0.
    """
    rows = _rows()
    if json:
        print_json({"agents": [row._asdict() for row in rows]})
        return
    shown = [[row.word, row.kind, row.version or "", ", ".join(row.needs), row.summary] for row in rows]
    print_table(["agent", "kind", "version", "needs", "is"], shown)


class _Row(NamedTuple):
    """One agent."""

    word: str
    kind: str
    needs: tuple[str, ...]
    summary: str
    version: str | None = None


def _rows() -> list[_Row]:
    from termarena.agents.installed.description import catalog
    from termarena.agents.registry import known_agents

    rows: list[_Row] = []
    for known in known_agents():
        if known.kind == "installed":
            rows.extend(_installed(description) for description in catalog().values())
            needs = ("--model", "a description in TOML")
            rows.append(_Row("cli:custom:FILE", "installed", needs, "any other program, by a description of yours"))
        else:
            rows.append(_Row(known.word, known.kind, (known.needs,) if known.needs else (), known.summary))
    return rows


def _installed(description: Description) -> _Row:
    needs = ("--model", *description.requires, *description.needs_env)
    return _Row(f"cli:{description.name}", "installed", needs, description.summary, description.version)


@app.command("install")
def install(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As behind cli: — NAME, NAME@VERSION or custom:FILE.")],
    *,
    json: JsonOption = False,
) -> None:
    """Install an agent for the embedded sandbox ahead of its first run.

    \b
    termarena agents install claude-code
    termarena agents install custom:my-agent.toml

    A run does the same where it has not been done; for containers it is done by the first trial on an image.
    """
    import asyncio

    from termarena.agents.installed.description import describe

    description = describe(name.removeprefix("cli:"))
    say(f"installing {description.name} {description.version}")
    layer = asyncio.run(_install(description))
    if json:
        print_json(
            {
                "agent": description.name,
                "version": description.version,
                "was_cached": layer.was_cached,
                "install_s": round(layer.install_s, 3),
                "folder": str(layer.folder),
            }
        )
    elif layer.was_cached:
        print_line(f"{description.name} {description.version} was installed already, in {layer.folder}")
    else:
        print_line(f"{description.name} {description.version} is in {layer.folder} ({layer.install_s:.0f} s)")


async def _install(description: Description) -> Layer:
    from termarena.agents.installed.layers import Layers
    from termarena.core.settings import resolve_settings
    from termarena.sandbox.drivers import open_driver

    home = resolve_settings().settings.paths.home
    driver = open_driver("namespace", home=home, run_id="agents")
    try:
        return await Layers(home).on_host_root(description, driver)
    finally:
        await driver.aclose()
