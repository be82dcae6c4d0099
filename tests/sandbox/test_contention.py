"""Facts about a shared machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from termarena.sandbox import Usage
from termarena.sandbox.contention import Sample, take_sample

STAT = "cpu  10 0 20 30 0 0 0 {steal} 0 0\ncpu0 1 2 3 4\n"
SOME = "some avg10=1.00 avg60=0.00 avg300=0.00 total={total}\n"


def _machine(folder: Path, *, steal: int, waited_us: int) -> Sample:
    (folder / "pressure").mkdir(exist_ok=True)
    (folder / "loadavg").write_text("3.50 1.00 0.50 2/100 999\n")
    (folder / "stat").write_text(STAT.format(steal=steal))
    (folder / "pressure/cpu").write_text(SOME.format(total=waited_us))
    (folder / "pressure/io").write_text(SOME.format(total=1) + SOME.format(total=2 * waited_us).replace("some", "full"))
    return take_sample(folder)


def test_what_happened_between_two_moments(tmp_path: Path) -> None:
    before = _machine(tmp_path, steal=100, waited_us=1_000_000)
    after = _machine(tmp_path, steal=350, waited_us=3_500_000)
    used = Usage(cpu_throttled_s=0.25, cpu_throttled_periods=4)
    found = before.until(after, usage=used)
    assert found.load_1m == 3.5
    assert found.cpu_steal_s == pytest.approx(250 / os.sysconf("SC_CLK_TCK"))
    assert found.cpu_some_s == pytest.approx(2.5)
    assert found.io_some_s == pytest.approx(0.0)
    assert found.io_full_s == pytest.approx(5.0)
    assert (found.memory_some_s, found.memory_full_s, found.cpu_full_s) == (None, None, None)
    assert (found.cpu_throttled_s, found.cpu_throttled_periods) == (0.25, 4)
    assert found.span_s >= 0


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    found = take_sample(tmp_path).until(take_sample(tmp_path))
    told = {name for name in found.__slots__ if getattr(found, name) is not None}
    assert told == {"span_s", "cpu_count"}


def test_this_machine_is_asked_quickly() -> None:
    first = take_sample()
    assert first.load_1m is not None
    assert first.steal_s is not None
    assert bool(first.pressure_s) == Path("/proc/pressure/cpu").exists()
    began = time.process_time()
    for _ in range(100):
        take_sample()
    assert time.process_time() - began < 0.1
