"""`termarena pack`: a run as one file to hand in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from termarena.cli.finding import RunArgument
from termarena.cli.help import command_app
from termarena.cli.output import JsonOption, print_json, print_line, say

__all__ = ["app"]

app = command_app()


@app.command()
def pack(
    run: RunArgument,
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file; else RUN.bundle.tar.gz, here.")
    ] = None,
    states: Annotated[
        bool, typer.Option(help="With the captured file states, so that others can grade the run again.")
    ] = True,
    json: JsonOption = False,
) -> None:
    """Pack a run into one file, with a hash chain over its journal and everything that its trials left.

    \b
    termarena pack runs/2026-11-15T10-00-00Z-mine
    termarena pack 2026-11-15 --no-states --out mine.bundle.tar.gz
    termarena verify mine.bundle.tar.gz

    The same run gives the same file. Publish the end of the chain when you hand the run in: whoever has it can tell
    later whether a byte was changed. docs/bundles.md says what that proves, and what it cannot.
    """
    from termarena.cli.finding import find_run
    from termarena.runs.bundle import pack_run

    folder = find_run(run)
    packed = pack_run(folder, out or Path(f"{folder.id}.bundle.tar.gz"), with_states=states)
    manifest = packed.manifest
    if json:
        told = {"path": str(packed.path), "size_bytes": packed.size_bytes, "chain": manifest.chain}
        more = {"run_id": manifest.run_id, "events": manifest.events, "files": len(manifest.files)}
        print_json({"schema_version": 1, "kind": "packed-run", **told, **more})
        return
    print_line(f"{packed.path}: {len(manifest.files):,} files, {packed.size_bytes:,} bytes")
    print_line(f"chain {manifest.chain}")
    say(f"next: termarena verify {packed.path}")
