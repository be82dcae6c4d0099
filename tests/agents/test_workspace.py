"""An agent's reach: what it can do, what is kept of it, and where it ends."""

from __future__ import annotations

import asyncio
import errno
import json
import time
from typing import TYPE_CHECKING

import pytest

from agents.conftest import SECRETS
from sandbox.support import READY, cut_off
from termarena.agents.contract import AgentTerminal, Usage, Workspace
from termarena.agents.workspace import TrialWorkspace
from termarena.core.errors import SandboxBroken, SandboxFileError, WorkspaceClosed
from termarena.core.records import read_record
from termarena.core.trajectory import Step, TrajectoryAgent, read_trajectory
from termarena.sandbox import Feature
from termarena.sandbox.terminal import TerminalOptions, read_cast

if TYPE_CHECKING:
    from termarena.agents.recording import Recording
    from termarena.core.run_folder import AttemptFolder
    from termarena.sandbox import ExecResult, Sandbox
    from termarena.sandbox.namespace import NamespaceDriver

AGENT = TrajectoryAgent(name="tester", version="1")
SECRET = SECRETS["EXAMPLE_API_KEY"]


async def _started(box: Sandbox, path: str) -> None:
    """Until a command has made its mark."""
    wait = f"until [ -e {path} ]; do sleep 0.01; done"
    assert (await box.exec(["sh", "-c", wait], timeout_s=20)).exit_status == 0


async def _names(box: Sandbox) -> list[str]:
    return [process.argv[0] for process in await box.processes()]


async def test_it_is_what_the_contract_says(workspace: TrialWorkspace) -> None:
    assert isinstance(workspace, Workspace)
    async with workspace.terminal() as terminal:
        assert isinstance(terminal, AgentTerminal)


async def test_a_string_is_a_script_for_bash_and_a_list_a_program(workspace: TrialWorkspace) -> None:
    script = "words=(a 'b c' \"$HOME\"); printf '%s|' \"${words[@]}\"; cat; exit 3"
    done = await workspace.exec(script, stdin=b"in", env={"HOME": "/x"})
    assert (done.exit_status, done.stdout) == (3, b"a|b c|/x|in")
    assert (await workspace.exec(["printf", "%s", "$HOME 'x'"])).stdout == b"$HOME 'x'"


async def test_a_script_longer_than_an_argument_can_be(workspace: TrialWorkspace) -> None:
    text = "x" * 300_000
    done = await workspace.exec(f"printf %s '{text}' | wc -c; ls -A /tmp | grep -c script")
    assert done.stdout.split() == [b"300000", b"1"]
    assert (await workspace.exec("ls -A /tmp")).stdout == b""


async def test_without_bash_a_script_goes_to_sh(workspace: TrialWorkspace) -> None:
    only_sh = "mkdir /only && ln -s /bin/sh /only/sh && ln -s /usr/bin/env /only/env"
    assert (await workspace.exec(only_sh)).exit_status == 0
    done = await workspace.exec("echo $0", env={"PATH": "/only"})
    assert done.stdout == b"sh\n"


