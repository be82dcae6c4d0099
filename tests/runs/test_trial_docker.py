"""Trials in containers: the same outcomes as on the embedded sandbox, and an engine that goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.docker_support import OwnEngine, busybox_archive, left_over
from support.tasks import Made, make_task
from support.trials import try_task
from termarena.core.run_folder import AttemptFolder, RunFolder
from termarena.runs.opening import plan_of
from termarena.runs.plan import RunOptions
from termarena.runs.reading import read_run
from termarena.runs.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.runs.result import TrialResult

pytestmark = [pytest.mark.needs("docker"), pytest.mark.slow]

IMAGE = "FROM debian:bookworm\nWORKDIR /app\n"


async def run(folder: Path, agent: str, made: Made, **options: object) -> TrialResult:
    task = make_task(folder / "task", made)
    return await try_task(task, agent, folder / "attempt", home=folder / "home", driver="docker", **options)


@pytest.mark.parametrize("mode", ["auto", "live"])
async def test_a_container_is_solved_graded_and_gone(tmp_path: Path, mode: str) -> None:
    made = Made(files={"environment/Dockerfile": IMAGE})
    result = await run(tmp_path, "oracle", made, grading=mode)
    assert (result.outcome, result.fault, result.sandbox.driver) == ("solved", None, "docker")
    assert result.sandbox.image_digest is not None
    assert result.sandbox.is_host_root is False
    assert left_over(tmp_path / "home") == []


async def test_work_after_the_deadline_does_not_score_in_a_container(tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    script.write_text("setsid sh -c 'sleep 3; echo 1 >/app/one.txt' >/dev/null 2>&1 &\nsleep 60\n")
    tests = "#!/bin/sh\nsleep 4\n(grep -qx 1 /app/one.txt && echo 1 || echo 0) >/logs/verifier/reward.txt\n"
    made = Made(agent_s=1.0, tests=tests, files={"environment/Dockerfile": IMAGE})
    result = await run(tmp_path, f"script:{script}", made)
    assert (result.outcome, result.agent_end) == ("unsolved", "timeout")


async def test_modules_in_a_folder_that_an_image_names_take_a_pass_away(tmp_path: Path) -> None:
    """Whose working folder, too, only the image names."""
    script = tmp_path / "agent.sh"
    script.write_text("mkdir /opt/lib; echo 'import os; os._exit(0)' >/opt/lib/json.py; echo 'A = 1' >/srv/queue.py\n")
    tests = "#!/bin/sh\npython3 -c 'import json, queue; exit(1)' && echo 1 >/logs/verifier/reward.txt\n"
    image = "FROM debian:bookworm\nENV PYTHONPATH=/opt/lib\nWORKDIR /srv\n"
    made = Made(tests=tests, files={"environment/Dockerfile": image})
    task = make_task(tmp_path / "task", made)
    bare = task.model_copy(update={"environment": task.environment.model_copy(update={"workdir": None})})
    result = await try_task(bare, f"script:{script}", tmp_path / "attempt", home=tmp_path / "home", driver="docker")
    assert result.verdict is not None
    told = {one.path: one.severity for one in result.verdict.findings if one.rule == "python-module-shadowed"}
    assert (result.failure_mode, told) == (
        "TAMPERED",
        {"/opt/lib/json.py": "critical", "/srv/queue.py": "critical"},
    )


@pytest.mark.parametrize("left", ["touch /app", "ln -s /app /app"])
async def test_a_working_folder_turned_into_something_else_is_graded_in_a_container(tmp_path: Path, left: str) -> None:
    script = tmp_path / "agent.sh"
    script.write_text(f"cd /; rm -rf /app; {left}\n")
    result = await run(tmp_path, f"script:{script}", Made(files={"environment/Dockerfile": IMAGE}))
    assert (result.outcome, result.fault, result.failure_mode) == ("unsolved", None, "TEST_FAILED")


async def test_an_image_that_does_not_build_is_the_tasks_fault_and_not_the_agents(tmp_path: Path) -> None:
    result = await run(tmp_path, "oracle", Made(files={"environment/Dockerfile": IMAGE + "RUN exit 3\n"}))
    assert (result.outcome, result.agent_end, result.fault) == ("unscored", None, "task")
    assert result.fault_detail is not None
    assert result.fault_detail.kind == "BuildError"


async def test_one_image_serves_all_attempts(tmp_path: Path) -> None:
    made = Made(files={"environment/Dockerfile": f"{IMAGE}LABEL of={tmp_path.name}\nRUN date +%N >/made\n"})
    task = make_task(tmp_path / "task", made)
    options = RunOptions(agent="nop", driver="docker")
    async with Trials(options, home=tmp_path / "home", run_id="r") as trials:
        made_by = [
            (await trials.run(plan_of(task, number), task, folder=AttemptFolder(tmp_path / str(number)))).sandbox
            for number in (1, 2)
        ]
    assert made_by[0].image_digest == made_by[1].image_digest


async def test_keys_are_in_no_process_list_and_no_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a-key-that-nobody-may-see-123"  # noqa: S105 - made up
    monkeypatch.setenv("EXAMPLE_API_KEY", secret)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    made = Made(files={"environment/Dockerfile": IMAGE}, solution="env >/app/env.txt; echo 1 >/app/one.txt\n")
    result = await run(tmp_path, "support.agents:LooksForKeys", made)
    assert result.outcome == "solved"
    assert json.loads(result.agent.message) == []


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[OwnEngine]:
    with OwnEngine(tmp_path).opened() as opened:
        opened.import_image(busybox_archive(tmp_path / "busybox.tar"), "busybox-alone:1")
        yield opened


@pytest.mark.needs("dockerd", "ip", "busybox")
def test_an_engine_that_restarts_mid_run_costs_a_retry_and_no_trial(engine: OwnEngine, tmp_path: Path) -> None:
    work = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); sleep 0.1; done; echo 1 >/app/one.txt\n"
    image = "FROM busybox-alone:1\nWORKDIR /app\n"
    make_task(tmp_path / "tasks" / "waits", Made(solution=work, files={"environment/Dockerfile": image}))
    out = RunFolder(tmp_path / "run")
    words = [
        "run",
        "--path",
        str(tmp_path / "tasks"),
        "--agent",
        "oracle",
        "--driver",
        "docker",
        "--out",
        str(out.path),
    ]
    env = {**os.environ, "DOCKER_HOST": str(engine.address), "TERMARENA_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "termarena", *words]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as running:  # noqa: S603 - our own program
        while not any(out.trials.glob("*/attempt-1/terminal.cast")) and not _is_working(engine):
            assert running.poll() is None
        engine.stop()
        engine.start()
        told = running.communicate()[1]
    view = read_run(out)
    assert running.returncode == 0, told
    assert (view.counts.solved, view.counts.unscored) == (1, 0)
    assert 1 <= view.history.retries <= 2  # an engine may not be back for the first


def _is_working(engine: OwnEngine) -> bool:
    """Whether a container runs the solution."""
    from termarena.sandbox.docker.sweeping import ask  # noqa: PLC0415 - only here

    rows = ask(engine.address, "GET", "/containers/json")
    for row in rows:
        listed = ask(engine.address, "GET", f"/containers/{row['Id']}/top")
        if any("solve.sh" in " ".join(process) for process in listed["Processes"]):
            return True
    return False
