"""A recording that takes too long is stopped, wherever it is worked on, and nothing else is."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from support.own_recordings import FOLDER
from termarena.core.errors import RecordingTooLong
from termarena.forge import limiting
from termarena.forge.intake import Unreadable, items_in
from termarena.forge.ledger import key_of_unreadable
from termarena.forge.limiting import limited
from termarena.forge.making import MakingConfig
from termarena.forge.screening import ScreenPlan, ScreenRules, screen_files
from termarena.forge.sharding import SHARD_FILES, Where, map_files

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.casts import Loaded

pytestmark = [
    pytest.mark.timeout(120),
    # An interruption may fall into what the collector of garbage calls; it is lost there, and comes again.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _watched_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiting, "LOOK_S", 0.005)
    monkeypatch.setattr(limiting, "AGAIN_S", 0.01)


def work_for(processor_s: float) -> str:
    end = time.thread_time() + processor_s
    while time.thread_time() < end:
        pass
    return "done"


def test_what_does_not_take_long_is_as_without_a_limit() -> None:
    assert limited(60, work_for, 0.001) == "done"
    with pytest.raises(ZeroDivisionError):
        limited(60, divmod, 1, 0)
    with pytest.raises(KeyboardInterrupt):
        limited(60, _leave)


def _leave() -> None:
    raise KeyboardInterrupt


def test_what_takes_too_long_is_stopped_and_says_how_long_it_had() -> None:
    with pytest.raises(RecordingTooLong, match=r"it took too long: more than 0\.02 s of processor time"):
        limited(0.02, work_for, 60)


async def test_a_thread_is_stopped_and_no_other_one() -> None:
    slow = asyncio.create_task(asyncio.to_thread(limited, 0.05, work_for, 60))
    quick = asyncio.create_task(asyncio.to_thread(limited, 60, work_for, 0.5))
    with pytest.raises(RecordingTooLong):
        await slow
    assert await quick == "done"


def test_whoever_catches_everything_is_stopped_all_the_same() -> None:
    def deaf() -> None:
        for _ in range(3):
            with suppress(BaseException):
                work_for(60)
        work_for(60)

    with pytest.raises(RecordingTooLong):
        limited(0.02, deaf)


def test_nothing_is_interrupted_behind_what_was_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as end just when they would be stopped."""
    monkeypatch.setattr(limiting, "LOOK_S", 0.0005)
    ends = {"done": 0, "stopped": 0}
    for _ in range(300):
        try:
            limited(0.001, work_for, 0.001)
            ends["done"] += 1
        except RecordingTooLong:
            ends["stopped"] += 1
        work_for(0.001)
    assert sum(ends.values()) == 300


def end_or_hold(loaded: Loaded) -> str:
    if loaded.problem:
        return loaded.problem
    limiting.GRACE_S = 0.05  # type: ignore[misc] # in a process of its own
    work = hashlib.pbkdf2_hmac if loaded.raw == b"hold" else divmod
    limited(0.05, work, *(("sha256", b"a", b"b", 1 << 30) if loaded.raw == b"hold" else (1, 1)))
    return loaded.path


HELD = """
import hashlib
from termarena.forge import limiting
limiting.GRACE_S = 0.05
limiting.may_be_ended()
limiting.limited(0.05, hashlib.pbkdf2_hmac, "sha256", b"a", b"b", 1 << 30)
"""


def test_a_process_that_a_single_step_holds_is_ended() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], check=False)  # noqa: S603 - our own program
    assert done.returncode == limiting.ENDED


@pytest.mark.soak
def test_a_recording_that_holds_its_process_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number:03}.txt" for number in range(SHARD_FILES + 1)]
    for path in paths:
        path.write_bytes(b"plain")
    paths[3].write_bytes(b"hold")
    wanted = [str(path) for path in paths]
    wanted[3] = f"{paths[3]} ended the process that was to read it, or held it"
    assert list(map_files(end_or_hold, paths, Where(2))) == wanted


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A short one and a long one."""
    short = (FOLDER / "sort-uniq.cast").read_text()
    (tmp_path / "a.cast").write_text(short)
    filling = [json.dumps([100 + number / 1000, "o", f"$ echo {number}\r\n{number}\r\n"]) for number in range(60_000)]
    (tmp_path / "b.cast").write_text(short + "\n".join(filling) + "\n")
    return tmp_path


def test_a_recording_that_takes_too_long_is_refused_by_name_and_the_others_are_kept(recordings: Path) -> None:
    rules = ScreenRules(most_processor_s=0.2)
    limited(60, list, screen_files([recordings / "a.cast"], ScreenPlan(where=Where(1))))  # what is loaded once
    found = list(screen_files([recordings / "a.cast", recordings / "b.cast"], ScreenPlan(rules, where=Where(1))))
    assert [(one.source.rpartition("/")[2], one.kept) for one in found] == [("b.cast", False), ("a.cast", True)]
    (finding,) = found[0].findings
    assert (finding.gate, finding.rule) == ("readable", "took-too-long")
    assert finding.reason == "it took too long: more than 0.2 s of processor time"


def test_one_that_took_too_long_is_made_anew_where_it_may_take_longer(recordings: Path) -> None:
    short = ScreenRules(most_processor_s=0.05)
    (item,) = items_in([recordings / "b.cast"], rules=short)
    assert isinstance(item, Unreadable)
    assert "took too long" in item.reason
    configs = [MakingConfig(screen=ScreenRules(most_processor_s=limit_s)) for limit_s in (0.05, 0.05, 60)]
    first, again, longer = [key_of_unreadable(item.reason, config) for config in configs]
    assert first == again != longer
