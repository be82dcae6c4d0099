"""Commands in the shell that stays: their status, their output, and what they leave for the next one."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from sandbox.support import READY, cut_off, has
from termarena.core.errors import NoExitStatus, SandboxBroken, TerminalEnded, TerminalTimeout
from termarena.sandbox import Feature, Root, SandboxSpec
from termarena.sandbox.terminal import TerminalOptions, open_terminal
from termarena.sandbox.terminal.display import Display
from termarena.sandbox.terminal.stream import PtyStream

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox import Driver, Sandbox
    from termarena.sandbox.terminal import Terminal


async def test_status_and_output(terminal: Terminal) -> None:
    result = await terminal.run("echo out; echo err >&2; (exit 7)")
    assert (result.exit_status, result.output, result.output_bytes) == (7, b"out\r\nerr\r\n", 10)
    assert result.text == "out\nerr\n"


async def test_state_survives(terminal: Terminal) -> None:
    await terminal.run("cd /usr; own=5; export shown=6; greet() { echo hello $1; }; set -- first second")
    result = await terminal.run('pwd; echo $own; printenv shown; greet you; echo "$2"')
    assert result.text == "/usr\n5\n6\nhello you\nsecond\n"


async def test_status_of_the_last_command_is_there_for_the_next(terminal: Terminal) -> None:
    await terminal.run("(exit 9)")
    assert (await terminal.run("echo $?")).text == "9\n"


@pytest.mark.slow
async def test_output_that_comes_long_after_the_status(bash: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine carries them on two connections."""
    take = Display.take

    def late(display: Display, data: bytes) -> None:
        asyncio.get_running_loop().call_later(1.5, take, display, data)

    with monkeypatch.context() as patched:
        patched.setattr(Display, "take", late)
        assert (await bash.run("echo late; (exit 3)")).text == "late\n"


async def test_background_jobs_survive(terminal: Terminal) -> None:
    await terminal.run("sleep 60 &")
    await terminal.run("pid=$!")
    assert (await terminal.run("kill -0 $pid && echo alive")).text == "alive\n"
    assert "sleep 60" in (await terminal.run("jobs")).text


@pytest.mark.parametrize("shell", ["/bin/bash", pytest.param("/bin/zsh", marks=pytest.mark.needs("zsh"))])
async def test_declarations_are_not_local(terminal: Terminal) -> None:
    await terminal.run("declare -A ages; ages[ann]=41")
    assert (await terminal.run("echo ${ages[ann]}")).text == "41\n"


async def test_many_lines_and_a_here_document(terminal: Terminal) -> None:
    result = await terminal.run("for x in 1 2\ndo\n\techo $x\ndone\ncat <<'END'\n$a `b` \\c\nEND\n")
    assert result.text == "1\n2\n$a `b` \\c\n"


async def test_a_command_longer_than_a_line_of_a_terminal(terminal: Terminal) -> None:
    text = "".join(chr(ord("a") + at % 26) for at in range(20_000))
    result = await terminal.run(f"x='{text}'; printf %s \"$x\" | cksum; echo ${{#x}}")
    assert result.text.endswith("\n20000\n")
    assert (await terminal.run(f"test \"$x\" = '{text}'")).exit_status == 0


async def test_every_byte_arrives(terminal: Terminal, box: Sandbox) -> None:
    odd = "".join(chr(at) for at in range(1, 128) if at != 0x27) + "é日本👩‍👩‍👧" + "\udcff\udc80"
    result = await terminal.run(f"printf '%s' '{odd}' > /root/odd")
    assert result.exit_status == 0
    assert await box.read("/root/odd") == odd.encode("utf-8", "surrogateescape")


async def test_no_newline_at_the_end(terminal: Terminal) -> None:
    assert (await terminal.run("printf abc")).output == b"abc"


async def test_nothing_at_all(terminal: Terminal) -> None:
    await terminal.run("(exit 3)")
    result = await terminal.run("")
    assert result.output == b""


async def test_one_dot(terminal: Terminal) -> None:
    await terminal.run("alias .=true" if terminal.shell == "zsh" else "true")
    assert (await terminal.run("echo .")).text == ".\n"