async def test_files_go_in_and_out(workspace: TrialWorkspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    await workspace.write("/app/deep/one.bin", bytes(range(256)))
    assert await workspace.read("/app/deep/one.bin") == bytes(range(256))
    with pytest.raises(SandboxFileError):
        await workspace.read("/app/nothing")
    source = tmp_path_factory.mktemp("tree")
    (source / "a.txt").write_text("a")
    assert (await workspace.put_tree(source, "/app/tree")).size_bytes == 1
    assert await workspace.read("/app/tree/a.txt") == b"a"


async def test_everything_is_a_step_and_a_row(
    workspace: TrialWorkspace, recording: Recording, folder: AttemptFolder
) -> None:
    recording.instruct("Write one.")
    await workspace.exec("echo out; echo err >&2; exit 4")
    workspace.note(Step(message="I shall write a file.", model_name="m", step_id=77))
    await workspace.write("/app/one", b"1\n")
    async with workspace.terminal(TerminalOptions(shell_argv=("/bin/bash",))) as terminal:
        await terminal.run("cat /app/one")
        terminal.type_text("exit\n")
    with pytest.raises(SandboxFileError):
        await workspace.read("/nowhere")
    record = recording.finish()
    record.save(folder, AGENT, usage=Usage(input_tokens=10, output_tokens=5, cost_usd=0.5))

    trajectory = read_trajectory(folder.trajectory)
    assert [step.step_id for step in trajectory.steps] == list(range(1, 9))
    assert (trajectory.steps[0].source, trajectory.steps[0].message) == ("user", "Write one.")
    assert trajectory.steps[2].message == "I shall write a file."
    calls = [call for step in trajectory.steps for call in step.tool_calls or ()]
    names = ["exec", "write", "terminal", "terminal.run", "terminal.type_text", "read"]
    assert [call.function_name for call in calls] == names
    first = trajectory.steps[1].observation
    assert first is not None
    assert first.results[0].content == "out\n[stderr]\nerr\n"
    assert first.results[0].extra == {"output_bytes": 8, "stderr_bytes": 4, "exit_status": 4}
    assert trajectory.final_metrics is not None
    assert (trajectory.final_metrics.total_prompt_tokens, trajectory.final_metrics.total_cost_usd) == (10, 0.5)

    kept = read_record(folder.tool_calls, "tool_calls")
    rows = kept["calls"]
    assert isinstance(rows, list)
    assert [row["name"] for row in rows if isinstance(row, dict)] == names
    assert isinstance(rows[0], dict)
    assert isinstance(rows[-1], dict)
    assert (rows[0]["exit_status"], rows[0]["output_bytes"], rows[0]["step_id"]) == (4, 8, 2)
    assert "no such file" in str(rows[-1]["error"]).lower()
    assert record.commands == 3


async def test_a_long_output_is_whole_for_the_agent_and_capped_in_the_record(
    workspace: TrialWorkspace, recording: Recording
) -> None:
    done = await workspace.exec("seq -f 'line %06g' 20000; yes x | head -c 1000000")
    lines = done.stdout.splitlines()
    assert (lines[0], lines[19999]) == (b"line 000001", b"line 020000")
    assert len(done.stdout) == 20000 * 12 + 1_000_000
    (step,) = recording.finish().steps
    assert step.observation is not None
    (result,) = step.observation.results
    assert isinstance(result.content, str)
    assert len(result.content) < 300_000
    assert "bytes are not shown" in result.content
    assert result.extra is not None
    assert result.extra["output_bytes"] == len(done.stdout)


async def test_twenty_thousand_lines_stay_in_the_scrollback(workspace: TrialWorkspace) -> None:
    async with workspace.terminal() as terminal:
        result = await terminal.run("seq -f 'line %06g' 20000")
        assert result.text.splitlines() == [f"line {number:06}" for number in range(1, 20001)]
        shown = [*terminal.scrollback(30_000), *terminal.screen().lines]
        assert [line for line in shown if line.startswith("line ")] == result.text.splitlines()


async def test_the_terminal_is_recorded_and_can_be_played(
    workspace: TrialWorkspace, recording: Recording, folder: AttemptFolder
) -> None:
    for word in ("first", "second"):
        async with workspace.terminal() as terminal:
            await terminal.run(f"echo the-{word}-$((1 + 1))")
            terminal.type_text("ls /\n")
            await terminal.wait_idle()
    recording.finish()
    for path, word in ((folder.cast(1), "first"), (folder.cast(2), "second")):
        cast = read_cast(path)
        assert (cast.cols, cast.rows, cast.is_cut) == (80, 24, False)
        assert f"the-{word}-2" in cast.text("o")
        assert "ls /" in cast.text("i")


# The end of its reach.


async def test_the_deadline_ends_a_command_in_flight_and_keeps_what_was_written(
    box: Sandbox, recording: Recording
) -> None:
    workspace = TrialWorkspace(box, recording, deadline=time.monotonic() + 60)
    work = "echo before >/app/log; touch /app/started; sleep 333; echo after >>/app/log"
    asked = asyncio.ensure_future(workspace.exec(work))
    await _started(box, "/app/started")
    await workspace.close("the time is up")
    with pytest.raises(WorkspaceClosed, match="the time is up"):
        await asked
    assert await _names(box) == []
    assert await box.read("/app/log") == b"before\n"
    (row,) = recording.finish().calls
    assert row.error == "ended: the time is up"


async def test_the_deadline_ends_a_command_in_a_terminal(box: Sandbox, recording: Recording) -> None:
    workspace = TrialWorkspace(box, recording, deadline=time.monotonic() + 60)
    async with workspace.terminal() as terminal:
        asked = asyncio.ensure_future(terminal.run("touch /app/started; sleep 333; echo after >/app/log"))
        await _started(box, "/app/started")
        await workspace.close("the time is up")
        with pytest.raises(WorkspaceClosed):
            await asked
        with pytest.raises(WorkspaceClosed):
            terminal.screen()
        with pytest.raises(WorkspaceClosed):
            terminal.type_text("echo again\n")
    assert await _names(box) == []
    assert (await box.exec(["test", "-e", "/app/log"])).exit_status == 1


async def test_a_cancelled_agent_is_cancelled_and_its_command_gone(box: Sandbox, recording: Recording) -> None:
    workspace = TrialWorkspace(box, recording, deadline=time.monotonic() + 60)
    asked = asyncio.ensure_future(workspace.exec("touch /app/started; sleep 333"))
    await _started(box, "/app/started")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert await _names(box) == []


async def test_no_command_outlasts_the_deadline(box: Sandbox, recording: Recording) -> None:
    async def until(seconds: float) -> tuple[TrialWorkspace, ExecResult]:
        workspace = TrialWorkspace(box, recording, deadline=time.monotonic() + seconds)
        return workspace, await workspace.exec(f"echo begun; : >{READY}; sleep 333", timeout_s=600)

    workspace, done = await cut_off(box, until, timeout_s=0.3)
    assert (done.timed_out, done.exit_status, done.stdout) == (True, 124, b"begun\n")
    with pytest.raises(WorkspaceClosed, match="the time is up"):
        await workspace.exec("true")


async def test_after_close_nothing_can_be_reached(box: Sandbox, workspace: TrialWorkspace) -> None:
    await workspace.close()
    await workspace.close()
    for asked in (workspace.exec("touch /app/late"), workspace.read("/etc/passwd"), workspace.write("/app/late", b"")):
        with pytest.raises(WorkspaceClosed):
            await asked
    with pytest.raises(WorkspaceClosed):
        async with workspace.terminal():
            pass
    with pytest.raises(WorkspaceClosed):
        workspace.note(Step(message="late"))
    with pytest.raises(WorkspaceClosed):
        workspace.message("sent", {})
    assert (await box.exec(["test", "-e", "/app/late"])).exit_status == 1


async def test_a_sandbox_that_dies_is_no_obstacle_to_closing(box: Sandbox, recording: Recording) -> None:
    workspace = TrialWorkspace(box, recording, deadline=time.monotonic() + 60)
    async with workspace, workspace.terminal() as terminal:
        await terminal.run("sleep 333 &")
        asked = asyncio.ensure_future(workspace.exec("touch /app/started; sleep 333"))
        await _started(box, "/app/started")
        await box.stop()
        with pytest.raises(SandboxBroken):
            await asked
        with pytest.raises(SandboxBroken):
            await terminal.run("true")
    errors = [row.error for row in recording.finish().calls if row.error]
    assert [error.partition(":")[0] for error in errors] == ["SandboxBroken", "SandboxBroken"]


async def test_the_agent_is_who_the_task_says(driver: NamespaceDriver, box: Sandbox, recording: Recording) -> None:
    if Feature.USERS not in driver.capabilities().features:
        pytest.skip(driver.capabilities().missing[Feature.USERS])
    async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60, user="1234:1234") as workspace:
        assert (await workspace.exec("id -u")).stdout == b"1234\n"
        assert (await workspace.exec("id -u", user="root")).stdout == b"0\n"
        await box.exec(["chmod", "777", "/app"])
        await workspace.write("/app/mine", b"x")
        assert (await workspace.exec("stat -c %u /app/mine")).stdout == b"1234\n"
        async with workspace.terminal() as terminal:
            assert (await terminal.run("id -u")).text == "1234\n"


