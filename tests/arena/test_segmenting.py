"""Pieces of large recordings: cut once, each recording by itself, and never in the way of a page."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import pytest

from support.arena_server import served
from support.made_attempts import made_attempt
from support.made_runs import made_run
from termarena.arena import pages, segmenting
from termarena.arena.segmenting import Segments
from termarena.core.errors import NotFound

if TYPE_CHECKING:
    from pathlib import Path


def _recording(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def _kept(runs: Path) -> list[str]:
    return [path.name for path in (runs / ".segments").iterdir()]


HEADER = {"version": 2, "width": 40, "height": 8}


async def test_whoever_comes_while_it_is_cut_waits_for_the_same_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = (_recording(tmp_path / f"{name}.cast", HEADER, [0.1, "o", name]) for name in ("slow", "quick"))
    usual, may_go_on, begun = segmenting.cut_elsewhere, asyncio.Event(), list[str]()

    async def cut(recording: Path, into: Path) -> None:
        begun.append(recording.name)
        if recording == slow:
            await may_go_on.wait()
        await usual(recording, into)

    monkeypatch.setattr(segmenting, "cut_elsewhere", cut)
    segments = Segments(tmp_path)
    waiting = [asyncio.create_task(segments.file(slow, "index.json")) for _ in range(3)]
    piece = json.loads((await segments.file(quick, "0.json")).read_text())
    assert piece["events"] == [[0.1, "o", "quick"]]
    waiting[0].cancel()  # who goes away ends nothing
    may_go_on.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1] == found[2]
    assert sorted(begun) == ["quick.cast", "slow.cast"]
    assert len(_kept(tmp_path)) == 2


async def test_of_two_servers_that_cut_the_same_the_first_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = _recording(tmp_path / "x.cast", HEADER, [0.1, "o", "x"])
    usual, first = segmenting.cut_elsewhere, list[os.stat_result]()

    async def cut(recording: Path, into: Path) -> None:
        await usual(recording, into)
        if not first:  # while this one cuts, another server has done so
            monkeypatch.setattr(segmenting, "cut_elsewhere", usual)
            first.append((await Segments(tmp_path).file(recording, "index.json")).stat())
            (tmp_path / ".segments" / "given-up").symlink_to("nowhere")  # between being listed and looked at

    monkeypatch.setattr(segmenting, "cut_elsewhere", cut)
    found = await Segments(tmp_path).file(recording, "index.json")
    assert found.stat().st_ino == first[0].st_ino


@pytest.mark.parametrize(
    ("lines", "told"), [([HEADER], "shows nothing"), ([{"version": 1}], "no recording of version 2 or 3")]
)
async def test_what_cannot_be_cut_says_why_and_is_not_cut_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[object], told: str
) -> None:
    recording = _recording(tmp_path / "x.cast", *lines)
    segments = Segments(tmp_path)
    assert segments.problem(recording) is None
    with pytest.raises(NotFound, match=told):
        await segments.file(recording, "index.json")
    monkeypatch.setattr(segmenting, "cut_elsewhere", None)
    with pytest.raises(NotFound, match=told):
        await Segments(tmp_path).file(recording, "0.json")
    assert told in str(segments.problem(recording))


def test_one_that_took_too_long_is_told_on_the_page_and_not_cut_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = made_run(tmp_path / "runs" / "big", {"one": "1"}).folder.attempt("one", 1)
    made_attempt(attempt, task="one")
    monkeypatch.setattr(pages, "LARGE_BYTES", 0)
    monkeypatch.setattr(segmenting, "LONGEST_CUT_S", 0.0)
    with served(tmp_path / "runs") as server:
        assert 'id="player"' in server.page("/runs/big/one/1")
        answers = [server.client.get("/api/runs/big/trials/one/1/terminal.cast/segments/index.json") for _ in range(2)]
        monkeypatch.setattr(segmenting, "cut_elsewhere", None)
        answers.append(server.client.get("/api/runs/big/trials/one/1/terminal.cast/segments/index.json"))
        told = "this recording was not cut into pieces within 0 s"
        assert [(one.status_code, one.json()["error"]["message"]) for one in answers] == [(404, told)] * 3
        shown = server.page("/runs/big/one/1")
        assert f"There is no replay here: {told}." in shown
        assert 'id="player"' not in shown
    (kept,) = (tmp_path / "runs" / ".segments").iterdir()
    assert [path.name for path in kept.iterdir()] == ["problem-now.txt"]


async def test_one_whose_cutting_was_ended_is_cut_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a kernel that is short of memory ends it."""
    recording = _recording(tmp_path / "x.cast", HEADER, [0.1, "o", "x"])
    segments = Segments(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("sys.executable", _program(tmp_path / "ended", "kill -9 $$"))
        for _ in range(2):
            with pytest.raises(NotFound, match="cutting it broke"):
                await segments.file(recording, "index.json")
            patched.setattr("sys.executable", None)  # not even tried
    assert segments.problem(recording) == "this recording cannot be played: cutting it broke"
    (kept,) = (tmp_path / ".segments").glob("*/*")
    os.utime(kept, (1, 1))
    assert segments.problem(recording) is None
    assert json.loads((await segments.file(recording, "0.json")).read_text())["events"] == [[0.1, "o", "x"]]
    assert len(_kept(tmp_path)) == 1


async def test_a_disk_that_takes_nothing_is_no_fault_of_the_recording(tmp_path: Path) -> None:
    recording = _recording(tmp_path / "x.cast", HEADER, [0.1, "o", "x"])
    (tmp_path / "file").touch()
    with pytest.raises(NotFound, match="now: Not a directory"):
        await segmenting.cut_elsewhere(recording, tmp_path / "file")


async def test_the_oldest_are_given_up_and_what_a_killed_server_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segmenting, "MOST_KEPT", 1)
    segments = Segments(tmp_path)
    first = await segments.file(_recording(tmp_path / "a.cast", HEADER, [0.1, "o", "a"]), "index.json")
    os.utime(first.parent, (1, 1))
    left = tmp_path / ".segments" / "new-left"
    left.mkdir()
    os.utime(left, (1, 1))
    second = await segments.file(_recording(tmp_path / "b.cast", HEADER, [0.1, "o", "b"]), "index.json")
    assert _kept(tmp_path) == [second.parent.name]
    with pytest.raises(NotFound, match="no such piece"):
        await segments.file(tmp_path / "b.cast", "7.json")
