"""The README's picture: the script draws what a recording shows, the same each time, and the picture is small."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import draw_terminal

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "first-run.svg"


def _recording(tmp_path: Path) -> Path:
    path = tmp_path / "small.cast"
    path.write_text(
        '{"version": 2, "width": 40, "height": 5}\n[0.1, "o", "\\u001b[1;32m$\\u001b[0m ls <a>\\r\\nworking\\r"]\n'
        '[0.2, "o", "\\u001b[Kdone  & well\\r\\n"]\n'
    )
    return path


def test_it_draws_the_last_screen(tmp_path: Path) -> None:
    drawn = draw_terminal.draw(_recording(tmp_path))
    drawn = drawn.replace(draw_terminal.NO_BREAK, " ")
    texts = [(element.text, element.get("fill")) for element in ET.fromstring(drawn).iter() if element.text]  # noqa: S314 - our own
    assert ("$", draw_terminal.COLOURS["green"]) in texts
    assert {"ls <a>", "done  & well"} <= {text for text, _ in texts}
    assert "working" not in drawn


def test_it_runs_commands_and_records_them(tmp_path: Path) -> None:
    draw_terminal.record(tmp_path / "own.cast", ["printf 'one\\ntwo\\n'", "echo three"])
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", draw_terminal.draw(tmp_path / "own.cast"))
    assert [text for text in shown if text in {"one", "two", "three"}] == ["one", "two", "three"]


def test_the_readme_shows_it() -> None:
    assert "docs/images/first-run.svg" in (ROOT / "README.md").read_text()
    assert 1_000 < PICTURE.stat().st_size < 20_000
    assert f"termarena{draw_terminal.NO_BREAK}compare" in PICTURE.read_text()