async def test_files_are_read_and_written_as_the_agents_own_user(
    driver: NamespaceDriver, box: Sandbox, recording: Recording
) -> None:
    if Feature.USERS not in driver.capabilities().features:
        pytest.skip(driver.capabilities().missing[Feature.USERS])
    await box.write("/app/secret", b"for root\n", mode=0o600)
    await box.exec(["sh", "-c", "chmod 755 /app; mkdir /app/open /app/-d; chmod 777 /app/open; mkfifo /app/open/pipe"])
    async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60, user="1234:1234") as workspace:
        refused = [
            (workspace.read("/app/secret"), errno.EACCES),
            (workspace.write("/app/secret", b"mine"), errno.EACCES),
            (workspace.write("/app/new", b"x"), errno.EACCES),
            (workspace.write("/etc/deep/new", b"x"), errno.EACCES),
            (workspace.read("/app/nothing"), errno.ENOENT),
            (workspace.read("/app/-d"), errno.EISDIR),
            (workspace.write("/app/-d", b"x"), errno.EISDIR),
            (workspace.read("/app/open/pipe"), errno.EINVAL),
        ]
        for asked, number in refused:
            with pytest.raises(SandboxFileError) as caught:
                await asked
            assert caught.value.errno == number
        await workspace.exec("ln -s /app/secret /app/open/link")
        with pytest.raises(SandboxFileError):
            await workspace.read("/app/open/link")
        await workspace.write("/app/open/deep/-odd\n name", bytes(range(256)))
        assert await workspace.read("/app/open/deep/-odd\n name") == bytes(range(256))
        await workspace.write("/app/open/deep/-odd\n name", b"")
        assert await workspace.read("/app/open/deep/-odd\n name") == b""
    assert await box.read("/app/secret") == b"for root\n"


