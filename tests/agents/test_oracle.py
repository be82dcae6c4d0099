"""The reference solution, carried out the way each format does it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from support.folders import HARBOR, TERMINAL_BENCH_1, write_folder
from termarena.agents import AgentOptions, Brief, oracle, resolve_agent
from termarena.agents.keystrokes import key_of
from termarena.agents.workspace import TrialWorkspace
from termarena.core.errors import AgentError, NoSolution, UsageError
from termarena.sandbox.bare import bare_spec, prepare_bare
from termarena.sandbox.terminal import read_cast
from termarena.tasks import load_dataset, load_task

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.agents.contract import AgentReport
    from termarena.agents.recording import Recording
    from termarena.core.run_folder import AttemptFolder
    from termarena.sandbox import Sandbox
    from termarena.sandbox.namespace import NamespaceDriver
    from termarena.tasks import Task

STEPS_TOML = HARBOR["task.toml"] + '\n[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n'
STEPS = {
    **{name: text for name, text in HARBOR.items() if not name.startswith(("solution/", "instruction"))},
    "task.toml": STEPS_TOML,
    "steps/first/instruction.md": "Write 1.\n",
    "steps/first/solution/solve.sh": "#!/bin/sh\necho 1 >>/app/log\n",
    "steps/second/instruction.md": "Write 2.\n",
    "steps/second/solution/solve.sh": "#!/bin/sh\necho 2 >>/app/log\n",
}


async def _solve(task: Task, workspace: TrialWorkspace, *, step: str | None = None) -> AgentReport:
    agent = resolve_agent("oracle", task=task)()
    return await agent.solve(Brief(task_id=task.id, instruction=task.instruction, timeout_s=60, step=step), workspace)


def _keystrokes(folder: Path, entries: str) -> Task:
    files = {name: text for name, text in TERMINAL_BENCH_1.items() if name != "solution.sh"}
    return load_task(write_folder(folder, {**files, "solution.yaml": entries}))


async def _exists(box: Sandbox, path: str) -> bool:
    return (await box.exec(["test", "-e", path])).exit_status == 0


@pytest.mark.parametrize("name", ["hello-world", "ledger-bug"])
async def test_the_oracle_solves_a_sample(driver: NamespaceDriver, recording: Recording, name: str) -> None:
    task = next(task for task in load_dataset("samples").tasks if task.id.endswith(name))
    assert task.tests is not None
    async with driver.start(bare_spec(task.environment)) as box:
        await prepare_bare(box, task.environment)
        async with TrialWorkspace(box, recording, deadline=time.monotonic() + 60) as workspace:
            report = await _solve(task, workspace)
        assert (report.end, report.message) == ("submitted", "the solution ended with status 0")
        assert not await _exists(box, "/solution")
        task.tests.files.write_to(recording.folder.path)
        await box.put_tree(recording.folder.path, "/tests")
        await box.exec(["sh", "/tests/test.sh"])
        assert (await box.read("/logs/verifier/reward.txt")).strip() == b"1"


async def test_a_solution_runs_by_its_first_line_with_its_variables(
    workspace: TrialWorkspace, box: Sandbox, tmp_path: Path
) -> None:
    solve = '#!/bin/bash\necho "${BASH_VERSION:+bash} $0 $PWD $WORD $(cat $(dirname $0)/more.txt)" >/app/told\nexit 7\n'
    toml = HARBOR["task.toml"] + '\n[solution.env]\nWORD = "${GIVEN:-default}"\n'
    files = {**HARBOR, "task.toml": toml, "solution/solve.sh": solve, "solution/more.txt": "more"}
    report = await _solve(load_task(write_folder(tmp_path / "t", files)), workspace)
    assert report.message == "the solution ended with status 7"
    assert await box.read("/app/told") == b"bash /solution/solve.sh /app default more\n"


async def test_a_script_without_a_first_line_runs_in_bash(
    workspace: TrialWorkspace, box: Sandbox, tmp_path: Path
) -> None:
    files = {**HARBOR, "solution/solve.sh": "list=(1 2)\necho ${list[1]} >/app/two\n"}
    await _solve(load_task(write_folder(tmp_path / "t", files)), workspace)
    assert await box.read("/app/two") == b"2\n"


async def test_a_variable_that_was_not_given_is_not_taken_from_the_harness(
    workspace: TrialWorkspace, box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANTED", "of the harness")
    toml = HARBOR["task.toml"] + '\n[solution.env]\nWORD = "${WANTED}"\n'
    task = load_task(write_folder(tmp_path / "t", {**HARBOR, "task.toml": toml}))
    with pytest.raises(UsageError, match="WANTED"):
        await _solve(task, workspace)
    agent = resolve_agent("oracle", task=task, options=AgentOptions(variables={"WANTED": "given"}))()
    await agent.solve(Brief(task_id="t", instruction="", timeout_s=60), workspace)
    assert await box.read("/app/one.txt") == b"1\n"


async def test_a_solution_that_left_a_process_keeps_its_files(
    workspace: TrialWorkspace, box: Sandbox, tmp_path: Path
) -> None:
    files = {
        **HARBOR,
        "solution/solve.sh": "#!/bin/sh\n$(dirname $0)/serve.sh >/dev/null 2>&1 &\n",
        "solution/serve.sh": "#!/bin/sh\nsleep 333\n",
    }
    await _solve(load_task(write_folder(tmp_path / "t", files)), workspace)
    assert await _exists(box, "/solution/serve.sh")


async def test_a_terminal_bench_1_script_runs_in_a_terminal(
    workspace: TrialWorkspace, box: Sandbox, tmp_path: Path
) -> None:
    script = "#!/bin/bash\n[ -t 1 ] && stty size >/app/size\necho $0 >/app/name\nsleep 333 &\n"
    task = load_task(write_folder(tmp_path / "t", {**TERMINAL_BENCH_1, "solution.sh": script}))
    assert (await _solve(task, workspace)).message == "the solution ended with status 0"
    assert await box.read("/app/size") == b"40 160\n"
    assert await box.read("/app/name") == b"/oracle/solution.sh\n"
    await workspace.close()
    assert "sleep" in [process.argv[0] for process in await box.processes()]


@pytest.mark.parametrize("starts_something", [True, False])
async def test_what_a_terminal_bench_1_task_starts_has_the_time_that_tb_gives_it(
    workspace: TrialWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, starts_something: bool
) -> None:
    monkeypatch.setattr(oracle, "SETTLE_S", 0.5 if starts_something else 3600.0)
    task = load_task(write_folder(tmp_path / "t", TERMINAL_BENCH_1))
    environment = task.environment.model_copy(update={"compose": "docker-compose.yaml" if starts_something else None})
    before = workspace.seconds_left
    await _solve(task.model_copy(update={"environment": environment}), workspace)
    assert not starts_something or before - workspace.seconds_left >= 0.5


# Keystrokes.

TYPED = r"""
- command: cat >/app/one.txt
- command: typed
- command: C-d
  append_enter: false
