"""Recordings as nobody should write them: each ends with a decision and a reason, none with a crash or in silence."""

from __future__ import annotations

import gzip
import json
import random
from typing import TYPE_CHECKING

import pytest

from support.own_recordings import FOLDER
from termarena.forge.casts import parse_recording
from termarena.forge.screening import screen_file

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.screening import Screening

SIZE = '"width": 80, "height": 24'
HEADER = f'{{"version": 2, {SIZE}}}'
V3 = '{"version": 3, "term": {"cols": 80, "rows": 24}}'
BODY = "\n".join(
    json.dumps([number / 10, "o", text])
    for number, text in enumerate(["$ ", "mkdir x", "\r\n", "$ ", "touch x/a", "\r\n"])
)
COMMANDS = ["mkdir x", "touch x/a"]


def _screened(raw: bytes, tmp_path: Path) -> Screening:
    (tmp_path / "a.cast").write_bytes(raw)
    found = screen_file(tmp_path / "a.cast")
    assert not any("could not be judged" in reason for reason in found.reasons), found.reasons
    assert found.kept or found.reasons
    return found


@pytest.mark.parametrize(
    ("head", "trouble"),
    [
        (f'{{"version": "2", {SIZE}}}', None),
        (f'{{"version": 2.0, {SIZE}}}', None),
        (f"\n \n{HEADER}", None),
        (f"\N{ZERO WIDTH NO-BREAK SPACE}{HEADER}\r", None),
        (f'{{"version": 2, {SIZE}, "env": [], "title": 7, "command": {{}}, "timestamp": "now", "theme": null}}', None),
        (f'{{"version": 2, {SIZE}, "timestamp": {"9" * 60}, "env": {{"SHELL": 3, "TERM": null}}}}', None),
        (f'{{"version": 2, {SIZE}, "timestamp": NaN, "idle_time_limit": -1}}', None),
        ('{"version": 2}', "None x None"),
        ('{"version": 2, "width": "80", "height": []}', "'80' x []"),
        ('{"version": 2, "width": -1, "height": 1e300}', "-1 x 1e+300"),
        ('{"version": 2, "width": NaN, "height": Infinity}', "nan x inf"),
        (f'{{"version": 2, "width": {"9" * 40}, "height": 24}}', "taken as 80 x 24"),
        ("", "None x None"),
    ],
)
def test_odd_headers_are_forgiven(head: str, trouble: str | None, tmp_path: Path) -> None:
    raw = f"{head}\n{BODY}\n".encode()
    found = _screened(raw, tmp_path)
    assert found.transcript is not None
    assert [command.text for command in found.transcript.commands] == COMMANDS
    assert (trouble is None) == (found.transcript.trouble == ())
    assert trouble is None or trouble in found.transcript.trouble[0]


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        ('[-5, "o", "x\\r\\n"]', "time runs backwards"),
        (f'[{"9" * 400}, "o", "x"]', "no events"),
        (f'[{"9" * 5000}, "o", "x"]', "no events"),
        ('[1e400, "o", "x"]', "no events"),
        ('[true, "o", "x"]', "no events"),
        ('[0.3, "o", {"x": 1}]', "no events"),
        ("[" * 100_000, "no events"),
        ('"just a text"', "no events"),
        ("\x00\x01\x02", "no events"),
        (f"{HEADER}\n[0, \"o\", \"\"]", "2 recordings stand one behind the other"),
    ],
    ids=["negative", "huge", "beyond digits", "infinite", "no number", "no text", "deep", "a text", "binary", "two"],
)  # fmt: skip
def test_odd_lines_are_told_and_the_others_read(line: str, trouble: str, tmp_path: Path) -> None:
    found = _screened(f"{HEADER}\n{BODY}\n{line}\n{BODY}\n".encode(), tmp_path)
    assert found.transcript is not None
    assert [command.text for command in found.transcript.commands] == COMMANDS * 2
    assert any(trouble in sentence for sentence in found.transcript.trouble)


