"""How help reads: the classes behind every command and every group of commands.

Typer shows the Python type of each argument and cuts what it says of a command at the edge of the terminal; here
arguments are shown by their names, and what does not fit on one line goes on in the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    # Typer keeps its copy of Click private; these are needed to say what is overridden, and never at run time.
    from typer._click import Command, Context, HelpFormatter, Parameter

__all__ = ["PlainCommand", "PlainGroup", "command_app", "command_group"]


class PlainCommand(TyperCommand):
    """A command whose arguments stand in its help as they are typed."""

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """`[OPTIONS]`, then each argument: in brackets if it may be left out, with dots if it may be repeated."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return [self.options_metavar or "", *(_typed(one) for one in arguments)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """The arguments by their names, then the options."""
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and parameter.param_type_name == "argument":
                rows["Arguments"].append((_name(parameter), record[1].removesuffix("[required]").rstrip()))
            elif record is not None:
                rows["Options"].append(record)
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


def _name(argument: Parameter) -> str:
    return argument.metavar or (argument.name or "").upper()


def _typed(argument: Parameter) -> str:
    name = _name(argument) if argument.required else f"[{_name(argument)}]"
    return name if argument.nargs == 1 else f"{name}..."


class PlainGroup(TyperGroup):
    """A group that says of each of its commands what the first paragraph of that command's help says."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Every command with its whole first paragraph."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _about(command)) for name, command in found if command is not None])


def _about(command: Command) -> str:
    return " ".join((command.short_help or command.help or "").partition("\n\n")[0].split())


class _App(typer.Typer):
    def command(
        self,
        name: str | None = None,
        *,
        cls: type[TyperCommand] | None = None,
        **rest: Any,  # noqa: ANN401 - Typer's own options
    ) -> Callable[[Any], Any]:
        return super().command(name, cls=cls or PlainCommand, **rest)


def command_app() -> typer.Typer:
    """A Typer for one command, or for one that has others below it; without completion options of its own."""
    return _App(cls=PlainGroup, rich_markup_mode=None, add_completion=False)


def command_group(about: str) -> typer.Typer:
    """A Typer for a group of commands, with plain help and without completion options of its own."""
    return _App(cls=PlainGroup, help=about, rich_markup_mode=None, add_completion=False, no_args_is_help=True)
