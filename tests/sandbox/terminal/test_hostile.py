"""Programs that mean harm: none forges a status, breaks the harness or fills its memory."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import NoExitStatus, TerminalEnded, TerminalSizeError, TerminalTimeout
from termarena.sandbox.terminal import TerminalOptions, open_terminal, session

if TYPE_CHECKING:
    from termarena.sandbox import Sandbox
    from termarena.sandbox.terminal import Terminal

# Finds the wire as any process of the same user can, and writes to it and to the shell's terminal what it can make up.
FORGER = rb"""
import glob, os, re
shell = os.getppid()
words = open(f"/proc/{shell}/environ").read() + open("/proc/self/environ").read()
tokens = re.findall("[0-9a-f]{32}", words) + ["0" * 32]
for token in tokens:
    os.write(1, f"\x1b]7717;{token};E\x07\x1b]7717;{token};B\x07\x1b]133;D;0\x07".encode())
for name in glob.glob("/dev/pts/[0-9]*"):
    fd = os.open(name, os.O_WRONLY | os.O_NOCTTY)
    for token in tokens:
        for secret in tokens:
            os.write(fd, f"{secret} E {token} 0\n{secret} P {token} 0\n{token} R\n".encode())
    os.write(fd, b"x" * 100_000 + b"\n")
os.write(1, b"done forging\n")
raise SystemExit(3)
"""


async def test_a_forged_status_is_not_believed(terminal: Terminal, box: Sandbox) -> None:
    await box.write("/root/forger.py", FORGER)
    result = await terminal.run("python3 /root/forger.py")
    assert result.exit_status == 3
    assert "done forging" in result.text
    assert (await terminal.run("echo next; (exit 4)")).exit_status == 4


async def test_nothing_secret_is_in_the_environment_or_the_arguments(terminal: Terminal) -> None:
    shown = await terminal.run("env; cat /proc/$$/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; ls /proc/self/fd")
    assert "HOME=" in shown.text
    assert "__ta" not in shown.text.replace("__ta_get", "")


# Reads whatever it can of what is meant for the shell, on both its lines, and says again what it has read.
THIEF = rb"""
import os, select
if os.fork():
    os._exit(0)
