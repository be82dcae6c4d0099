"""Agents of other people: they get what the contract says, and nothing they do stops the harness."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from support.folders import harbor
from termarena.agents import AgentOptions, AgentReport, Brief, resolve_agent
from termarena.agents.workspace import TrialWorkspace
from termarena.core.errors import AgentError, NotFound, UsageError, WorkspaceClosed
from termarena.tasks import load_task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from termarena.agents.contract import Agent
    from termarena.agents.recording import Recording
    from termarena.sandbox import Sandbox

BRIEF = Brief(task_id="t", instruction="Write 1.", timeout_s=60)
HEAD = "import asyncio, pathlib, sys, time\nfrom termarena.agents import AgentReport, Usage\n"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Agent]]:
    """Makes `mine.py` in the current folder and an agent of its class `Mine`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    task = load_task(harbor(tmp_path / "task"))

    def loaded(source: str, word: str = "mine:Mine", *, model: str | None = None) -> Agent:
        (tmp_path / "mine.py").write_text(HEAD + source)
        sys.modules.pop("mine", None)
        return resolve_agent(word, task=task, options=AgentOptions(model=model))()

    yield loaded
    sys.modules.pop("mine", None)


EVERYTHING = """
class Mine:
    version = "7"
    async def solve(self, brief, workspace):
        done = await workspace.exec(["cat"], stdin=brief.instruction.encode())
        await workspace.write("/app/read.txt", done.stdout)
        assert await workspace.read("/app/read.txt") == b"Write 1."
        first, second = await asyncio.gather(workspace.exec("echo 1"), asyncio.create_task(workspace.exec("echo 2")))
        assert (first.stdout, second.stdout) == (b"1\\n", b"2\\n")
        async with workspace.terminal() as terminal:
            assert (await terminal.run("echo in-$((40 + 2))")).text == "in-42\\n"
            terminal.type_text("echo typed >/app/typed.txt\\n")
            await terminal.wait_idle()
            assert "in-42" in terminal.screen().text
            assert terminal.shell == "bash" and not terminal.has_ended
        try:
            await workspace.read("/none")
        except OSError as error:
            assert error.errno == 2
        workspace.message("sent", {"x": 1})
        assert 0 < workspace.seconds_left <= 60
        return AgentReport(message="ok", usage=Usage(input_tokens=5))
"""
PLAIN = """
class Mine:
    def solve(self, brief, workspace):
        time.sleep(0.01)
        assert workspace.exec("echo 1").stdout == b"1\\n"
        workspace.write("/app/read.txt", b"Write 1.")
        with workspace.terminal() as terminal:
            assert terminal.run("echo in-$((40 + 2))").text == "in-42\\n"
            terminal.type_text("echo typed >/app/typed.txt\\n")
            terminal.wait_idle()
        workspace.message("sent", {"x": 1})
        return AgentReport(message="ok", usage=Usage(input_tokens=5))
"""


@pytest.mark.parametrize("source", [EVERYTHING, PLAIN], ids=["async", "plain"])
async def test_it_has_the_whole_workspace(
    load: Callable[..., Agent], box: Sandbox, recording: Recording, source: str
) -> None:
    agent = load(source)
    assert (agent.name, agent.version) == ("mine:Mine", "7" if source is EVERYTHING else "unknown")
    async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60) as workspace:
        report = await agent.solve(BRIEF, workspace)
    assert (report.message, report.usage.input_tokens) == ("ok", 5)
    assert await box.read("/app/read.txt") == b"Write 1."
    assert await box.read("/app/typed.txt") == b"typed\n"
    assert recording.finish().counts["terminal.run"] == 1


@pytest.mark.parametrize("block", ["time.sleep(0.01)", "pass"], ids=["asleep", "busy"])
async def test_an_agent_that_blocks_stops_neither_the_clock_nor_other_trials(
    load: Callable[..., Agent], box: Sandbox, recording: Recording, tmp_path: Path, block: str
) -> None:
    agent = load(
        f"""
class Mine:
    async def solve(self, brief, workspace):
        until, go = time.monotonic() + 60, pathlib.Path("go").absolute()
        while time.monotonic() < until and not go.exists():
            {block}
"""
    )
    solving = asyncio.ensure_future(agent.solve(BRIEF, TrialWorkspace(box, recording, deadline=time.monotonic() + 60)))
    await _until(lambda: _threads() == 1)
    for _ in range(6):  # the harness's loop comes round
        await asyncio.sleep(0.01)
    assert (await box.exec(["echo", "another trial"])).stdout == b"another trial\n"
    solving.cancel()
    with pytest.raises(asyncio.CancelledError):  # not raised by an agent that has ended
        await solving
    assert _threads() == 1, "it does not block any more"
    (tmp_path / "go").touch()
    await _until(lambda: _threads() == 0)


