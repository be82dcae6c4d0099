"""Recordings of others: every format, and what the wild holds."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import RecordingError
from termarena.forge.casts import load_file, parse_loaded, parse_recording
from termarena.forge.reading import read, read_bytes

if TYPE_CHECKING:
    from pathlib import Path

HEADER = '{"version": 2, "width": 80, "height": 24}\n'


def test_version_1_pretty_printed() -> None:
    value = {"version": 1, "width": 90, "height": 20, "duration": 3, "title": "t", "stdout": [[0.5, "a"], [1.0, "b"]]}
    found = parse_recording(json.dumps(value, indent=4).encode())
    assert (found.version, found.cols, found.rows, found.header["title"]) == ("1", 90, 20, "t")
    assert [(event.at_s, event.text) for event in found.events] == [(0.5, "a"), (1.5, "b")]


def test_version_3_intervals_comments_and_exit_status() -> None:
    text = '{"version": 3, "term": {"cols": 70, "rows": 10}}\n# a comment\n\n[0.5, "o", "a"]\n[0.25, "x", "3"]\n'
    found = parse_recording(text.encode())
    assert (found.version, found.cols, found.rows) == ("3", 70, 10)
    assert [(event.at_s, event.code, event.text) for event in found.events] == [(0.5, "o", "a"), (0.75, "x", "3")]
    assert found.trouble == ()


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ('[1, "o", "a"]\n[2, "o"]\n[3, "o", "b"]\n', "1 of its lines are no events (line 3)"),
        ('[1, "o", "a"]\n{"x": 1}\n[3, "o", "b"]\n', "1 of its lines are no events (line 3)"),
        ('[1, "o", "a"]\nnonsense\n[3, "o", "b"]\n', "1 of its lines are no events (line 3)"),
        ('[1, "o", "a"]\n[NaN, "o", "x"]\n[3, "o", "b"]\n', "no events"),
        ('[3, "o", "a"]\n[1, "o", "b"]\n', "time runs backwards 1 times"),
        ('[1, "o", "a"]\n[3, "o", "b"]\n[4, "o", "c', "its last line is not whole"),
    ],
)
def test_damage_is_forgiven_and_told(body: str, trouble: str) -> None:
    found = parse_recording((HEADER + body).encode())
    assert [event.text for event in found.events] == ["a", "b"]
    assert len(found.trouble) == 1
    assert trouble in found.trouble[0]
    times = [event.at_s for event in found.events]
    assert times == sorted(times)


def test_codes_of_others_are_no_damage() -> None:
    found = parse_recording((HEADER + '[1, "rlib", "a"]\n[1, 7, "b"]\n[2, "o", "c"]').encode())
    assert found.trouble == ()
    assert [event.code for event in found.events] == ["rlib", "7", "o"]


@pytest.mark.parametrize(
    "size", ['"width": null, "height": null', '"width": 0, "height": 24', '"width": 99999, "height": 9']
)
def test_an_absurd_size_is_replaced_and_told(size: str) -> None:
    found = parse_recording(f'{{"version": 2, {size}}}\n[1, "o", "a"]\n'.encode())
    assert (found.cols, found.rows) == (80, 24)
    assert "taken as 80 x 24" in found.trouble[0]


def test_broken_characters_are_read() -> None:
    raw = HEADER.encode() + b'[1, "o", "\\ud83d$ ls"]\n[1, "o", "\xff\\r\\n"]\n'
    assert len(read_bytes(raw, source="x").text) > 3


@pytest.mark.needs("script")
@pytest.mark.slow
@pytest.mark.parametrize("timed", [True, False])
def test_what_script_writes(tmp_path: Path, timed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    path = tmp_path / "session.typescript"
    timing = ["--log-timing", f"{path}.timing"] if timed else []
    (tmp_path / "rc").write_text("PS1='me@box:~$ '\n")
    subprocess.run(  # noqa: S603 - a real recorder
        ["script", "--quiet", *timing, "--log-out", path, "--command", f"bash --rcfile {tmp_path}/rc -i"],  # noqa: S607
        input=b"echo one\necho two; false\nexit\n",
        check=False,
        capture_output=True,
        timeout=60,
    )
    found = read(path)
    assert found.version == "typescript"
    assert "echo two; false" in [command.text for command in found.commands]
    assert "Script done" not in found.text


def test_text_alone_gives_commands() -> None:
    text = "ada@box:~$ mkdir x\nada@box:~$ cat > x/f <<EOF\n> one\n> EOF\nada@box:~$ ls x\nf\nada@box:~$ \n"
    found = read_bytes(text.encode(), source="recording.txt")
    assert [(command.text, command.output) for command in found.commands] == [
        ("mkdir x", ""),
        ("cat > x/f <<EOF\none\nEOF", ""),
        ("ls x", "f"),
    ]


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF\0\0")
    for path in (tmp_path / "a", tmp_path / "none"):
        with pytest.raises(RecordingError, match=r"neither a recording|cannot read"):
            parse_loaded(load_file(path))
