"""A session that was recorded, done again in a fresh sandbox: the files come out the same."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from support.folders import harbor
from termarena.agents import Brief, resolve_agent
from termarena.agents.recording import Recording
from termarena.agents.replay import Keys, keys_of
from termarena.agents.workspace import TrialWorkspace
from termarena.core.errors import NotFound, UsageError
from termarena.core.run_folder import AttemptFolder
from termarena.core.scrub import Scrubber
from termarena.core.trajectory import TrajectoryAgent
from termarena.sandbox import SandboxSpec
from termarena.sandbox.terminal import Cast, CastEvent, TerminalOptions
from termarena.tasks import load_task

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.agents import AgentReport
    from termarena.sandbox import Sandbox
    from termarena.sandbox.namespace import NamespaceDriver
    from termarena.tasks import Task

AGENT = TrajectoryAgent(name="tester", version="1")
BRIEF = Brief(task_id="t", instruction="", timeout_s=60)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(harbor(tmp_path / "task"))


async def _files(box: Sandbox) -> bytes:
    return (await box.exec(["sh", "-c", "cd /app && for f in *; do echo == $f; cat $f; done"])).stdout


async def _session(workspace: TrialWorkspace) -> None:
    """What an agent may do: calls, commands of several lines, a program that reads keys."""
    await workspace.exec("cat >stdin.txt; echo $WORD >>stdin.txt", stdin=b"in\n", env={"WORD": "w"})
    await workspace.write("/app/bytes.bin", b"\x00\xff")
    async with workspace.terminal(TerminalOptions(cols=100, rows=30, shell_argv=("/bin/bash",))) as terminal:
        await terminal.run("mkdir -p sub && cd sub && cd ..")
        await terminal.run("cat >make.txt <<'END'\nall:\n\techo one\nEND\n")
        terminal.type_text("cat >typed.txt\n")
        await terminal.wait_quiet(0.2)
        terminal.type_text("first\nsecond\n")
        terminal.send_keys("C-d")
        await terminal.wait_idle()
        terminal.type_text("sleep 0.3; echo slow >slow.txt\n")
        await terminal.wait_idle()
        terminal.type_text("echo las")
        terminal.type_text("t >last.txt")
        terminal.send_keys("Enter")
        await terminal.wait_idle()
        await terminal.run("rmdir sub")


@pytest.fixture
async def recorded(driver: NamespaceDriver, folder: AttemptFolder) -> bytes:
    """The files of the session; its recording is in the folder."""
    recording = Recording(folder, Scrubber())
    async with driver.start(SandboxSpec(workdir="/app")) as box:
        async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60) as workspace:
            await _session(workspace)
        recording.finish().save(folder, AGENT)
        return await _files(box)


async def _replay(driver: NamespaceDriver, task: Task, file: Path, elsewhere: Path) -> tuple[AgentReport, bytes]:
    elsewhere.mkdir()  # noqa: ASYNC240 - one folder
    agent = resolve_agent(f"replay:{file}", task=task)()
    recording = Recording(AttemptFolder(elsewhere), Scrubber())
    async with driver.start(SandboxSpec(workdir="/app")) as box:
        async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60) as workspace:
            report = await agent.solve(BRIEF, workspace)
        return report, await _files(box)


async def test_a_trajectory_gives_the_same_files(
    driver: NamespaceDriver, task: Task, folder: AttemptFolder, recorded: bytes, tmp_path: Path
) -> None:
    assert b"== last.txt\nlast\n" in recorded
    report, files = await _replay(driver, task, folder.trajectory, tmp_path / "again")
    assert files == recorded
    assert report.message == "12 calls were made"


async def test_a_recording_gives_the_same_files(
    driver: NamespaceDriver, task: Task, folder: AttemptFolder, recorded: bytes, tmp_path: Path
) -> None:
    report, files = await _replay(driver, task, folder.cast(), tmp_path / "again")
    # What was not done in the terminal is not in its recording.
    typed = recorded[recorded.index(b"== last.txt") :].partition(b"== stdin.txt")
    assert files == typed[0] + b"== typed.txt\nfirst\nsecond\n"
    assert report.message == "8 of 8 inputs were typed"


def test_thinking_is_short_and_working_is_not() -> None:
    events = [
        (1, "i", "l"),
        (1.1, "o", "l"),
        (4, "i", "s\r"),
        (4.2, "o", "x"),
        (9, "o", "$"),
        (99, "i", "q"),
        (100, "m", ""),
    ]
    cast = Cast(2, 80, 24, {}, tuple(CastEvent(*event) for event in events), is_cut=False)
    assert keys_of(cast) == (Keys("ls\r", 5, 90), Keys("q", 0, 0))


def test_a_recording_without_input_says_so(tmp_path: Path, task: Task) -> None:
    path = tmp_path / "shown.cast"
    path.write_text('{"version": 2, "width": 80, "height": 24}\n[0.1, "o", "$ ls\\r\\n"]\n')
    with pytest.raises(UsageError, match="it has no input events") as raised:
        resolve_agent(f"replay:{path}", task=task)
    assert raised.value.hint is not None
    assert "trajectory.json" in raised.value.hint


@pytest.mark.parametrize(("name", "content"), [("x.cast", "[]"), ("x.cast", ""), ("x.json", "{}"), ("x.txt", "hello")])
def test_another_file_is_refused(tmp_path: Path, task: Task, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match="is no"):
        resolve_agent(f"replay:{tmp_path / name}", task=task)


def test_no_file_is_refused(tmp_path: Path, task: Task) -> None:
    with pytest.raises(NotFound, match="no recording is at"):
        resolve_agent(f"replay:{tmp_path}/none.cast", task=task)


# Trajectories of other harnesses.


def _trajectory(path: Path, *calls: tuple[str, dict[str, Any]], extra: dict[str, Any] | None = None) -> Path:
    made = [
        {
            "tool_call_id": str(number),
            "function_name": name,
            "arguments": arguments,
            **({"extra": extra} if extra else {}),
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    steps = [{"step_id": 1, "source": "agent", "message": "", "tool_calls": made}]
    document = {"schema_version": "ATIF-v1.6", "agent": {"name": "x", "version": "1"}, "steps": steps}
    path.write_text(json.dumps(document))
    return path


async def test_the_tools_of_other_agents(driver: NamespaceDriver, task: Task, tmp_path: Path) -> None:
    path = _trajectory(
        tmp_path / "theirs.json",
        ("Bash", {"command": "mkdir sub; cd sub"}),
        ("execute_bash", {"command": "echo shell >../kept.txt; cd .."}),
        ("shell", {"command": ["sh", "-c", "echo list >list.txt"]}),
        ("bash_command", {"keystrokes": "cat >keys.txt\n", "duration": 0.1}),
        ("bash_command", {"keystrokes": "typed\n"}),
        ("bash_command", {"keystrokes": "C-d", "duration": 0.1}),
        ("write_file", {"file_path": "/app/file.txt", "content": "content\n"}),
        ("Read", {"file_path": "/app/file.txt"}),
        ("mark_task_complete", {}),
    )
    _, files = await _replay(driver, task, path, tmp_path / "again")
    for name, content in {"kept": "shell", "list": "list", "keys": "typed", "file": "content"}.items():
        assert f"== {name}.txt\n{content}\n".encode() in files


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (("browse", {"url": "x"}), "step 1, browse: what it did is not known here"),
        (("put_tree", {"target": "/x"}), "what it did is not known here"),
        (("exec", {"command": "x"}), "its arguments are of another tool"),
        (("bash", {"command": "echo [secret MY_KEY]"}), "it held a secret"),
        (("Read", {}), "no calls that could be replayed"),
    ],
)
def test_what_cannot_be_done_again_is_told_before_anything_starts(
    tmp_path: Path, task: Task, call: tuple[str, dict[str, Any]], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        resolve_agent(f"replay:{_trajectory(tmp_path / 't.json', call)}", task=task)


def test_arguments_that_were_cut_cannot_be_done_again(tmp_path: Path, task: Task) -> None:
    path = _trajectory(tmp_path / "t.json", ("exec", {"script": "x"}), extra={"cut_arguments": {"script": 9}})
    with pytest.raises(UsageError, match="too long to be kept whole"):
        resolve_agent(f"replay:{path}", task=task)
