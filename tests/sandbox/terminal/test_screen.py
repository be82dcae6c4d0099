"""The screen: what programs draw, against a second emulator."""

from __future__ import annotations

import random
import re
import unicodedata
from typing import TYPE_CHECKING

import pyte
import pytest

from termarena.core.errors import TerminalTimeout
from termarena.sandbox.terminal.output import Capture, plain_text
from termarena.sandbox.terminal.screen import Emulator

if TYPE_CHECKING:
    from termarena.sandbox import Sandbox
    from termarena.sandbox.terminal import Terminal


def _emulator(cols: int = 40, rows: int = 10) -> Emulator:
    return Emulator(cols, rows, scrollback_lines=100, reply=lambda _: None)


SCENES = {
    "text": b"one\r\ntwo\r\n\tthree",
    "wrap": b"x" * 95,
    "scroll": b"\r\n".join(b"line %d" % at for at in range(30)),
    "colours": b"\x1b[1;31mred\x1b[0m plain \x1b[38;2;1;2;3mrgb\x1b[m",
    "cursor": b"\x1b[5;10Hhere\x1b[2A\x1b[3Dup\x1b[H\x1b[Ktop",
    "erase": b"aaaa\r\nbbbb\r\ncccc\x1b[2;3H\x1b[1K\x1b[3;2H\x1b[J",
    "insert and delete": b"abcdef\x1b[1;3H\x1b[2@XY\x1b[1;1H\x1b[P\r\nq\x1b[L",
    "region": b"\x1b[3;6r\x1b[3;1H" + b"\r\n".join(b"r%d" % at for at in range(9)),
    "tabs": b"a\tb\tc\r\n\x1b[3g\td",
    "wide": "日本語\r\n한국어 ok\r\nx日".encode(),
    "backspace": b"abc\b\bX",
    "title": b"\x1b]0;a title\x07text",
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_agrees_with_a_second_emulator(scene: bytes) -> None:
    ours, theirs = _emulator(), pyte.Screen(40, 10)
    pyte.ByteStream(theirs).feed(scene)
    ours.feed(scene)
    state = ours.state()
    assert list(state.lines) == [line.rstrip() for line in theirs.display]
    assert (min(state.cursor.column, 39), state.cursor.row) == (min(theirs.cursor.x, 39), theirs.cursor.y)


def test_any_cut_of_the_stream_gives_the_same_screen() -> None:
    stream = b"".join(SCENES.values())
    whole, cut = _emulator(), _emulator()
    whole.feed(stream)
    rng = random.Random(7)  # noqa: S311 - a repeatable test
    at = 0
    while at < len(stream):
        step = rng.randint(1, 5)
        cut.feed(stream[at : at + step])
        at += step
    assert whole.state() == cut.state()


def test_noise_never_breaks_it() -> None:
    rng = random.Random(3)  # noqa: S311 - a repeatable test
    emulator = _emulator()
    alphabet = b"\x1b[]PX_^0123456789;?>!$ abHJKmhlrstuL\n\r\x07\x9b\xff\xed\xa0\x80\xf0\x9f"
    for _ in range(200):
        emulator.feed(bytes(rng.choice(alphabet) for _ in range(500)))
        state = emulator.state()
        assert len(state.lines) == 10
        assert not any(unicodedata.category(c) == "Cs" for c in state.text)
        emulator.scrollback(50)


def test_scrollback() -> None:
    emulator = _emulator(20, 5)
    emulator.feed(b"\r\n".join(b"%d" % at for at in range(30)))
    assert emulator.scrollback(3) == ("22", "23", "24")
    assert emulator.scrollback(0) == ()
    assert len(emulator.scrollback(1000)) == 25
    emulator.feed(b"\r\nx" * 100_000)
    assert len(emulator.scrollback(1_000_000)) < 3000


def test_scrollback_holds_as_many_lines_as_were_asked_for() -> None:
    emulator = Emulator(80, 24, scrollback_lines=25_000, reply=lambda _: None)
    lines = [f"line {at:06}".ljust(79, "x") for at in range(20_000)]
    emulator.feed("\r\n".join(lines).encode())
    assert list(emulator.scrollback(20_000)) == lines[:-24]


def test_alternate_screen() -> None:
    emulator = _emulator()
    emulator.feed(b"shell\r\n\x1b[?1049h\x1b[2J\x1b[Hfull screen\x1b[?25l")
    state = emulator.state()
    assert (state.is_alternate, state.text, state.cursor.is_visible) == (True, "full screen", False)
    emulator.feed(b"\x1b[?25h\x1b[?1049l")
    assert (emulator.state().is_alternate, emulator.state().text) == (False, "shell")


def test_resize_reflows() -> None:
    emulator = _emulator(20, 5)
    emulator.feed(b"x" * 30)
    assert emulator.state().lines[:2] == ("x" * 20, "x" * 10)
    emulator.resize(40, 5)
    assert emulator.state().lines[0] == "x" * 30


def test_plain_text() -> None:
    raw = b"\x1b[1;31mred\x1b[m\r\n\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\r\n\x1bPq~\x1b\\\xff\x08\x1b(Bz\r\nend"
    assert plain_text(raw) == "red\nalink\n\ufffdz\nend"


def test_capture_keeps_both_ends() -> None:
    capture = Capture(10)
    for at in range(100):
        capture.add(b"%02d" % at)
    assert (capture.kept(), capture.total_bytes) == (b"0001079899", 200)
    short = Capture(10)
    short.add(b"0123456789")
    assert short.kept() == b"0123456789"


async def test_a_curses_program(bash: Terminal) -> None:
    program = """python3 -c '
import curses
def main(screen):
    screen.addstr(2, 3, "press " + "a key"); screen.refresh()
    key = screen.getkey()
    screen.addstr(4, 3, "got" + " " + key); screen.refresh()
    screen.getkey()
curses.wrapper(main)'
"""
    bash.paste(program.strip())
    bash.send_keys("Enter")
    await bash.wait_for("press a key", timeout_s=20)
    assert bash.screen().is_alternate
    assert bash.screen().lines[2] == "   press a key"
    bash.send_keys("Up")
    await bash.wait_for("got KEY_UP", timeout_s=20)
    bash.resize(100, 30)
    bash.send_keys("q")
    await bash.wait_idle(timeout_s=20)
    assert not bash.screen().is_alternate
    assert (await bash.run("stty size")).text == "30 100\n"


@pytest.mark.needs("less")
async def test_a_pager(bash: Terminal) -> None:
    bash.type_text("seq 1000 | less\n")
    await bash.wait_for(re.compile(r"^23$", re.MULTILINE))
    bash.send_keys("G")
    await bash.wait_for("1000\n(END)")
    bash.send_keys("q")
    await bash.wait_idle()
    assert (await bash.run("echo $?")).text == "0\n"


async def test_wait_idle_follows_the_foreground(terminal: Terminal) -> None:
    terminal.type_text("sh -c 'echo started; read x'\n")
    await terminal.wait_for("started\n")
    with pytest.raises(TerminalTimeout, match="prompt") as error:
        await terminal.wait_idle(timeout_s=0.1)
    assert "started" in error.value.tail
    terminal.send_keys("Enter")
    await terminal.wait_idle()


async def test_an_open_quote_is_not_idle(terminal: Terminal) -> None:
    terminal.type_text("echo 'open\n")
    with pytest.raises(TerminalTimeout):
        await terminal.wait_idle(timeout_s=0.1)
    terminal.send_keys("C-c")
    await terminal.wait_idle()


async def test_wait_quiet(terminal: Terminal, box: Sandbox) -> None:
    terminal.type_text("while :; do echo x; sleep 0.02; done\n")
    await terminal.wait_for("x\nx\n")
    with pytest.raises(TerminalTimeout, match="quiet"):
        await terminal.wait_quiet(0.5, timeout_s=0.8)
    await box.kill_processes()
    await terminal.wait_quiet(0.05, timeout_s=10)


async def test_wait_for_says_what_it_saw(bash: Terminal) -> None:
    with pytest.raises(TerminalTimeout, match="never") as error:
        await bash.wait_for("never", timeout_s=0.05)
    assert "#" in error.value.tail


async def test_a_paste_is_one_command(bash: Terminal) -> None:
    bash.paste("for x in 1 2\ndo echo $x\ndone")
    bash.send_keys("Enter")
    await bash.wait_idle()
    assert bash.screen().text.splitlines()[-3:-1] == ["1", "2"]


async def test_typed_text_left_on_the_line_does_not_disturb(terminal: Terminal) -> None:
    terminal.type_text("rm -rf /tm")
    assert (await terminal.run("echo fine")).text == "fine\n"