@pytest.mark.parametrize("command", ["echo 'open", 'echo "open', "if true", "cat <(", "( echo", "echo $(", "for x in"])
async def test_an_incomplete_command_is_reported_and_does_not_hang(terminal: Terminal, command: str) -> None:
    result = await terminal.run(command, timeout_s=20)
    assert result.exit_status not in (0, 124)
    assert (await terminal.run("echo next")).text == "next\n"


async def test_a_trailing_backslash(terminal: Terminal) -> None:
    await terminal.run("echo a \\")
    assert (await terminal.run("echo next")).text == "next\n"


async def test_a_command_reads_the_terminal(terminal: Terminal) -> None:
    running = asyncio.ensure_future(terminal.run("printf 'na''me? '; read -r name; echo \"hello $name\""))
    await terminal.wait_for("name? ")
    terminal.type_text("ann\n")
    result = await running
    assert result.exit_status == 0
    assert result.text == "name? ann\nhello ann\n"


async def test_interrupt_gives_130(terminal: Terminal) -> None:
    running = asyncio.ensure_future(terminal.run("sh -c 'echo up; exec sleep 60'; echo not reached"))
    await terminal.wait_for("up\n")
    terminal.send_keys("C-c")
    result = await running
    assert result.exit_status == 130
    assert "not reached" not in result.text
    assert (await terminal.run("echo $?")).text == "130\n"


async def test_timeout_interrupts_and_keeps_what_there_is(terminal: Terminal, box: Sandbox) -> None:
    command = f"echo before; : >{READY}; sleep 600"
    result = await cut_off(box, lambda limit_s: terminal.run(command, timeout_s=limit_s), timeout_s=0.2)
    assert (result.exit_status, result.timed_out, result.shell_ended) == (124, True, False), result.text
    assert result.text.startswith("before\n")
    assert (await terminal.run("echo next")).text == "next\n"


async def test_timeout_of_a_program_that_ignores_interrupts(terminal: Terminal, box: Sandbox) -> None:
    await box.write(
        "/root/deaf", b"#!/bin/sh\ntrap '' INT TERM HUP\necho deaf\nwhile :; do sleep 60; done\n", mode=0o755
    )
    result = await terminal.run("/root/deaf", timeout_s=0.2)
    assert (result.exit_status, result.timed_out, result.shell_ended) == (124, True, False), result.text
    assert (await terminal.run("echo next")).text.endswith("next\n")


async def test_what_comes_after_a_program_that_had_to_be_killed_is_not_run(terminal: Terminal, box: Sandbox) -> None:
    await box.write("/root/deaf", b"#!/bin/sh\ntrap '' INT\nwhile :; do sleep 60; done\n", mode=0o755)
    result = await terminal.run("/root/deaf; echo after >/root/log", timeout_s=0.2)
    assert (result.exit_status, result.timed_out, result.shell_ended) == (124, True, False), result.text
    assert (await terminal.run("cat /root/log || echo none")).text.endswith("none\n")


async def test_timeout_of_a_loop_in_the_shell_itself(terminal: Terminal) -> None:
    assert (await terminal.run("while :; do :; done", timeout_s=0.2)).timed_out
    assert (await terminal.run("echo next")).text == "next\n"


async def test_a_shell_that_cannot_be_interrupted_is_ended(box: Sandbox) -> None:
    options = TerminalOptions(shell_argv=("/bin/bash",), open_timeout_s=1.5)
    async with open_terminal(box, options) as terminal:
        result = await terminal.run("trap '' INT; while :; do :; done", timeout_s=0.1)
        assert (result.timed_out, result.shell_ended) == (True, True)
        with pytest.raises(TerminalEnded):
            await terminal.run("echo next")
    assert (await box.exec(["true"])).exit_status == 0


async def test_end_of_the_shell(terminal: Terminal) -> None:
    result = await terminal.run("echo bye; exit 5")
    assert (result.exit_status, result.shell_ended) == (5, True)
    assert result.text.startswith("bye\n")
    with pytest.raises(TerminalEnded) as error:
        await terminal.run("echo next")
    assert error.value.shell_status == 5
    with pytest.raises(TerminalEnded):
        terminal.send_keys("Enter")


async def test_the_shell_is_killed(terminal: Terminal) -> None:
    result = await terminal.run("kill -KILL $$")
    assert (result.exit_status, result.shell_ended) == (137, True)