- command: sleep 0.2; echo slow >>/app/one.txt
  block: true
  max_timeout_sec: 20
- command: python3
- command: open('/app/py', 'w').write('x\n')
  min_timeout_sec: 0.05
- command: C-d
  append_enter: false
- command: "echo last >>/app/one.txt\n"
  append_enter: false
"""


async def test_keystrokes_are_typed_as_terminal_bench_1_types_them(
    workspace: TrialWorkspace, box: Sandbox, recording: Recording, folder: AttemptFolder, tmp_path: Path
) -> None:
    await _solve(_keystrokes(tmp_path / "t", TYPED), workspace)
    assert await box.read("/app/one.txt") == b"typed\nslow\nlast\n"
    assert await box.read("/app/py") == b"x\n"
    recording.finish()
    cast = read_cast(folder.cast())
    assert (cast.cols, cast.rows) == (160, 40)
    assert "cat >/app/one.txt" in cast.text("i")


async def test_keystrokes_wait_for_a_shell_within_the_shell(
    workspace: TrialWorkspace, box: Sandbox, tmp_path: Path
) -> None:
    entries = "- command: sh\n- command: sleep 0.2; echo $0 >/app/inner\n  block: true\n- command: exit\n"
    await _solve(_keystrokes(tmp_path / "t", entries), workspace)
    assert await box.read("/app/inner") == b"sh\n"


async def test_a_blocking_command_that_does_not_end_is_the_agents_error(
    workspace: TrialWorkspace, tmp_path: Path
) -> None:
    task = _keystrokes(tmp_path / "t", "- command: sleep 333\n  block: true\n  max_timeout_sec: 0.2\n")
    with pytest.raises(AgentError, match=r"'sleep 333' did not end within 0\.2 s"):
        await _solve(task, workspace)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Enter", "Enter"),
        ("enter", "Enter"),
        ("KPEnter", "Enter"),
        ("C-c", "C-c"),
        ("^M", "C-M"),
        ("C-M-x", "C-M-x"),
        ("C-left", "C-Left"),
        ("ls", None),
        ("x", None),
        ("C-cc", None),
        ("^abc", None),
        ("echo Enter", None),
    ],
)
def test_what_tmux_takes_for_a_key(text: str, key: str | None) -> None:
    assert key_of(text) == key


# Steps, and no solution.


async def test_each_step_has_its_own_solution(workspace: TrialWorkspace, box: Sandbox, tmp_path: Path) -> None:
    task = load_task(write_folder(tmp_path / "t", STEPS))
    for step in ("first", "second"):
        await _solve(task, workspace, step=step)
    assert await box.read("/app/log") == b"1\n2\n"


def test_no_solution_is_known_before_anything_starts(tmp_path: Path) -> None:
    without = {name: text for name, text in HARBOR.items() if not name.startswith("solution/")}
    with pytest.raises(NoSolution, match="no reference solution") as raised:
        resolve_agent("oracle", task=load_task(write_folder(tmp_path / "one", without)))
    assert (raised.value.task_id, raised.value.step) == ("one", None)
    half = {name: text for name, text in STEPS.items() if not name.startswith("steps/second/solution")}
    with pytest.raises(NoSolution, match="the step second") as raised:
        resolve_agent("oracle", task=load_task(write_folder(tmp_path / "two", half)))
    assert raised.value.step == "second"
