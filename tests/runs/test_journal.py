"""The journal: whole lines or none, a torn end that is cut, damage that is named."""

from __future__ import annotations

import json
import os
import resource
import zlib
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import JournalDamaged, RunNotWritable
from termarena.runs.journal import Journal, JournalReader, Tail

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def _write(path: Path, number: int, *, tail: Tail | None = None) -> None:
    with Journal(path, tail or Tail()) as journal:
        for index in range(number):
            journal.append("trial_started", {"task_id": f"täsk {index}\n", "attempt": 1, "retry": 0})


def _read(path: Path) -> tuple[list[int], Tail]:
    reader = JournalReader(path)
    return [event.seq for event in reader], reader.tail


def test_events_come_back_as_they_were_written(path: Path) -> None:
    _write(path, 3)
    events = list(JournalReader(path))
    assert [event.seq for event in events] == [1, 2, 3]
    assert [event.fields["task_id"] for event in events] == ["täsk 0\n", "täsk 1\n", "täsk 2\n"]
    assert {event.name for event in events} == {"trial_started"}
    assert all(event.at.endswith("Z") for event in events)


def test_every_line_is_json_with_its_checksum(path: Path) -> None:
    _write(path, 2)
    lines = path.read_bytes().splitlines()
    assert len(lines) == 2
    for line in lines:
        body = line[: line.rindex(b',"crc"')]
        assert json.loads(line)["crc"] == f"{zlib.crc32(body):08x}"


def test_a_missing_journal_has_no_events(path: Path) -> None:
    assert _read(path) == ([], Tail(0, 0))


def test_an_id_that_is_not_text_survives(path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    with Journal(path, Tail()) as journal:
        journal.append("trial_started", {"task_id": name, "attempt": 1, "retry": 0})
    assert next(iter(JournalReader(path))).fields["task_id"] == name


def test_a_torn_end_is_ignored_by_readers_and_cut_by_the_next_writer(path: Path) -> None:
    _write(path, 3)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for kept in range(1, len(last)):
        path.write_bytes(whole[: -len(last) + kept])
        seqs, tail = _read(path)
        assert seqs == [1, 2]
        assert path.stat().st_size == tail.size_bytes + kept
    _write(path, 1, tail=tail)
    assert _read(path)[0] == [1, 2, 3]
    assert path.read_bytes().count(b"\n") == 3


def test_zeros_after_a_crash_are_a_torn_end(path: Path) -> None:
    _write(path, 2)
    with path.open("ab") as file:
        file.write(bytes(4096))
    seqs, tail = _read(path)
    assert seqs == [1, 2]
    _write(path, 1, tail=tail)
    assert _read(path)[0] == [1, 2, 3]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_damaged_line_is_named_with_a_remedy(path: Path, number: int) -> None:
    _write(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number - 1] = lines[number - 1].replace(b"t\\u00e4sk", b"t\\u00e5sk")
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalDamaged, match=f"line {number} is damaged: its checksum is another") as caught:
        _read(path)
    assert caught.value.line == number
    assert f"head -n {number - 1}" in str(caught.value.hint)


def test_what_the_remedy_says_works(path: Path) -> None:
    _write(path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    seqs, tail = _read(path)
    _write(path, 1, tail=tail)
    assert seqs == [1, 2]
    assert _read(path)[0] == [1, 2, 3]


@pytest.mark.parametrize(("order", "line"), [((0, 2), 2), ((0, 0, 1), 2), ((1, 0), 1)])
def test_lines_that_are_lost_doubled_or_swapped_are_damage(path: Path, order: tuple[int, ...], line: int) -> None:
    _write(path, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[index] for index in order))
    with pytest.raises(JournalDamaged, match="is due") as caught:
        _read(path)
    assert caught.value.line == line


def test_a_file_without_lines_does_not_fill_the_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(JournalDamaged, match="it does not end"):
        _read(path)


def test_an_event_is_written_whole_or_not_at_all(path: Path) -> None:
    """The kernel writes a part, up to the limit of the file's size; nothing of it stays."""
    _write(path, 2)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(path, _read(path)[1]) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
        try:
            with pytest.raises(RunNotWritable, match=r"journal\.jsonl"):
                journal.append("run_finished", {"text": "x" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.read_bytes() == before
        journal.append("run_finished")
    assert _read(path)[0] == [1, 2, 3]


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunNotWritable, match="No such file"):
        Journal(tmp_path / "gone" / "journal.jsonl", Tail())
