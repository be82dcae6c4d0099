"""What is sent to the shell and does not arrive as it was sent: another process has read some of it.

A test cannot make a thief win a race, so that here the letters are taken away before they are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import TerminalTimeout
from termarena.sandbox.terminal import TerminalOptions, open_terminal, session
from termarena.sandbox.terminal.stream import PtyStream

if TYPE_CHECKING:
    from termarena.sandbox import Sandbox
    from termarena.sandbox.terminal import Terminal

COMMAND = "echo ran >>/root/ran; (exit 5)"
TYPED = ' eval "$__ta_g"\n'


class Thief:
    """Takes letters out of the next lines that hold a word; the shell's silence is then believed soon."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._word = self._stolen = b""
        self._times = 0
        write = PtyStream.write

        def leaky(stream: PtyStream, data: bytes) -> None:
            if b"__ta_i=$(" in data:
                patch.setattr(session, "READY_S", 5.0)
            write(stream, self._rob(data))

        patch.setattr(PtyStream, "write", leaky)

    def steal(self, stolen: str, *, beside: str = "", times: int = 1) -> None:
        """`stolen` out of the first writes that hold it and `beside`."""
        self._word, self._stolen, self._times = beside.encode(), stolen.encode(), times

    @property
    def has_stolen(self) -> bool:
        return not self._times

    def _rob(self, data: bytes) -> bytes:
        if self.has_stolen or self._stolen not in data or self._word not in data:
            return data
        self._times -= 1
        self._patch.setattr(session, "READY_S", 0.2)
        return data.replace(self._stolen, b"", 1)


@pytest.fixture
def thief(monkeypatch: pytest.MonkeyPatch) -> Thief:
    return Thief(monkeypatch)


@pytest.mark.parametrize("stolen", [TYPED, '"', "eval", '"$', "_", "g", "\n", '"$__ta_g"', "$"])
async def test_letters_of_the_typed_line(terminal: Terminal, thief: Thief, stolen: str) -> None:
    await terminal.run("(exit 9)")
    thief.steal(stolen, beside="__ta_g")
    result = await terminal.run(f"echo $?; {COMMAND}")
    assert thief.has_stolen
    assert result.exit_status == 5
    assert (await terminal.run("cat /root/ran")).text == "ran\n"


@pytest.mark.parametrize("stolen", [f".{COMMAND}\n", ".", ".echo", "(exit 5)", ">", "\n", " 5", "ran; (exit 5)"])
async def test_letters_of_the_command(terminal: Terminal, thief: Thief, stolen: str) -> None:
    thief.steal(stolen, beside=".echo ran")
    assert (await terminal.run(COMMAND)).exit_status == 5
    assert thief.has_stolen
    assert (await terminal.run("cat /root/ran; ls /root")).text == "ran\nran\n"


async def test_a_piece_from_the_middle_of_a_long_command(terminal: Terminal, thief: Thief) -> None:
    lines = [f"word{number}={'x' * 60}" for number in range(200)]
    thief.steal("word150=", beside="word150=")
    result = await terminal.run("\n".join([*lines, 'test -n "$word150" && (exit 5)']))
    assert thief.has_stolen
    assert result.exit_status == 5


@pytest.mark.parametrize(("stolen", "beside"), [("ran", ".echo ran"), ('"', TYPED)])
async def test_a_thief_that_does_not_stop_is_told_and_the_terminal_lives(
    terminal: Terminal, thief: Thief, stolen: str, beside: str
) -> None:
    thief.steal(stolen, beside=beside, times=2)
    with pytest.raises(TerminalTimeout, match="take a command"):
        await terminal.run(COMMAND)
    assert thief.has_stolen
    assert (await terminal.run(COMMAND)).exit_status == 5
    assert (await terminal.run("cat /root/ran")).text == "ran\n"


async def test_the_word_to_run_it(terminal: Terminal, thief: Thief, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "new_token", lambda: "a" * 32)
    thief.steal("a" * 32 + "\n")
    with pytest.raises(TerminalTimeout, match="take a command"):
        await terminal.run(COMMAND, timeout_s=0.3)
    monkeypatch.undo()
    assert (await terminal.run("(exit 6)")).exit_status == 6
    assert (await terminal.run("ls /root")).text == ""


@pytest.mark.parametrize("stolen", ["__ta_c=$__ta_c${__ta_l#?}", "__ta_x=$__ta_c", ' eval "$__ta_x";'])
async def test_letters_of_what_a_shell_is_given_at_first(box: Sandbox, thief: Thief, shell: str, stolen: str) -> None:
    thief.steal(stolen, beside="7717")
    with pytest.raises(TerminalTimeout):
        async with open_terminal(box, TerminalOptions(shell_argv=(shell,), open_timeout_s=2)):
            pass
    assert thief.has_stolen