@pytest.mark.parametrize(
    "line",
    [
        *('[0.7, "r", "0x0"]', '[0.7, "r", "99999x99999"]', '[0.7, "r", "x"]', '[0.7, "r", "-1x-1"]'),
        *('[0.7, "m", ""]', '[0.7, "x", "no number"]', '[0.7, "i", "\\u0000\\ud800"]', '[0.7, 7, "code"]'),
        *('[0.7, "o", "\\u0000\\u0007\\ud83d\\uffff\\u202e"]', '[0.7, "o", "\\u001b]133;D;99999999999\\u0007"]'),
        *('[0.7, "o", "\\u001b[999999999999999d\\u001b[99999999;99999999H\\r\\n$ "]', '[0.7, "o", "\\u001b[?1049l"]'),
        *('[0.7, "o", "\\u001b[?2004l\\u001b[?2004l"]', '[0.7, "o", "\\u001b]7;file://[\\u0007"]'),
    ],
)
def test_odd_events_do_no_harm(line: str, tmp_path: Path) -> None:
    found = _screened(f"{HEADER}\n{BODY}\n{line}\n".encode(), tmp_path)
    assert found.transcript is not None
    assert [command.text for command in found.transcript.commands][:2] == COMMANDS


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is empty"),
        (b" \r\n\n", "it is empty"),
        (gzip.compress(f"{HEADER}\n{BODY}".encode(), mtime=0), "it is compressed"),
        (random.Random(1).randbytes(5000).replace(b"\0", b"\1"), "neither a recording nor text"),  # noqa: S311 - junk
        (f"{HEADER}\n{BODY}".encode("utf-16"), "neither a recording nor text"),
        (b'{"version": 4, "width": 80}\n[0, "o", "x"]\n', "none of version 1, 2 or 3"),
        (b'{"version": [2], "width": 80}\n[0, "o", "x"]\n', "none of version 1, 2 or 3"),
        (b'{"version": 2, "width": 80, "hei', "none of version 1, 2 or 3"),
        (b'{"version": 1, "width": 80, "height": 24, "stdout": "x"}', "none of version 1, 2 or 3"),
        (b'{"version": 1, "width": 80, "height": 24, "stdout": [[0.1, "$ ls"], ', "none of version 1, 2 or 3"),
    ],
)
def test_what_is_no_recording_says_so(raw: bytes, reason: str, tmp_path: Path) -> None:
    found = _screened(raw, tmp_path)
    assert [finding.rule for finding in found.findings] == ["unreadable"]
    assert reason in found.reasons[0]


@pytest.mark.parametrize("raw", [HEADER, V3, '{"version": 1, "stdout": []}', HEADER + '\n[1, "o"'])
def test_recordings_of_nothing_are_too_short(raw: str, tmp_path: Path) -> None:
    assert "it has 0 commands; 3 are the least" in _screened(raw.encode(), tmp_path).reasons


def test_frames_of_version_1_that_are_none() -> None:
    frames = [[0.1, "a"], 7, [], None, [0.1], ["x", "y"], [-1, "b"], {"o": 1}]
    found = parse_recording(json.dumps({"version": 1, "width": 9, "height": 9, "stdout": frames}).encode())
    assert [event.text for event in found.events] == ["a", "b"]
    assert found.trouble[0].startswith("6 of its frames are no events")


@pytest.mark.parametrize("name", ["tar-backup.cast", "git-branch-merge.cast"])
def test_whatever_is_broken_the_outcome_has_a_reason(name: str, tmp_path: Path) -> None:
    """Bytes changed, cut out and doubled at random, always the same ones."""
    chance = random.Random(name)  # noqa: S311 - not for secrets
    whole = (FOLDER / name).read_bytes()
    for _ in range(25):
        raw = bytearray(whole)
        for _ in range(chance.randrange(1, 12)):
            at, length = chance.randrange(len(raw)), chance.randrange(1, 60)
            raw[at : at + length] = chance.choice((b"", chance.randbytes(length), bytes(raw[at : at + length]) * 2))
        _screened(bytes(raw), tmp_path)