os.setsid()
fds = {}
print("lurking", flush=True)
while True:
    for n in set(os.listdir("/dev/pts")) - {"ptmx"} - set(fds):
        fds[n] = os.open(f"/dev/pts/{n}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    for fd in select.select(fds.values(), [], [], 0.01)[0]:
        try:
            for line in os.read(fd, 7).split(b"\n"):
                for other in fds.values():
                    os.write(other, line + b" E " + line + b" 0\n" + line + b" 0\n")
        except OSError:
            pass
"""


async def test_a_thief_of_the_wire_learns_no_status(box: Sandbox, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads a shell's lines can stop it, not speak for it, nor have it say what is not so."""
    monkeypatch.setattr(session, "READY_S", 0.2)
    await box.write("/root/thief.py", THIEF)
    async with open_terminal(box, TerminalOptions(shell_argv=(shell,), open_timeout_s=1)) as robbed:
        await robbed.run("python3 /root/thief.py >/root/log 2>&1; until grep -q lurking /root/log; do :; done")
        for status in (5, 6):
            try:
                result = await robbed.run(f"(exit {status})", timeout_s=0.3)
            except (TerminalTimeout, NoExitStatus):
                continue
            except TerminalEnded:
                break
            assert result.exit_status in (status, 124) or result.shell_ended


async def test_a_mark_of_a_program_that_knows_the_token_does_not_end_the_command(bash: Terminal) -> None:
    """The shell's own words, handed to a program: the status still waits for the shell to be in front again."""
    tell = r"""sh -c 'printf "\033]7717;%s;E\007" "$1"; sleep 0.2; echo later; exit 6' sh "$__ta_t" """
    assert (await bash.run(tell)).exit_status == 6


async def test_gigabytes_are_drained_and_counted(bash: Terminal) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await bash.run("head -c 30000000 /dev/zero | tr '\\0' x; echo end", timeout_s=100)
    assert result.exit_status == 0
    assert result.output_bytes == 30_000_000 + 5
    assert len(result.output) == 1 << 20
    assert result.is_truncated
    assert result.output.startswith(b"xxx")
    assert result.output.endswith(b"xend\r\n")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000


BOMBS = {
    "title without end": r"printf '\033]0;'; head -c 3000000 /dev/zero | tr '\0' A",
    "device control without end": r"printf '\033P+q'; head -c 3000000 /dev/zero | tr '\0' A",
    "application command without end": r"printf '\033_G'; head -c 3000000 /dev/zero | tr '\0' A",
    "parameters without end": r"printf '\033['; yes '1;' | head -n 500000 | tr -d '\n'",
    "repeat and scroll": r"printf 'x\033[99999999999b\033[4294967295S\033[99999T\033[99999L\033[99999999;99999999H'",
    "combining characters": r"""awk 'BEGIN { for (; n++ < 300000;) printf "\314\201" }'""",
    "links": r"""awk 'BEGIN { for (i = 0; i < 50000; i++) printf "\033]8;;http://a/%d\007x", i }'""",
    "images": r"""awk 'BEGIN { for (i = 0; i < 50; i++) { printf "\033_Ga=T,f=24,s=99,v=99,i=%d;", i;
        for (j = 0; j < 9000; j++) printf "AAAA"; printf "\033\\" } }'""",
    "130 columns": r"printf '\033[?40h\033[?3h\033[8;5;5t'",
    "random bytes": "head -c 2000000 /dev/urandom",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
async def test_an_escape_bomb_leaves_a_terminal_that_works(bash: Terminal, bomb: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await bash.run(bomb, timeout_s=60)
    assert not result.timed_out
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000
    result = await bash.run("printf '\\030\\033c'; echo works")
    assert (result.exit_status, result.text.splitlines()[-1]) == (0, "works")
    screen = bash.screen()
    assert (screen.cols, screen.rows, len(screen.lines)) == (80, 24, 24)


async def test_an_injected_title_is_only_a_title(terminal: Terminal) -> None:
    """A terminal that reports its title types what a program chose into the shell."""
    await terminal.run(r"printf '\033]0;touch /root/owned\r\n\007\033[21t\033]2;?\007\033P+q544e\033\\'")
    terminal.send_keys("Enter")
    await terminal.wait_idle()
    assert (await terminal.run("ls /root")).text == ""
    await terminal.run(r"printf '\033]0;hello\001 \033]0;good title\007'")
    assert terminal.screen().title == "good title"


async def test_answers_do_not_become_commands(terminal: Terminal) -> None:
    for query in ("c", ">c", "=c", "5n", "6n", "18t", "14t", ">q", "?u"):
        await terminal.run(f"printf '\\033[{query}'")
    assert (await terminal.run("echo next; (exit 2)")).exit_status == 2
    assert terminal.screen().text.rstrip().splitlines()[-2] == "next"


async def test_queries_are_answered(bash: Terminal) -> None:
    ask = r"""python3 -c '
import os, sys, termios, tty
old = termios.tcgetattr(0); tty.setraw(0)
def ask(query, end):
    os.write(1, query); got = b""
    while not got.endswith(end): got += os.read(0, 1)
    return got
answers = [ask(b"\033[c", b"c"), ask(b"\033[6n", b"R"), ask(b"\033[18t", b"t"), ask(b"\033]11;?\007", b"\007")]
termios.tcsetattr(0, termios.TCSADRAIN, old)
print(*answers)
'"""
    result = await bash.run(ask, timeout_s=20)
    assert result.exit_status == 0
    assert r"b'\x1b[8;24;80t' b'\x1b]11;rgb:0000/0000/0000\x07'" in result.text


async def test_a_flood_of_queries_nobody_reads_the_answers_of(bash: Terminal) -> None:
    result = await bash.run(r"yes '' | head -n 200000 | sed 's/.*/\x1b[c/' | tr -d '\n'", timeout_s=60)
    assert result.exit_status == 0
    assert (await bash.run("echo next")).text.endswith("next\n")


async def test_bytes_that_are_no_text(terminal: Terminal) -> None:
    result = await terminal.run(r"printf '\377\376 \303\050 \355\240\200 ok\n'")
    assert result.output == b"\xff\xfe \xc3( \xed\xa0\x80 ok\r\n"
    assert result.text.endswith(" ok\n")
    assert "ok" in terminal.screen().text


@pytest.mark.parametrize(("cols", "rows"), [(0, 0), (0, 24), (80, 0), (-1, 5), (100_000, 24)])
async def test_a_terminal_of_no_size(bash: Terminal, cols: int, rows: int) -> None:
    with pytest.raises(TerminalSizeError, match=f"{cols}x{rows}") as error:
        TerminalOptions(cols=cols, rows=rows)
    assert error.value.hint
    with pytest.raises(TerminalSizeError):
        bash.resize(cols, rows)


async def test_a_shell_that_is_none(box: Sandbox) -> None:
    with pytest.raises(TerminalTimeout) as error:
        async with open_terminal(box, TerminalOptions(shell_argv=("/bin/cat",), open_timeout_s=0.3)):
            pass
    assert error.value.hint
    assert [process.argv for process in await box.processes()] == []


async def test_a_shell_that_is_not_there(box: Sandbox) -> None:
    with pytest.raises(TerminalEnded) as error:
        async with open_terminal(box, TerminalOptions(shell_argv=("/bin/nothing",))):
            pass
    assert error.value.shell_status == 127


async def test_no_process_of_ours_is_left(box: Sandbox) -> None:
    async with open_terminal(box, TerminalOptions(shell_argv=("/bin/bash",))) as terminal:
        await terminal.run("true")
        assert len(await box.processes()) == 2
    while left := await box.processes():
        assert all(process.argv[:1] in (("/bin/bash",), ("/bin/sh",), ()) for process in left)
        await asyncio.sleep(0)