async def test_errexit_ends_the_shell_as_typed(bash: Terminal) -> None:
    await bash.run("set -e")
    assert (await bash.run("false")).shell_ended


async def test_another_shell_in_its_place(bash: Terminal) -> None:
    result = await bash.run("exec /bin/dash", timeout_s=0.3)
    assert result.timed_out
    assert (await bash.run("echo ${BASH_VERSION-none}")).text == "none\n"
    assert bash.shell == "posix"


async def test_a_shell_in_the_shell(bash: Terminal) -> None:
    bash.type_text("dash\n")
    with pytest.raises(TerminalTimeout, match="prompt"):
        await bash.run("echo hello", timeout_s=0.2)
    bash.type_text("exit\n")
    await bash.wait_idle()
    assert (await bash.run("echo ${BASH_VERSION:+bash}")).text == "bash\n"


async def test_odd_options_of_the_shell(terminal: Terminal) -> None:
    await terminal.run("set -u; set -f; set -C; IFS=,; alias printf=false; read() { false; }")
    assert (await terminal.run("echo a")).text == "a\n"
    await terminal.run("unset -f read; set +u")
    await terminal.run("set -x")
    result = await terminal.run("echo traced; false")
    assert result.exit_status == 1
    assert "traced\n" in result.text


async def test_output_of_the_shell_sent_elsewhere(terminal: Terminal) -> None:
    await terminal.run("exec 3>&1 >/root/out")
    assert (await terminal.run("echo hidden; (exit 4)")).exit_status == 4
    await terminal.run("exec >&3 3>&-")
    assert (await terminal.run("cat /root/out")).text == "hidden\n"


async def test_prompt_and_hooks_replaced(terminal: Terminal) -> None:
    await terminal.run("PS1='> '; PROMPT_COMMAND=; precmd_functions=")
    assert (await terminal.run("(exit 6)")).exit_status == 6
    result = await terminal.run("echo 'open")
    assert result.exit_status not in (0, 124)
    assert (await terminal.run("echo next")).text == "next\n"


async def test_functions_removed(bash: Terminal) -> None:
    await bash.run("unset -f __ta_get")
    assert (await bash.run("echo again; (exit 2)")).exit_status == 2


async def test_everything_else_killed(bash: Terminal, driver: Driver) -> None:
    """Also the process that holds the second line: the shell is attached to again."""
    if driver.name != "namespace":
        pytest.skip("a container ends with its first process, which its root may kill")
    with contextlib.suppress(NoExitStatus):  # the holder may be gone before the shell could report
        await bash.run("kill -9 -1")
    assert (await bash.run("echo still here")).text == "still here\n"


async def test_modes_broken_by_a_program(terminal: Terminal) -> None:
    await terminal.run("stty raw -echo -opost")
    assert (await terminal.run("stty -a; echo x")).output.endswith(b"x\r\n")
    await terminal.run("sh -c 'stty -icanon -isig min 1; kill -KILL $$'")
    result = await terminal.run("sleep 60", timeout_s=0.2)
    assert (result.timed_out, result.shell_ended) == (True, False)


async def test_commands_take_turns(terminal: Terminal) -> None:
    results = await asyncio.gather(*(terminal.run(f"echo {at}; (exit {at})") for at in range(10)))
    assert [(result.exit_status, result.text) for result in results] == [(at, f"{at}\n") for at in range(10)]


async def test_a_cancelled_command_is_interrupted(terminal: Terminal) -> None:
    running = asyncio.ensure_future(terminal.run("sh -c 'echo up; exec sleep 60'"))
    await terminal.wait_for("up\n")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await terminal.run("echo next", timeout_s=20)).text == "next\n"


