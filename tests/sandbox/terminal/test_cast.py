"""Recordings: both versions, cut characters, a full disk, a killed harness."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Literal

import pytest

from termarena.sandbox.terminal import CastWriter, TerminalOptions, open_terminal, read_cast

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox import Sandbox

Version = Literal[2, 3]


class Clock:
    """Time that goes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("version", [2, 3])
def test_round_trip(tmp_path: Path, version: Version) -> None:
    clock = Clock()
    writer = CastWriter(tmp_path / "a.cast", version=version, env={"SHELL": "/bin/sh"}, clock=clock)
    writer.begin(80, 24)
    clock.now += 1 / 3
    writer.output(b"$ ")
    clock.now += 1 / 3
    writer.input(b"ls\r")
    clock.now += 1 / 3
    writer.marker("ls")
    clock.now += 1 / 3
    writer.resize(100, 40)
    clock.now += 1 / 3
    writer.output("日本\r\n".encode())
    writer.close(7)
    writer.close(8)
    found = read_cast(tmp_path / "a.cast")
    assert (found.version, found.cols, found.rows, found.is_cut) == (version, 80, 24, False)
    assert found.header["env"] == {"SHELL": "/bin/sh"}
    expected = [("o", "$ "), ("i", "ls\r"), ("m", "ls"), ("r", "100x40"), ("o", "日本\r\n")]
    assert [(event.code, event.text) for event in found.events] == expected + ([("x", "7")] if version == 3 else [])
    assert [round(event.at_s, 5) for event in found.events[:5]] == [0.33333, 0.66667, 1.0, 1.33333, 1.66667]


def test_intervals_do_not_drift(tmp_path: Path) -> None:
    clock = Clock()
    writer = CastWriter(tmp_path / "a.cast", version=3, clock=clock)
    writer.begin(80, 24)
    for _ in range(1000):
        clock.now += 0.00033333333
        writer.output(b"x")
    assert abs(read_cast(tmp_path / "a.cast").events[-1].at_s - 0.33333333) < 1e-5


def test_characters_cut_by_reads(tmp_path: Path) -> None:
    raw = "é日👩".encode() + b"\xff" + "ü".encode()[:1]
    writer = CastWriter(tmp_path / "a.cast")
    writer.begin(80, 24)
    for at in range(len(raw)):
        writer.output(raw[at : at + 1])
    writer.close()
    assert read_cast(tmp_path / "a.cast").text() == "é日👩\ufffd\ufffd"


def test_no_recording_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_text("mine")
    with pytest.raises(FileExistsError):
        CastWriter(tmp_path / "a.cast")


def test_size_limit(tmp_path: Path) -> None:
    writer = CastWriter(tmp_path / "a.cast", max_bytes=1000)
    writer.begin(80, 24)
    for _ in range(100):
        writer.output(b"x" * 100)
    writer.close()
    found = read_cast(tmp_path / "a.cast")
    assert found.events[-1].text == "recording stopped: size limit"
    assert (tmp_path / "a.cast").stat().st_size < 1300
    assert len(found.text()) + writer.dropped_bytes == 10_000
    assert writer.problem is not None


def test_full_disk_ends_the_recording_only(tmp_path: Path) -> None:
    """A file size limit stands in for a disk: the kernel cuts the last write short in the same way."""
    script = f"""
import resource, signal
from pathlib import Path
from termarena.sandbox.terminal import CastWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
writer = CastWriter(Path({str(tmp_path / "a.cast")!r}))
writer.begin(80, 24)
for _ in range(50):
    writer.output(b"y" * 99)
writer.close()
print(writer.problem)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    assert done.stdout.strip() in ("the disk is full", "File too large")
    found = read_cast(tmp_path / "a.cast")
    assert not found.is_cut
    assert len(found.events) > 3


def test_a_killed_harness_leaves_whole_lines(tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from termarena.sandbox.terminal import CastWriter
writer = CastWriter(Path({str(tmp_path / "a.cast")!r}), version=3)
writer.begin(80, 24)
for at in range(500):
    writer.output(b"line %d" % at)
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)  # noqa: S603 - our own interpreter
    found = read_cast(tmp_path / "a.cast")
    assert (len(found.events), found.is_cut) == (500, False)
    assert found.events[-1].text == "line 499"


def test_a_killed_harness_leaves_no_part_of_a_secret(tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from termarena.core.scrub import Scrubber
from termarena.sandbox.terminal import CastWriter
writer = CastWriter(Path({str(tmp_path / "a.cast")!r}), scrubber=Scrubber({{"MY_KEY": "correct-horse-battery"}}))
writer.begin(80, 24)
for part in ("key: ", "corr", "ect-horse-battery", " and corr", "ect-horse"):
    writer.output(part.encode())
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], check=False)  # noqa: S603 - our own interpreter
    assert read_cast(tmp_path / "a.cast").text() == "key: [secret MY_KEY] and "


def test_a_cut_line_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_text('{"version": 2, "width": 8, "height": 2}\n[0.1, "o", "x"]\n[0.2, "o')
    found = read_cast(tmp_path / "a.cast")
    assert (len(found.events), found.is_cut) == (1, True)


@pytest.mark.parametrize("text", ['{"version": 1}\n', "[]\n", '"x"\n', "no json\n"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.cast").write_text(text)
    with pytest.raises(ValueError, match=r"asciicast|Expecting"):
        read_cast(tmp_path / "a.cast")


@pytest.mark.parametrize("version", [2, 3])
async def test_a_session(box: Sandbox, tmp_path: Path, version: Version) -> None:
    path = tmp_path / "session.cast"
    options = TerminalOptions(shell_argv=("/bin/bash",), cast=CastWriter(path, version=version))
    async with open_terminal(box, options) as terminal:
        await terminal.run("printf 'é\\n'\nexit_status=3")
        terminal.mark("a point")
        terminal.resize(90, 30)
        live = read_cast(path)
        assert "é" in live.text()
        terminal.type_text("exit 3\n")
        await terminal.wait_for("exit\n")
    found = read_cast(path)
    assert "__ta" not in path.read_text()
    assert "7717" not in path.read_text()
    assert [event.text for event in found.events if event.code == "m"] == ["printf 'é\\n'", "a point"]
    assert found.text("i") == "printf 'é\\n'\nexit_status=3\rexit 3\r"
    assert found.text("r") == "90x30"
    assert "# printf 'é\\n'\r\n> exit_status=3\r\n" in found.text()
    assert [json.loads(line)[0] >= 0 for line in path.read_text().splitlines()[1:]]