async def test_a_thread_that_never_ends_is_ended(
    load: Callable[..., Agent], box: Sandbox, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("termarena.agents.threads.PATIENCE_S", 0.05)
    agent = load("class Mine:\n    def solve(self, brief, workspace):\n        while True: pass\n")
    solving = asyncio.ensure_future(agent.solve(BRIEF, TrialWorkspace(box, recording, deadline=time.monotonic() + 60)))
    await asyncio.sleep(0)
    await _until(lambda: _threads() == 1)
    solving.cancel()
    await _until(lambda: _threads() == 0)


def _threads() -> int:
    return sum(thread.name == "agent mine:Mine" for thread in threading.enumerate())


async def _until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


async def test_at_the_deadline_its_command_is_gone_and_it_reaches_nothing_more(
    load: Callable[..., Agent], box: Sandbox, recording: Recording, tmp_path: Path
) -> None:
    agent = load(
        """
class Mine:
    async def solve(self, brief, workspace):
        try:
            await workspace.exec("touch /app/started; sleep 333")
        finally:
            try:
                await workspace.exec("touch /app/late")
            except Exception as error:
                pathlib.Path("seen.txt").write_text(type(error).__name__)
"""
    )
    workspace = TrialWorkspace(box, recording, deadline=time.monotonic() + 60)
    solving = asyncio.ensure_future(agent.solve(BRIEF, workspace))
    wait = "until [ -e /app/started ]; do sleep 0.01; done"
    assert (await box.exec(["sh", "-c", wait], timeout_s=60)).exit_status == 0
    await workspace.close("the time is up")
    with pytest.raises(WorkspaceClosed):
        await solving
    assert (tmp_path / "seen.txt").read_text() == "WorkspaceClosed"
    assert await box.processes() == ()
    assert (await box.exec(["test", "-e", "/app/late"])).exit_status == 1


async def test_it_may_return_nothing_and_keeps_its_object_over_steps(
    load: Callable[..., Agent], workspace: TrialWorkspace
) -> None:
    agent = load(
        """
class Mine:
    steps = 0
    async def solve(self, brief, workspace):
        self.steps += 1
        await workspace.exec(["sh", "-c", f"echo {self.steps} >>/app/steps"])
"""
    )
    assert await agent.solve(BRIEF, workspace) == AgentReport()
    await agent.solve(BRIEF, workspace)
    assert await workspace.read("/app/steps") == b"1\n2\n"


@pytest.mark.parametrize(
    ("body", "error", "match"),
    [
        ("raise KeyError('mine')", KeyError, "mine"),
        ("sys.exit(3)", AgentError, "ended by SystemExit: 3"),
        ("raise KeyboardInterrupt", AgentError, "ended by KeyboardInterrupt"),
        ("raise StopIteration", AgentError, "StopIteration"),
        ("return 42", AgentError, "returned builtins.int, not an AgentReport"),
        ("return AgentReport(end='done')", AgentError, "end is 'done', not one of submitted, "),
        ("return AgentReport(message=None)", AgentError, "message is NoneType"),
        ("return AgentReport(model=4)", AgentError, "model is int"),
        ("return AgentReport(usage={'input_tokens': 1})", AgentError, "usage is dict"),
        ("return AgentReport(usage=Usage(output_tokens=-1))", AgentError, "output_tokens is -1"),
        ("return AgentReport(usage=Usage(cost_usd=float('nan')))", AgentError, "cost_usd is nan"),
    ],
)
async def test_how_it_ends_is_told(
    load: Callable[..., Agent], workspace: TrialWorkspace, body: str, error: type[Exception], match: str
) -> None:
    agent = load(f"class Mine:\n    def solve(self, brief, workspace):\n        {body}\n")
    with pytest.raises(error, match=match):
        await agent.solve(BRIEF, workspace)


async def test_the_model_is_given_to_whoever_takes_one(load: Callable[..., Agent], workspace: TrialWorkspace) -> None:
    source = """
class Mine:
    def __init__(self, model="none"):
        self.model = model
    def solve(self, brief, workspace):
        return AgentReport(model=self.model)
"""
    assert (await load(source, model="m-1").solve(BRIEF, workspace)).model == "m-1"
    assert (await load(source).solve(BRIEF, workspace)).model == "none"
    with pytest.raises(UsageError, match="model"):
        load("class Mine:\n    def solve(self, brief, workspace): ...\n", model="m-1")


@pytest.mark.parametrize(
    ("source", "word", "match"),
    [
        ("", "nowhere:Mine", "cannot import nowhere"),
        ("class Mina:\n    def solve(self): ...\n", "mine:Mine", "has no Mine; there is: Mina"),
        ("import nowhere\n", "mine:Mine", "cannot import mine: No module named 'nowhere'"),
        ("class Mine:\n    def solve(self, brief, workspace\n", "mine:Mine", r"mine\.py, line"),
        ("class Mine: pass\n", "mine:Mine", r"has no method solve\(brief, workspace\)"),
        ("class Mine:\n    def solve(self, brief): ...\n", "mine:Mine", r"solve does not take \(brief, workspace\)"),
        ("class Mine:\n    def __init__(self, key): ...\n", "mine:Mine", "cannot be made: missing a required argument"),
        ("Mine = 3\n", "mine:Mine", "is int, not a class"),
    ],
)
def test_a_class_that_is_no_agent_is_told_before_anything_starts(
    load: Callable[..., Agent], source: str, word: str, match: str
) -> None:
    with pytest.raises((NotFound, UsageError), match=match):
        load(source, word)
