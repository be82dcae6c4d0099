"""Run a script of benchmarks/ and keep what it printed, with its command, its day and its machine.

    .venv/bin/python scripts/measure.py startup                # kept as benchmarks/output/startup.json
    .venv/bin/python scripts/measure.py sandbox --rounds 30

The site's pages about performance show what is kept. The exit status is the script's own: 0 for measured, 1 for an aim
that was missed, 2 for what could not be measured here. Of the last, and of a script that broke, nothing is kept, and
what was kept before stays.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from termarena.core.processors import usable_processors
from termarena.core.records import read_record_as, write_record

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FOLDER", "Output", "kept", "shown", "told_load"]

FOLDER: Final = Path(__file__).resolve().parent.parent / "benchmarks"
KIND: Final = "benchmark-output"
MISSED: Final = 1
# Longer rows of numbers are told by their median.
ROW: Final = 8


class Output(BaseModel):
    """What one run of a script printed, and where; `status` is 0, or 1 where an aim was missed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    day: date
    commit: str
    python: str
    processors: int
    load_before: float | None
    load_after: float | None
    """In the minute before, and in the last one; None where the log of an earlier run does not say."""
    took_s: float
    status: int
    text: str
    """Everything before the JSON: tables for people."""
    figures: dict[str, object]


def kept(name: str, folder: Path = FOLDER) -> Output | None:
    """The latest output of a script, or None where there is none. Raises TaskFormatError for a damaged file."""
    path = folder / "output" / f"{name}.json"
    return read_record_as(Output, path, KIND) if path.is_file() else None


def measure(name: str, arguments: list[str], folder: Path = FOLDER) -> int:
    """Run a script, pass on what it prints, keep it; its exit status."""
    load_before, started = os.getloadavg()[0], time.monotonic()
    ran = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, str(folder / f"{name}.py"), *arguments], stdout=subprocess.PIPE, text=True, check=False
    )
    sys.stdout.write(ran.stdout)
    text, figures = _parted(ran.stdout)
    if ran.returncode not in (0, MISSED) or (ran.returncode == MISSED and not figures):  # below 0: ended by a signal
        sys.stderr.write(f"{name}: status {ran.returncode}, nothing is kept\n")
        return ran.returncode
    output = Output(
        command=shlex.join([".venv/bin/python", f"benchmarks/{name}.py", *arguments]),
        day=datetime.now(UTC).date(),
        commit=_commit(folder),
        python=platform.python_version(),
        processors=usable_processors(),
        load_before=round(load_before, 1),
        load_after=round(os.getloadavg()[0], 1),
        took_s=round(time.monotonic() - started, 1),
        status=ran.returncode,
        text=text,
        figures=figures,
    )
    (folder / "output").mkdir(exist_ok=True)
    write_record(folder / "output" / f"{name}.json", KIND, output.model_dump(mode="json"))
    return ran.returncode


def _parted(printed: str) -> tuple[str, dict[str, object]]:
    """What was printed for people, and the JSON object at its end."""
    lines = printed.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("{"):
            try:
                figures = json.loads("\n".join(lines[number:]))
            except ValueError:
                continue
            return "\n".join(lines[:number]).rstrip(), figures
    return printed.rstrip(), {}


def _commit(folder: Path) -> str:
    words = ["git", "describe", "--always", "--dirty=, with changes", "--exclude=*"]
    asked = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - the git on the PATH
    return asked.stdout.strip() if asked.returncode == 0 else "unknown"


def shown(output: Output) -> str:
    """An output as Markdown: where it was measured, and what was printed for people; without that, its JSON."""
    verdict = "; an aim was missed" if output.status == MISSED else ""
    about = (
        f"`{output.command}`, {output.day:%-d %B %Y}, commit {output.commit}, Python {output.python},"
        f" {output.processors} processors, load {told_load(output.load_before)} before and"
        f" {told_load(output.load_after)} after, {output.took_s:,.0f} s{verdict}."
    )
    if output.text:
        return "\n".join([about, "", "````text", output.text, "````", ""])
    rows = [f"| `{name}` | {value} |" for name, value in _flat(output.figures)]
    return "\n".join([about, "", "| figure | value |", "|---|---|", *rows, ""])


def told_load(load: float | None) -> str:
    """A load in words."""
    return "unknown" if load is None else f"{load:g}"


def _flat(figures: object, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(figures, dict):
        for key, value in figures.items():
            if name or key not in {"kind", "schema_version"}:
                yield from _flat(value, f"{name}.{key}" if name else str(key))
    elif isinstance(figures, list) and any(isinstance(one, dict | list) for one in figures):
        for number, value in enumerate(figures, start=1):
            yield from _flat(value, f"{name}.{number}")
    else:
        yield name, _told(figures)


def _told(value: object) -> str:
    if isinstance(value, list):
        numbers = [one for one in value if isinstance(one, int | float)]
        if len(numbers) == len(value) > ROW:
            return f"{len(value)} values, median {_told(statistics.median(numbers))}"
        return ", ".join(map(_told, value)) or "none"
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004 - four digits either way
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit((__doc__ or "").strip())
    sys.exit(measure(Path(sys.argv[1]).stem, sys.argv[2:]))