async def test_a_command_that_is_cancelled_between_two_of_its_programs(
    terminal: Terminal, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one has ended and the shell is not in front again: Ctrl-C meets nobody."""
    interrupted = asyncio.Event()
    write = PtyStream.write

    def telling(stream: PtyStream, data: bytes) -> None:
        write(stream, data)
        if data == b"\x03":
            interrupted.set()

    monkeypatch.setattr(PtyStream, "write", telling)
    first = "sh -c 'kill -s STOP $PPID; echo up'"
    running = asyncio.ensure_future(terminal.run(f"{first}; sleep 60; echo after >/root/log"))
    await terminal.wait_for("up\n")
    while any("kill -s STOP $PPID; echo up" in one.argv for one in await box.processes()):
        pass
    running.cancel()
    await interrupted.wait()
    await box.exec(["sh", "-c", "kill -s CONT -- -1"])
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await terminal.run("cat /root/log || echo none", timeout_s=20)).text.endswith("none\n")


@pytest.mark.parametrize("is_held", [False, True], ids=["closed", "held"])
async def test_cancelled_while_the_shell_reads_the_command(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    """Also where somebody keeps the second line open, as an engine may: it does not hang up then."""
    running = asyncio.ensure_future(terminal.run(f"x={'y' * 20_000}"))
    write = PtyStream.write
    with contextlib.ExitStack() as held:

        def cancelling(stream: PtyStream, data: bytes) -> None:
            write(stream, data)
            if data.startswith(b"+"):
                if is_held:
                    held.callback(os.close, os.dup(stream._fd))  # noqa: SLF001 - as whoever else has it open
                running.cancel()

        monkeypatch.setattr(PtyStream, "write", cancelling)
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await terminal.run("echo ${x-none}", timeout_s=20)).text == "none\n"


async def test_the_sandbox_ends_while_a_command_runs(terminal: Terminal, box: Sandbox) -> None:
    running = asyncio.ensure_future(terminal.run("echo up; sleep 60"))
    await terminal.wait_for("up\n")
    await box.stop()
    with pytest.raises(SandboxBroken):
        await running


@pytest.mark.parametrize("at", ["__ta_g", "+: xx", ".xx"])
async def test_a_command_that_is_cancelled_while_the_shell_is_given_it(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    write = PtyStream.write

    def cancelling(stream: PtyStream, data: bytes) -> None:
        write(stream, data)
        if at.encode() in data:
            running.cancel()

    monkeypatch.setattr(PtyStream, "write", cancelling)
    running = asyncio.ensure_future(terminal.run(": " + "x" * 5000 + "; touch /root/ran"))
    with pytest.raises(asyncio.CancelledError):
        await running
    monkeypatch.undo()
    assert (await terminal.run("ls /root/ran", timeout_s=20)).exit_status == 2


@pytest.mark.parametrize(("word", "told"), [("\0", "NUL"), ("\ud800", "half a character")])
async def test_what_no_shell_can_be_given_is_refused_before_it_is_asked(bash: Terminal, word: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        await bash.run(f"echo {word}")
    assert (await bash.run("echo next")).text == "next\n"


async def test_the_history_holds_the_command(bash: Terminal) -> None:
    await bash.run("echo first")
    bash.send_keys("Up", "Enter")
    await bash.wait_idle()
    assert bash.screen().text.count("first") == 4
    assert "__ta" not in bash.screen().text


async def test_another_user_and_folder(driver: Driver, box: Sandbox) -> None:
    if not has(driver, Feature.USERS):
        pytest.skip("one id only")
    options = TerminalOptions(shell_argv=("/bin/sh",), user="nobody", cwd="/usr", env={"OWN": "value"})
    async with open_terminal(box, options) as terminal:
        assert (await terminal.run("id -u; pwd; echo $OWN")).text == "65534\n/usr\nvalue\n"


async def test_a_root_with_a_shell_and_nothing_else(driver: Driver, rootfs: Path) -> None:
    spec = SandboxSpec(root=Root(kind="folder", path=rootfs))
    async with driver.start(spec) as box, open_terminal(box) as terminal:
        assert (await terminal.run("cd /etc; pwd; (exit 3)")).exit_status == 3


@pytest.mark.needs("busybox")
async def test_the_shell_of_busybox(driver: Driver, box: Sandbox) -> None:
    if driver.name != "namespace":
        pytest.skip("the image has no busybox")
    async with open_terminal(box, TerminalOptions(shell_argv=("busybox", "sh"))) as terminal:
        assert (await terminal.run("echo é \\\\; (exit 3)")).text == "é \\\n"
        assert (await terminal.run("echo $?")).text == "3\n"
        assert (await terminal.run("echo 'open")).exit_status not in (0, 124)
        assert (await terminal.run("sleep 60", timeout_s=0.2)).timed_out
        assert (await terminal.run("exit 5")).shell_ended
