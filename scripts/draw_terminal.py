"""Makes the README's picture of a terminal: commands are run and recorded, and the last screen is drawn as an SVG.

    .venv/bin/python scripts/draw_terminal.py record docs/images/first-run.cast COMMAND…
    .venv/bin/python scripts/draw_terminal.py draw docs/images/first-run.cast > docs/images/first-run.svg

The recording is real, and only drawn: the same recording gives the same picture.
"""

from __future__ import annotations

import argparse
import os
import pty
import subprocess
import sys
from fcntl import ioctl
from html import escape
from itertools import groupby
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ
from typing import Final, NamedTuple

import pyte

from termarena.sandbox.terminal import CastWriter, read_cast

__all__ = ["draw"]

COLS, ROWS = 112, 60
CELL_WIDTH, CELL_HEIGHT, MARGIN = 8.0, 18, 16
COLOURS: Final = {
    "default": "#d8d8d8",
    "black": "#555555",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#ffffff",
}
STYLE: Final = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13"'
NO_BREAK: Final = "\u00a0"
"""For a blank: of several in a row browsers would show one."""


class Look(NamedTuple):
    """How a character is drawn."""

    colour: str
    is_bold: bool


def draw(path: Path) -> str:
    """The last screen of a recording as an SVG, without the empty lines below it."""
    cast = read_cast(path)
    screen = pyte.Screen(cast.cols, cast.rows)
    pyte.Stream(screen).feed(cast.text())
    filled = max((row for row, text in enumerate(screen.display) if text.strip()), default=0) + 1
    lines = "".join(_line(screen, row) for row in range(filled))
    width, height = int(cast.cols * CELL_WIDTH + 2 * MARGIN), filled * CELL_HEIGHT + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" {STYLE}>\n'
        f"<title>A terminal: {escape(screen.display[0].strip())} …</title>\n"
        f'<rect width="100%" height="100%" rx="8" fill="#161b22"/>\n{lines}</svg>\n'
    )


def _line(screen: pyte.Screen, row: int) -> str:
    """A row: one text for each run of characters that look the same."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    column, texts = 0, []
    for look, run in groupby(cells, key=lambda cell: Look(COLOURS.get(cell.fg, COLOURS["default"]), cell.bold)):
        text = "".join(cell.data for cell in run)
        shown = text.rstrip()
        if shown:
            weight = ' font-weight="bold"' if look.is_bold else ""
            begin = column + len(shown) - len(shown.lstrip())
            place = f'x="{MARGIN + begin * CELL_WIDTH:g}" y="{MARGIN + row * CELL_HEIGHT + 13}"'
            fitted = f'textLength="{len(shown.lstrip()) * CELL_WIDTH:g}"'
            said = escape(shown.lstrip()).replace(" ", NO_BREAK)
            texts.append(f'<text {place} {fitted} fill="{look.colour}"{weight}>{said}</text>\n')
        column += len(text)
    return "".join(texts)


def record(path: Path, commands: list[str]) -> None:
    """Run the commands in a terminal of their own, one after the other, and record what they show."""
    cast = CastWriter(path)
    cast.begin(COLS, ROWS)
    for command in commands:
        cast.output(f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m\r\n".encode())
        _run(command, cast)
    cast.close()


def _run(command: str, cast: CastWriter) -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, pack("HHHH", ROWS, COLS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(["/bin/sh", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=environment):  # noqa: S603 - what the caller asked for
        os.close(theirs)
        try:
            while data := os.read(ours, 1 << 16):
                cast.output(data)
        except OSError:  # how Linux tells the end of a terminal
            return
        finally:
            os.close(ours)


def main() -> int:
    """Record or draw, as asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("what", choices=["record", "draw"])
    parser.add_argument("cast", type=Path)
    parser.add_argument("command", nargs="*")
    given = parser.parse_args()
    if given.what == "record":
        record(given.cast, given.command)
    else:
        sys.stdout.write(draw(given.cast))
    return 0


if __name__ == "__main__":
    sys.exit(main())
