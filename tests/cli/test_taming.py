"""What a recording may do to the terminal that it is played on: draw, and nothing else."""

from __future__ import annotations

import random

import pytest

from termarena.cli.taming import Tamer

PLAYED = [
    "plain, with tabs\tand lines\r\n",
    "wide ✓ 漢字 é",
    "\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mtrue\x1b[m",
    "\x1b[2J\x1b[H\x1b[10;20H\x1b[K\x1b[3A\x1b[?25l\x1b[?1049h\x1b[?25;7h\x1b[4h",
    "\x1b7\x1b8\x1b(B\x1b(0lqqk\x1b(B\x1b=\x1b>\x1bM\x1b#8",
    "\x1b[2 q\x1b[!p\x1b[5;10r\x1b[u\x1b[?2026h",
]
LEFT_OUT = [
    pytest.param("\x1b]52;c;ZXZpbA==\x07", id="clipboard"),
    pytest.param("\x1b]0;title\x1b\\", id="title"),
    pytest.param("\x1b]11;?\x07", id="asks for a colour"),
    pytest.param("\x1b[c", id="asks what it is"),
    pytest.param("\x1b[>c", id="asks what it is, again"),
    pytest.param("\x1b[6n", id="asks where the cursor is"),
    pytest.param("\x1b[21t", id="asks for the title"),
    pytest.param("\x1b[?1$p", id="asks for a mode"),
    pytest.param("\x1b[>q", id="asks for the version"),
    pytest.param("\x1b[?u", id="asks for the keyboard"),
    pytest.param("\x1bZ", id="asks what it is, the old way"),
    pytest.param("\x05", id="enquiry"),
    pytest.param("\x1bP$qm\x1b\\", id="asks for a setting"),
    pytest.param("\x1b_Gi=1;AAAA\x1b\\", id="graphics"),
    pytest.param("\x1b[5i", id="prints"),
    pytest.param("\x1b[?1000h\x1b[?1006h\x1b[?25;1003h", id="mouse"),
    pytest.param("\x1b[?2004h\x1b[?1004h", id="paste and focus"),
    pytest.param("\x1b[>4;2m", id="keys"),
    pytest.param("\x9b6n\x9d52;c;eA==\x9c\x90q\x9c", id="eight bits"),
    pytest.param("\x1b[" + "1;" * 5000 + "m", id="endless"),
    pytest.param("\x1b]0;" + "x" * 100_000 + "\x07", id="long string"),
]


@pytest.mark.parametrize("text", PLAYED)
def test_drawing_is_played(text: str) -> None:
    assert Tamer().pass_on(text) == text


@pytest.mark.parametrize("text", LEFT_OUT)
def test_what_reaches_beyond_the_picture_is_left_out(text: str) -> None:
    assert Tamer().pass_on(f"a{text}b") == "ab"


def test_a_sequence_that_was_broken_off_does_not_swallow_the_rest() -> None:
    assert Tamer().pass_on("\x1b]0;never ended\x1b[31mred") == "\x1b[31mred"
    assert Tamer().pass_on("\x1b[12\x18after") == "after"
    assert Tamer().pass_on("\x1b[3\n1m.") == "\n\x1b[31m."


def test_however_the_stream_is_cut() -> None:
    chance = random.Random(3)  # noqa: S311 - a choice of examples
    text = "".join(PLAYED) + "".join(str(one.values[0]) for one in LEFT_OUT[:-2]) + "end"
    whole = Tamer().pass_on(text)
    assert whole == "".join(PLAYED) + "end"
    for _ in range(50):
        cuts = sorted(chance.sample(range(1, len(text)), 20))
        tamer = Tamer()
        pieces = [tamer.pass_on(text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert "".join(pieces) == whole


def test_noise_never_fails_and_never_asks() -> None:
    chance = random.Random(4)  # noqa: S311 - a choice of examples
    alphabet = "\x1b\x1b[]P_?>;:019mnchlutqp $!\\\x07\x18\x05\x9b\x9d\x9c\n aZ"
    for _ in range(500):
        shown = Tamer().pass_on("".join(chance.choices(alphabet, k=60)))
        assert Tamer().pass_on(shown) == shown
