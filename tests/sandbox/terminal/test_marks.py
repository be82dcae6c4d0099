"""The marks: taken out wherever reads cut the stream, and nobody else's."""

from __future__ import annotations

import pytest

from termarena.sandbox.terminal.marks import MarkFilter, Report, ReportReader, new_token, pieces

TOKEN, NEXT, SECRET = "a" * 32, "b" * 32, "c" * 32


def _mark(token: str, kind: str) -> bytes:
    return f"\x1b]7717;{token};{kind}\x07".encode()


def _joined(pieces: list[bytes | str]) -> list[bytes | str]:
    """Neighbouring bytes as one piece."""
    joined: list[bytes | str] = []
    for piece in pieces:
        if isinstance(piece, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


@pytest.mark.parametrize("step", [1, 2, 3, 7, 40, 41, 1000])
def test_marks_are_taken_out_wherever_they_are_cut(step: int) -> None:
    stream = (
        b"before\x1b[1m"
        + _mark(TOKEN, "E")
        + _mark(NEXT, "B")
        + b"out\x1b]0;t\x07\x1b"
        + _mark(NEXT, "E")
        + b"$ "
        + _mark(TOKEN, "Q")
        + _mark("d" * 32, "E")
        + b"\x1b]7717;"
    )
    marks = MarkFilter()
    marks.attach(TOKEN)
    marks.expect(NEXT)
    found: list[bytes | str] = []
    for at in range(0, len(stream), step):
        found += marks.feed(stream[at : at + step])
    found.append(marks.rest())
    expected = [b"before\x1b[1m", "B", b"out\x1b]0;t\x07\x1b", "E", b"$ ", "Q", _mark("d" * 32, "E") + b"\x1b]7717;"]
    assert _joined(found) == expected


def test_nothing_is_held_back_without_need() -> None:
    marks = MarkFilter()
    marks.attach(TOKEN)
    assert list(marks.feed(b"prompt \x1b[0m")) == [b"prompt \x1b[0m"]
    assert list(marks.feed(b"x\x1b]77")) == [b"x"]
    assert list(marks.feed(b"8;")) == [b"\x1b]778;"]


def test_only_lines_with_the_secret_are_reports() -> None:
    reader = ReportReader(SECRET)
    lines = f"noise\r\n{SECRET} R\r\n{TOKEN} E {TOKEN} 0\r\n{SECRET} E {TOKEN} 130\r\nx{SECRET} R\n{SECRET} P {TOKEN} 9"
    found = [report for byte in lines.encode() for report in reader.feed(bytes([byte]))]
    assert found == [Report("R"), Report("E", TOKEN, 130)]
    assert reader.feed(b"9\n") == [Report("P", TOKEN, 99)]
    assert reader.feed(f"{SECRET} H zsh 12\n{SECRET} H fish 12\n{SECRET} E {TOKEN} -1\n".encode()) == [
        Report("H", "zsh", 12)
    ]


def test_the_longest_piece_is_read_back_whole() -> None:
    reader = ReportReader(SECRET)
    longest = max(pieces(" E" * 5000), key=len)
    said = f"{SECRET} L {longest}\r\n".encode()
    assert [report for byte in said for report in reader.feed(bytes([byte]))] == [Report("L", longest)]


def test_noise_on_the_wire_is_not_kept() -> None:
    reader = ReportReader(SECRET)
    for _ in range(100):
        assert reader.feed(b"x" * 100_000) == []
    assert reader.feed(f"\n{SECRET} R\n".encode()) == [Report("R")]


def test_commands_travel_as_short_plain_lines() -> None:
    lines = list(pieces("é\n\\" * 5000 + "."))
    assert [line[0] for line in lines] == ["+"] * (len(lines) - 1) + ["."]
    assert len(lines) > 10
    assert max(map(len, lines)) < 4000
    assert all(" " <= character <= "~" for line in lines for character in line)
    assert list(pieces("")) == ["."]


def test_tokens_differ() -> None:
    assert len({new_token() for _ in range(100)}) == 100
