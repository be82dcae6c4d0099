"""Maps over shards: in order, a few at a time, wherever they run."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

from support.own_recordings import FOLDER
from termarena.forge import sharding
from termarena.forge.intake import Unreadable, items_in
from termarena.forge.sharding import AHEAD, SHARD_FILES, Where, map_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from termarena.forge.casts import Loaded


def name_of(loaded: Loaded) -> tuple[str, int]:
    return loaded.path, len(loaded.raw)


def test_results_come_in_order_and_no_more_files_are_taken_than_are_worked_on(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:03}.txt" for number in range(10 * SHARD_FILES)]
    for number, path in enumerate(paths):
        path.write_bytes(b"x" * number)
    taken = 0

    def some() -> Iterator[Path]:
        nonlocal taken
        for path in paths:
            taken += 1
            yield path

    results = map_files(name_of, some(), Where(2))
    first = next(results)
    assert taken <= (2 * AHEAD + 1) * SHARD_FILES < len(paths)
    assert [first, *results] == [(str(path), number) for number, path in enumerate(paths)]


def end_or_name(loaded: Loaded) -> str:
    if loaded.raw == b"end":
        os._exit(3)
    return f"refused: {loaded.problem}" if loaded.problem else loaded.path


def test_a_recording_that_ends_its_reader_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:03}.txt" for number in range(3 * SHARD_FILES)]
    for path in paths:
        path.write_bytes(b"plain")
    paths[SHARD_FILES + 2].write_bytes(b"end")
    wanted = [str(path) for path in paths]
    wanted[SHARD_FILES + 2] = f"refused: {paths[SHARD_FILES + 2]} ended the process that was to read it, or held it"
    assert list(map_files(end_or_name, paths, Where(2))) == wanted


def test_no_recording_is_blamed_where_no_process_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a script that begins its work while it is imported, which each of the processes does again."""
    paths = [tmp_path / f"{number:03}.txt" for number in range(2 * SHARD_FILES)]
    for path in paths:
        path.write_bytes(b"plain")
    dying = partial(ProcessPoolExecutor, mp_context=get_context("spawn"), initializer=os._exit, initargs=(3,))
    monkeypatch.setattr(sharding, "_processes", dying)
    with pytest.raises(BrokenProcessPool):
        list(map_files(end_or_name, paths, Where(2)))


def test_a_few_files_are_read_here_and_what_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_bytes((FOLDER / "sort-uniq.cast").read_bytes())
    (tmp_path / "b.cast").write_bytes(b"\0" * 10)
    first, second = items_in([tmp_path])
    assert not isinstance(first, Unreadable)
    assert isinstance(second, Unreadable)
    assert "neither a recording nor text" in second.reason
