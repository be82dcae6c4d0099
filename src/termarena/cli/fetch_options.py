"""`--record-fetches` and `--replay-fetches`, which take a folder after `=` or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from termarena.cli.help import PlainCommand

if TYPE_CHECKING:
    # Typer keeps its copy of Click private; needed to say what is overridden, and never at run time.
    from typer._click import Context

__all__ = ["FetchCommand", "RecordFetchesOption", "ReplayFetchesOption", "checked_fetches", "with_folders"]

NAMES = ("--record-fetches", "--replay-fetches")
RecordFetchesOption = Annotated[
    str | None,
    typer.Option(NAMES[0], metavar="[=FOLDER]", help="Keep every download of builds and tests, beside the task."),
]
ReplayFetchesOption = Annotated[
    str | None,
    typer.Option(NAMES[1], metavar="[=FOLDER]", help="Build and test with what was kept, and no network."),
]


class FetchCommand(PlainCommand):
    """Typer has no option with a value that may be left out; these two are."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Without `=FOLDER` the folder is the task's own, which is the empty word."""
        return super().parse_args(ctx, with_folders(args))


def with_folders(arguments: list[str]) -> list[str]:
    """Each of the two with a value, if only the empty one."""
    return [f"{word}=" if word in NAMES else word for word in arguments]


def checked_fetches(record: str | None, replay: str | None) -> tuple[str | None, str | None]:
    """Both in full: a run that goes on may do so elsewhere. Raises UsageError for both, and for a missing folder."""
    from pathlib import Path

    from termarena.core.errors import UsageError

    if record is not None and replay is not None:
        raise UsageError("downloads are recorded or replayed, not both", hint="leave one of the two options out")
    if replay and not Path(replay).is_dir():
        raise UsageError(f"no folder is at {replay}", hint="record one first: --record-fetches=FOLDER")
    record, replay = (str(Path(word).resolve()) if word else word for word in (record, replay))
    return record, replay
