"""The words of `--agent`, and the small agents behind some of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.folders import harbor
from termarena.agents import Agent, AgentOptions, Brief, known_agents, resolve_agent
from termarena.agents.baseline import baseline_of, is_baseline
from termarena.core.errors import NotFound, UsageError
from termarena.sandbox.terminal import read_cast
from termarena.sandbox.terminal.stream import PtyStream
from termarena.tasks import load_task

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.agents.recording import Recording
    from termarena.agents.workspace import TrialWorkspace
    from termarena.core.run_folder import AttemptFolder
    from termarena.sandbox.contract import PtyProcess
    from termarena.sandbox.terminal import CastWriter
    from termarena.tasks import Task

BRIEF = Brief(task_id="t", instruction="Write 1.", timeout_s=60)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(harbor(tmp_path / "task"))


def test_every_word_of_the_list() -> None:
    assert [known.word for known in known_agents()] == [
        "oracle", "nop", "tools", "tools-text", "terminus", "cli:NAME", "script:PATH", "replay:FILE", "a2a:URL",
        "human", "always-right", "always-wrong", "random:SEED", "module:Class",
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["orakel", "", "oracle2", "nop/x", ":", "a b:c"])
def test_an_unknown_word_is_told_with_the_known_ones(task: Task, word: str) -> None:
    with pytest.raises(
        NotFound, match=r"no agent is called .*; there is: oracle, nop, tools, tools-text, terminus, cli:NAME, script"
    ):
        resolve_agent(word, task=task)


@pytest.mark.parametrize(
    ("word", "hint"), [("nop:x", "nop"), ("script", "script:PATH"), ("replay:", "replay:FILE"), ("nop:", "nop")]
)
def test_a_word_in_the_wrong_form(task: Task, word: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        resolve_agent(word, task=task)
    assert raised.value.hint == f"write --agent {hint}"


def test_nothing_is_imported_before_its_word_is_used() -> None:
    code = "import sys, termarena.agents as a; a.known_agents(); print(*[m for m in sys.modules if 'termarena' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter
    assert "termarena.agents.registry" in done.stdout
    for heavy in ("oracle", "replay", "foreign", "workspace", "recording"):
        assert f"termarena.agents.{heavy}" not in done.stdout.split()


async def test_nop_does_nothing(task: Task, workspace: TrialWorkspace, recording: Recording) -> None:
    agent = resolve_agent("nop", task=task)()
    assert isinstance(agent, Agent)
    assert (await agent.solve(BRIEF, workspace)).end == "submitted"
    assert recording.finish().calls == ()


# Scripts.


async def test_a_script_of_the_host_is_one_command(
    task: Task, workspace: TrialWorkspace, recording: Recording, tmp_path: Path
) -> None:
    script = tmp_path / "my agent.py"
    script.write_text(
        "#!/usr/bin/env python3\nimport os\nopen('/app/one', 'w').write(os.getcwd())\nraise SystemExit(5)\n"
    )
    agent = resolve_agent(f"script:{script}", task=task)()
    assert (await agent.solve(BRIEF, workspace)).message == "the script ended with status 5"
    assert await workspace.read("/app/one") == b"/app"
    assert (await workspace.exec("ls /tmp")).stdout == b""
    kept = recording.finish()
    assert [row.name for row in kept.calls] == ["put_tree", "exec", "clean_up", "read", "exec"]
    assert kept.commands == 2


def test_a_script_that_is_not_there(task: Task, tmp_path: Path) -> None:
    for path in (tmp_path / "none.sh", tmp_path):
        with pytest.raises(NotFound, match="no script is at"):
            resolve_agent(f"script:{path}", task=task)


# A person.


class _Fingers:
    """Types a line, then leaves."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.seen: list[str] = []

    def size(self) -> tuple[int, int]:
        return 90, 20

    async def attach(self, brief: Brief, pty: PtyProcess, cast: CastWriter) -> int:
        self.seen.append(brief.instruction)
        stream = PtyStream(pty, cast.output, on_end=lambda: None)
        cast.input(self.text.encode())
        stream.write(self.text.encode())
        try:
            return (await pty.wait()).exit_status
        finally:
            stream.close()


async def test_a_person_is_recorded_like_any_other(
    task: Task, workspace: TrialWorkspace, recording: Recording, folder: AttemptFolder
) -> None:
    fingers = _Fingers("echo by-hand >one.txt; exit 4\r")
    agent = resolve_agent("human", task=task, options=AgentOptions(seat=fingers))()
    assert (await agent.solve(BRIEF, workspace)).message == "the shell ended with status 4"
    assert fingers.seen == ["Write 1."]
    assert await workspace.read("/app/one.txt") == b"by-hand\n"
    (row, _) = recording.finish().calls
    assert (row.name, row.exit_status) == ("person", 4)
    cast = read_cast(folder.cast())
    assert (cast.cols, cast.rows) == (90, 20)
    assert "by-hand" in cast.text("i")


async def test_a_persons_time_ends_too(task: Task, workspace: TrialWorkspace) -> None:
    agent = resolve_agent("human", task=task, options=AgentOptions(seat=_Fingers("sleep 333\r")))()
    solving = asyncio.ensure_future(agent.solve(BRIEF, workspace))
    sleeps = "cat /proc/[0-9]*/comm | grep -q sleep"
    await workspace.exec(f"until {sleeps}; do :; done")
    solving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await solving
    assert (await workspace.exec(f"while {sleeps}; do :; done", timeout_s=20)).exit_status == 0


def test_nobody_is_there(task: Task) -> None:
    with pytest.raises(UsageError, match="needs a terminal"):
        resolve_agent("human", task=task)


# Baselines.


def test_baselines_are_known_and_make_no_agent(task: Task) -> None:
    for word in ("always-right", "always-wrong", "random:7"):
        assert is_baseline(word)
        with pytest.raises(UsageError, match="baseline"):
            resolve_agent(word, task=task)
    assert not is_baseline("oracle")
    assert not is_baseline("randomly:x")
    for word in ("random", "random:", "oracle"):
        with pytest.raises(UsageError, match="no baseline"):
            baseline_of(word)


def test_always_is_always() -> None:
    trials = [(f"task-{number}", attempt) for number in range(20) for attempt in (1, 2)]
    assert all(baseline_of("always-right").passes(*trial) for trial in trials)
    assert not any(baseline_of("always-wrong").passes(*trial) for trial in trials)


def test_random_is_a_coin_that_falls_the_same_every_time() -> None:
    trials = [(f"task-{number}", attempt) for number in range(500) for attempt in (1, 2)]
    falls = [baseline_of("random:7").passes(*trial) for trial in trials]
    assert falls == [baseline_of("random:7").passes(*trial) for trial in trials]
    assert falls != [baseline_of("random:8").passes(*trial) for trial in trials]
    assert 430 < sum(falls) < 570
    assert falls[:4] == [True, False, True, True]
