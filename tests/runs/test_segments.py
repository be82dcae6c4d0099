"""Recordings in segments: each by itself shows what the whole would show at that moment."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from termarena.runs import segments
from termarena.runs.segments import cut_recording
from termarena.sandbox.terminal.screen import Emulator

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def _cast(path: Path, events: Iterable[Any], **header: Any) -> Path:  # noqa: ANN401 - any JSON
    lines = [json.dumps({"version": 2, "width": 40, "height": 8} | header), *map(json.dumps, events)]
    path.write_text("\n".join(lines) + "\n")
    return path


def _cut(path: Path, into: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    into.mkdir()
    assert cut_recording(path, into)
    index = json.loads((into / "index.json").read_text())
    return index, [json.loads((into / one["url"]).read_text()) for one in index["segments"]]


def _screen(size: tuple[int, int]) -> Emulator:
    return Emulator(*size, scrollback_lines=0, reply=lambda _: None)


def _events() -> list[list[Any]]:
    found: list[list[Any]] = []
    for n in range(300):
        text = f"\x1b[{31 + n % 6}mline {n}\x1b[0m wide 你好 {'x' * (n % 60)}\r\n"
        found.append([n / 10 + (100 if n >= 150 else 0), "o", text])
        if n == 100:
            found.append([n / 10, "r", "60x12"])
        if n == 200:
            found.append([n / 10 + 100, "o", "\x1b[?1049h\x1b[2;5Hin another screen"])
    return found


def test_markers_are_in_the_index_at_the_time_they_are_shown(tmp_path: Path) -> None:
    events = [[0.5, "o", "a"], [1.0, "m", "first"], [61.0, "m", "x" * 500], [61.5, "o", "b"]]
    index, (piece,) = _cut(_cast(tmp_path / "a.cast", events), tmp_path / "out")
    assert index["markers"] == [[1.0, "first"], [3.0, "x" * segments.LONGEST_LABEL]]
    assert [event[0] for event in piece["events"]] == [0.5, 3.5]
    # One behind the last output is shown at the end: a player takes none beyond it.
    index, _ = _cut(_cast(tmp_path / "c.cast", [[0.5, "o", "a"], [1.0, "m", "late"]]), tmp_path / "late")
    assert (index["duration"], index["markers"]) == (0.5, [[0.5, "late"]])
    many = [[n / 10, "m", str(n)] for n in range(segments.MOST_MARKERS + 5)]
    index, _ = _cut(_cast(tmp_path / "b.cast", [[0.0, "o", "a"], *many]), tmp_path / "many")
    assert len(index["markers"]) == segments.MOST_MARKERS


def test_every_segment_begins_as_the_screen_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1000)
    events = _events()
    _, pieces = _cut(_cast(tmp_path / "a.cast", events), tmp_path / "out")
    assert len(pieces) > 8
    assert [event[1:] for piece in pieces for event in piece["events"]] == [event[1:] for event in events]
    whole = _screen((40, 8))
    for piece in pieces:
        shot = piece["snapshot"]
        alone = _screen((shot["cols"], shot["rows"]))
        alone.feed(shot["init"].encode())
        assert alone.state() == whole.state()
        for _, code, text in piece["events"]:
            whole.feed(text.encode()) if code == "o" else whole.resize(*map(int, text.split("x")))


def test_what_the_player_asks_of_times_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 50)
    at_once = [[1.0, "o", "x" * 40] for _ in range(30)]
    index, pieces = _cut(_cast(tmp_path / "a.cast", at_once), tmp_path / "out")
    starts = [one["start"] for one in index["segments"]]
    assert starts[0] == 0
    assert all(one < next_one for one, next_one in itertools.pairwise(starts))
    for number, piece in enumerate(pieces):
        times = [event[0] for event in piece["events"]]
        assert times == sorted(times)
        assert number == 0 or times[0] == starts[number]
        assert number + 1 == len(pieces) or times[-1] < starts[number + 1]
    assert pieces[-1]["events"][-1][0] == index["duration"]


@pytest.mark.parametrize("version", [2, 3])
def test_pauses_are_cut_and_told(tmp_path: Path, version: int) -> None:
    times = [1.0, 61.0, 62.0] if version == 2 else [1.0, 60.0, 1.0]
    header = {"version": version, "term": {"cols": 40, "rows": 8}}
    index, _ = _cut(_cast(tmp_path / "a.cast", [[at, "o", "x"] for at in times], **header), tmp_path / "out")
    assert (index["duration"], index["corners"]) == (4.0, [[0.0, 0.0], [61.0, 3.0], [62.0, 4.0]])


def test_what_is_no_recording_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert not cut_recording(
        _cast(tmp_path / "a.cast", [[0.5, "i", "typed"], [float("nan"), "o", "x"]]), tmp_path / "out"
    )
    assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "b.cast").write_text("[]\n")
    with pytest.raises(ValueError, match="no recording"):
        cut_recording(tmp_path / "b.cast", tmp_path / "out")


def test_events_without_any_text_fill_a_segment_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 1000)
    _, pieces = _cut(_cast(tmp_path / "a.cast", [[n / 10, "o", ""] for n in range(500)]), tmp_path / "out")
    assert max(len(piece["events"]) for piece in pieces) < 100
    assert sum(len(piece["events"]) for piece in pieces) == 500