# What outlives the agent.


async def test_what_runs_in_a_terminal_outlives_the_agents_use_of_it(box: Sandbox, recording: Recording) -> None:
    async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60) as workspace:
        async with workspace.terminal() as terminal:
            await terminal.run("sleep 333 &")
        async with workspace.terminal() as idle:
            await idle.run("true")
        with pytest.raises(WorkspaceClosed, match="was left"):
            terminal.type_text("fg\n")
        await workspace.close()
        assert "sleep" in await _names(box)
        assert sum(name == "bash" for name in await _names(box)) == 1
    gone = "until [ $(cat /proc/[0-9]*/comm | grep -c -e sleep -e bash) = 0 ]; do :; done"
    assert (await box.exec(["sh", "-c", gone], timeout_s=20)).exit_status == 0


async def test_a_daemon_keeps_the_terminal_that_it_writes_to(box: Sandbox, recording: Recording) -> None:
    daemon = "until [ -e go ]; do sleep 0.02; done; echo still here && touch said; sleep 333"
    async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60) as workspace:
        async with workspace.terminal() as terminal:
            await terminal.run(f"(sh -c '{daemon}' &)")
        await workspace.close()
        await box.write("/app/go", b"")
        await _started(box, "/app/said")


# Secrets.


async def test_secrets_are_in_no_file(workspace: TrialWorkspace, recording: Recording, folder: AttemptFolder) -> None:
    recording.instruct(f"Use {SECRET}.")
    await workspace.exec(f"echo '{SECRET}'; echo $KEY", env={"KEY": SECRET}, stdin=SECRET.encode())
    await workspace.write("/app/key", SECRET.encode())
    await workspace.read("/app/key")
    workspace.note(Step(message=f"the key is {SECRET}", reasoning_content=SECRET))
    workspace.message("sent", {"headers": {"authorization": SECRET}})
    with pytest.raises(SandboxFileError):
        await workspace.read(f"/app/{SECRET}")
    async with workspace.terminal() as terminal:
        await terminal.run(f"echo {SECRET}")
        line = f"printf {SECRET}"
        for end in range(1, len(line) + 1):
            terminal.type_text(line[end - 1])
            await terminal.wait_for(line[:end].rstrip())
        terminal.send_keys("Enter")
        await terminal.wait_idle()
    record = recording.finish()
    record.save(folder, AGENT)
    written = {path.name: path.read_text() for path in folder.path.iterdir()}
    assert sorted(written) == ["messages.jsonl", "terminal.cast", "tool_calls.json", "trajectory.json"]
    for name, text in written.items():
        assert SECRET not in text, name
        assert "[secret EXAMPLE_API_KEY]" in text, name
    cast = read_cast(folder.cast())
    assert SECRET not in cast.text("o")
    assert SECRET not in cast.text("i")


async def test_messages_are_kept_as_they_come(workspace: TrialWorkspace, folder: AttemptFolder) -> None:
    workspace.message("sent", {"a": [1, None]})
    workspace.message("received", "text")
    rows = [json.loads(line) for line in folder.messages.read_text().splitlines()]
    assert [(row["direction"], row["content"]) for row in rows] == [("sent", {"a": [1, None]}), ("received", "text")]
    with pytest.raises(TypeError):
        workspace.message("sent", object())
