"""A trial from start to record, on the embedded sandbox: what counts, when, and whose fault it was."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from support.agents import IsNotToBeStopped, SaysASecretAndWaits
from support.tasks import LOOKS_FOR_ONE, Made, make_task
from support.trials import Bench, try_task
from termarena.core.errors import SandboxBroken
from termarena.core.trajectory import read_trajectory
from termarena.grading import Grader
from termarena.runs.changed_paths import read_changes
from termarena.runs.recording import read_result
from termarena.runs.trials import Trials
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.box import NamespaceSandbox
from termarena.sandbox.terminal.cast import read_cast

if TYPE_CHECKING:
    from termarena.grading import GradingJob, Verdict
    from termarena.sandbox import Sandbox

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.asyncio]


async def test_the_reference_solution_solves_and_everything_is_recorded(bench: Bench) -> None:
    result = await bench.run("oracle")
    assert (result.outcome, result.agent_end, result.fault, result.reward) == ("solved", "submitted", None, 1.0)
    assert list(result.clocks) == ["prepare", "work", "seal", "grade", "record"]
    assert read_result(bench.attempt) == result
    names = {path.name for path in bench.attempt.path.iterdir()}
    assert names >= {"result.json", "trajectory.json", "tool_calls.json", "metrics.json", "changes.json"}
    assert {"test_output.txt", "state.snapshot"} <= names
    changes = json.loads(bench.attempt.changes.read_text())["changes"]
    assert [(row["path"], row["change"]) for row in changes if row["kind"] == "file"] == [("/app/one.txt", "added")]
    trajectory = read_trajectory(bench.attempt.trajectory)
    assert trajectory.steps[0].message == "Write 1 to /app/one.txt.\n"


async def test_doing_nothing_fails_and_is_no_fault(bench: Bench) -> None:
    result = await bench.run("nop")
    assert (result.outcome, result.agent_end, result.fault) == ("unsolved", "submitted", None)
    assert result.failure_mode == "TEST_FAILED"


async def test_the_terminal_of_the_agent_is_recorded(bench: Bench) -> None:
    made = Made(files={"solution/solve.sh": "#!/bin/sh\necho 1 >/app/one.txt\n"})
    await bench.run("support.agents:TypesIntoATerminal", made)
    events = read_cast(bench.attempt.cast()).events
    assert "echo 1" in "".join(event.text for event in events if event.code == "o")


# The deadline.


async def test_work_after_the_deadline_does_not_score(bench: Bench) -> None:
    late = "(sleep 2; echo 1 >/app/one.txt) & sleep 60\n"
    tests = "#!/bin/sh\nsleep 3\n" + LOOKS_FOR_ONE.removeprefix("#!/bin/sh\n")
    result = await bench.run(bench.script(late), Made(agent_s=1.0, tests=tests))
    assert (result.outcome, result.agent_end, result.failure_mode) == ("unsolved", "timeout", "AGENT_TIMEOUT")
    assert result.clocks["work"].duration_s < 5


async def test_a_daemon_that_finishes_the_job_after_the_deadline_does_not_score(bench: Bench) -> None:
    late = "setsid sh -c 'trap \"\" HUP TERM; sleep 2; echo 1 >/app/one.txt' >/dev/null 2>&1 & sleep 60\n"
    tests = "#!/bin/sh\nsleep 3\n" + LOOKS_FOR_ONE.removeprefix("#!/bin/sh\n")
    result = await bench.run(bench.script(late), Made(agent_s=1.0, tests=tests))
    assert (result.outcome, result.agent_end) == ("unsolved", "timeout")


async def test_a_task_finished_before_the_deadline_is_solved_though_the_agent_ran_out_of_time(bench: Bench) -> None:
    result = await bench.run(bench.script("echo 1 >/app/one.txt; sleep 60\n"), Made(agent_s=3.0))
    assert (result.outcome, result.agent_end, result.failure_mode) == ("solved", "timeout", "NONE")


async def test_an_agent_that_blocks_its_thread_cannot_hold_up_the_deadline(bench: Bench) -> None:
    result = await bench.run("support.agents:Blocks", Made(agent_s=0.5))
    assert (result.agent_end, result.outcome) == ("timeout", "unsolved")
    assert result.clocks["work"].duration_s < 5


async def test_the_multiplier_is_recorded_with_the_limits_it_made(bench: Bench) -> None:
    result = await bench.run("oracle", Made(agent_s=10.0, verifier_s=20.0), timeout_multiplier=0.5)
    limits = result.limits
    assert (limits.timeout_multiplier, limits.agent_timeout_s, limits.test_timeout_s) == (0.5, 5.0, 10.0)


async def test_an_agent_that_takes_no_notice_of_its_deadline_has_still_run_out_of_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Trials, "_make_agent", lambda *_: IsNotToBeStopped())
    tests = "#!/bin/sh\nsleep 2\n" + LOOKS_FOR_ONE.removeprefix("#!/bin/sh\n")
    result = await bench.run("nop", Made(agent_s=0.5, tests=tests))
    assert (result.agent_end, result.outcome) == ("timeout", "unsolved")


# Whose fault.


async def test_an_agent_that_says_the_sandbox_broke_is_not_believed(bench: Bench) -> None:
    result = await bench.run("support.agents:BlamesTheSandbox")
    assert (result.outcome, result.agent_end, result.fault) == ("unsolved", "error", None)


@pytest.mark.parametrize(
    "left", ["touch /app", "ln -s /app /app", "ln -s /nowhere/at/all /app", "ln -s /proc/self/cwd /app"]
)
async def test_a_working_folder_turned_into_something_else_does_not_leave_the_trial_unscored(
    bench: Bench, left: str
) -> None:
    result = await bench.run(bench.script(f"cd /; rm -rf /app; {left}\n"))
    assert (result.outcome, result.fault, result.failure_mode) == ("unsolved", None, "TEST_FAILED")


async def test_a_name_that_is_not_utf_8_is_recorded_like_any_other(bench: Bench) -> None:
    result = await bench.run(bench.script("echo 1 >/app/one.txt; touch \"$(printf '/app/\\377')\"\n"))
    assert result.outcome == "solved"
    assert read_changes(bench.attempt).get("/app/\udcff") is not None


async def test_an_agent_that_crashes_is_still_graded(bench: Bench) -> None:
    result = await bench.run("support.agents:SolvesAndCrashes")
    assert (result.outcome, result.agent_end, result.fault) == ("solved", "error", None)
    assert result.agent_error is not None
    assert "ZeroDivisionError" in result.agent_error.traceback


def _first_process_beside(words: bytes) -> int | None:
    """Process 1 of the sandbox in which a program with this command line runs."""
    spaces: dict[str, list[Path]] = {}
    wanted = None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            space = str((process / "ns/pid").readlink())
            spaces.setdefault(space, []).append(process)
            if (process / "cmdline").read_bytes() == words:
                wanted = space
        except OSError:
            continue
    for process in spaces.get(wanted or "", []):
        if re.search(r"^NSpid:.*\s1$", (process / "status").read_text(), re.MULTILINE):
            return int(process.name)
    return None


async def test_a_sandbox_that_is_killed_leaves_the_trial_unscored(bench: Bench) -> None:
    running = asyncio.ensure_future(bench.run(bench.script(f"sleep {86_000 + os.getpid() / 10**7}\n")))
    words = f"sleep\0{86_000 + os.getpid() / 10**7}\0".encode()
    while (found := await asyncio.to_thread(_first_process_beside, words)) is None:
        assert not running.done()
    os.kill(found, signal.SIGKILL)
    result = await running
    assert (result.outcome, result.fault, result.failure_mode) == ("unscored", "infra", "INFRA_FAULT")
    assert result.fault_detail is not None
    assert (result.fault_detail.kind, result.fault_detail.is_retriable) == ("SandboxBroken", True)


async def test_a_grading_whose_sandbox_is_killed_is_done_again_and_not_put_on_the_agent(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    grade, boxes = Grader.grade, []

    async def killed_once(self: Grader, box: Sandbox, job: GradingJob, **how: Any) -> Verdict:  # noqa: ANN401 - as it takes them
        boxes.append(box)
        if len(boxes) == 1:
            await box.stop()
        return await grade(self, box, job, **how)

    monkeypatch.setattr(Grader, "grade", killed_once)
    result = await bench.run("oracle")
    assert (result.outcome, result.fault, len(boxes)) == ("solved", None, 2)


async def test_a_tree_deeper_than_any_path_does_not_keep_a_trial_from_its_verdict(bench: Bench) -> None:
    digs = "echo 1 >/app/one.txt; cd /app; for _ in $(seq 60); do mkdir -p $DEEP; cd $DEEP; done\n"
    result = await bench.run(bench.script(f"DEEP={'/'.join(['0123456789'] * 10)}\n{digs}"))
    assert (result.outcome, result.fault, result.sandbox.state) == ("solved", None, "kept")


async def test_a_sandbox_that_breaks_after_its_verdict_takes_nothing_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(*_: object) -> NoReturn:
        raise SandboxBroken("ta-1", "gone")

    monkeypatch.setattr("termarena.runs.trial.keep_state", breaks)
    result = await bench.run("oracle")
    assert (result.outcome, result.sandbox.state) == ("solved", "not_kept")


async def test_a_home_that_cannot_be_used_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    task = make_task(tmp_path / "tasks" / "one")
    result = await try_task(task, "oracle", tmp_path / "attempt", home=tmp_path / "file" / "home")
    assert result.fault_detail is not None
    assert (result.outcome, result.fault, result.fault_detail.kind) == ("unscored", "infra", "SandboxStartError")
    assert result.fault_detail.hint == "set TERMARENA_HOME to a folder that is writable and has room"


async def test_a_set_up_that_fails_is_the_tasks_fault_and_not_retried(bench: Bench) -> None:
    result = await bench.run("oracle", Made(setup="exit 3\n"))
    assert (result.outcome, result.fault, result.agent_end) == ("unscored", "task", None)
    assert result.summary().is_retriable is False


async def test_an_agent_that_eats_all_memory_has_met_its_limit(bench: Bench) -> None:
    hungry = 'python3 -c "x = bytearray(3 << 30)"; tail /dev/zero; exit 1\n'
    result = await bench.run(bench.script(hungry), Made(memory_mb=1024))
    assert (result.outcome, result.agent_end, result.fault) == ("unsolved", "resource_limit", None)
    assert result.metrics["sandbox"]["oom_kills"]


async def test_an_agent_that_fills_its_disk_has_met_its_limit_and_is_graded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So little memory that 80 MB of files have to be on disk.
    monkeypatch.setattr("termarena.sandbox.bare.LEAST_MEMORY_BYTES", 64 << 20)
    made = Made(memory_mb=64, toml="storage_mb = 80\n", agent_s=600)
    result = await bench.run("support.agents:FillsTheDisk", made)
    assert (result.outcome, result.agent_end, result.fault) == ("solved", "resource_limit", None)
    assert result.metrics["sandbox"]["disk_full"] is True
    assert result.metrics["sandbox"]["disk_bytes"] > 79 << 20
    assert result.metrics["sandbox"]["oom_kills"] in (0, None)


# Grading modes.

SERVES = Made(
    solution="setsid sh -c 'echo $$ >/app/pid; exec sleep 1000' >/dev/null 2>&1 &\n"
    "while ! [ -s /app/pid ]; do :; done\n",
    tests='#!/bin/sh\n(kill -0 "$(cat /app/pid)" && echo 1 || echo 0) >/logs/verifier/reward.txt\n',
)


async def test_a_process_that_must_be_alive_is_graded_live(bench: Bench) -> None:
    result = await bench.run("oracle", SERVES)
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in) == ("solved", "live")
    assert [other.graded_in for other in result.verdict.others] == ["sealed"]
    assert result.sandbox.processes_left == 1


@pytest.mark.parametrize(("services", "told"), [((), ["warning"]), (("sh",), [])])
async def test_a_pass_that_only_a_live_grading_gave_is_told_unless_the_task_asks_for_services(
    bench: Bench, services: tuple[str, ...], told: list[str]
) -> None:
    result = await bench.run("oracle", replace(SERVES, services=services))
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in) == ("solved", "live")
    found = [finding.severity for finding in result.verdict.findings if finding.rule == "passed-only-live"]
    assert found == told


@pytest.mark.parametrize(("toolchain", "raw", "outcome"), [("agents", 1.0, "unsolved"), ("pristine", 0.0, "unsolved")])
async def test_a_task_may_have_its_tests_run_by_the_programs_of_the_start(
    bench: Bench, toolchain: str, raw: float, outcome: str
) -> None:
    fake = "cd /usr/bin; printf '#!/bin/sh\\nexit 0\\n' >grep.new; chmod 755 grep.new; mv -f grep.new grep"
    made = Made(toml=f'[metadata.termarena.tests]\ntoolchain = "{toolchain}"\n')
    result = await bench.run(bench.script(fake), made)
    assert result.verdict is not None
    assert (result.verdict.toolchain, result.verdict.raw_reward, result.outcome) == (toolchain, raw, outcome)
    assert "tool-replaced" in {finding.rule for finding in result.verdict.findings}
    solved = await bench.run("oracle", made)
    assert solved.outcome == "solved"


async def test_a_process_that_was_left_leads_to_no_grading_on_the_agents_programs(bench: Bench) -> None:
    made = replace(SERVES, toml='[metadata.termarena.tests]\ntoolchain = "pristine"\n')
    result = await bench.run("oracle", made)
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in, result.verdict.others) == ("unsolved", "sealed", ())
    assert result.sandbox.processes_left == 1


async def test_tests_that_change_the_system_are_not_put_on_the_agent_where_they_may_not(bench: Bench) -> None:
    tests = "#!/bin/sh\ntouch /usr/tested && echo 1 >/logs/verifier/reward.txt\n"
    result = await bench.run("oracle", Made(tests=tests, toml='[metadata.termarena.tests]\ntoolchain = "pristine"\n'))
    assert (result.outcome, result.fault) == ("unscored", "test")


async def test_a_state_that_passes_sealed_is_not_graded_live(bench: Bench) -> None:
    left = "echo 1 >/app/one.txt; setsid sleep 1000 >/dev/null 2>&1 &\n"
    result = await bench.run(bench.script(left))
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in, result.verdict.others) == ("solved", "sealed", ())
    assert result.sandbox.processes_left == 1


@pytest.fixture
def killed_when_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody outside kills process 1 of the agent's sandbox as soon as it is graded in."""
    grade = Grader.grade

    async def killed(self: Grader, box: Sandbox, job: GradingJob, **how: Any) -> Verdict:  # noqa: ANN401 - as it takes them
        if how["graded_in"] == "live":
            assert isinstance(box, NamespaceSandbox)
            os.kill(box.host_pid, signal.SIGKILL)
        return await grade(self, box, job, **how)

    monkeypatch.setattr(Grader, "grade", killed)


@pytest.mark.usefixtures("killed_when_live")
@pytest.mark.parametrize("mode", ["auto", "live"])
async def test_a_live_sandbox_that_is_killed_is_not_put_on_the_agent(bench: Bench, mode: str) -> None:
    result = await bench.run("oracle", SERVES, grading=mode)
    assert (result.outcome, result.fault, result.agent_end) == ("unscored", "infra", "submitted")
    assert result.fault_detail is not None
    assert (result.fault_detail.phase, result.fault_detail.kind) == ("grade", "SandboxBroken")
    assert result.summary().is_retriable


@pytest.mark.usefixtures("killed_when_live")
async def test_a_live_sandbox_that_ends_after_the_agent_ate_its_memory_is_the_agents_failure(bench: Bench) -> None:
    hungry = 'setsid sleep 1000 >/dev/null 2>&1 & python3 -c "x = bytearray(3 << 30)"; tail /dev/zero\n'
    result = await bench.run(bench.script(hungry), Made(memory_mb=1024))
    assert (result.outcome, result.fault) == ("unsolved", None)
    assert result.verdict is not None
    assert result.verdict.fault is not None
    assert (result.verdict.graded_in, result.verdict.fault.reason) == ("live", "toolchain_broken_by_agent")


@pytest.mark.usefixtures("killed_when_live")
async def test_a_live_sandbox_that_is_killed_takes_no_sealed_verdict_away(bench: Bench) -> None:
    result = await bench.run("oracle", grading="both")
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in) == ("solved", "sealed")
    assert [other.fault and other.fault.reason for other in result.verdict.others] == ["sandbox"]


@pytest.mark.parametrize(("mode", "outcome"), [("sealed", "unsolved"), ("live", "solved"), ("both", "solved")])
async def test_the_mode_decides_whether_processes_count(bench: Bench, mode: str, outcome: str) -> None:
    result = await bench.run("oracle", SERVES, grading=mode)
    assert result.outcome == outcome


async def test_both_grades_twice_and_says_which_counted(bench: Bench) -> None:
    result = await bench.run("oracle", grading="both")
    assert result.verdict is not None
    assert (result.verdict.graded_in, [other.graded_in for other in result.verdict.others]) == ("sealed", ["live"])


# The grader.


async def test_tests_that_hang_count_as_unsolved_and_are_flagged(bench: Bench) -> None:
    result = await bench.run("oracle", Made(tests="#!/bin/sh\nsleep 600\n", verifier_s=0.5))
    assert result.verdict is not None
    assert (result.outcome, result.fault, result.verdict.timed_out) == ("unsolved", None, True)
    assert result.failure_mode == "TEST_TIMEOUT"


@pytest.mark.parametrize("reward", ["nan", "inf", "", "one", "true"])
async def test_a_reward_that_is_no_number_is_unscored(bench: Bench, reward: str) -> None:
    result = await bench.run("oracle", Made(tests=f"#!/bin/sh\nprintf '%s' '{reward}' >/logs/verifier/reward.txt\n"))
    assert (result.outcome, result.fault, result.reward) == ("unscored", "test", None)


async def test_tests_that_write_nothing_are_unscored(bench: Bench) -> None:
    result = await bench.run("oracle", Made(tests="#!/bin/sh\nexit 0\n"))
    assert (result.outcome, result.fault) == ("unscored", "test")


@pytest.mark.parametrize("mode", ["auto", "live"])
async def test_a_reward_that_was_there_before_the_end_does_not_count(bench: Bench, mode: str) -> None:
    forged = """mkdir -p /logs/verifier; cd /logs/verifier; echo '{"reward": 1.0}' >reward.json; echo 1 >reward.txt\n"""
    result = await bench.run(bench.script(forged), grading=mode)
    assert (result.outcome, result.reward) == ("unsolved", 0.0)


async def test_the_agent_sees_neither_tests_nor_solution(bench: Bench) -> None:
    look = "ls -d /tests /solution /logs/verifier/* >/app/seen.txt 2>/dev/null; cat /app/seen.txt\n"
    result = await bench.run(bench.script(look))
    calls = json.loads(bench.attempt.tool_calls.read_text())["calls"]
    assert result.outcome == "unsolved"
    assert next(call["output_bytes"] for call in calls if call["name"] == "exec") == 0


# Records.


async def test_no_secret_reaches_a_record(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "v3ry-secret-value-of-a-key"  # noqa: S105 - made up
    monkeypatch.setenv("EXAMPLE_API_KEY", secret)
    told = f"echo {secret}; echo {secret} >/app/{secret}; mkdir -p /logs; exit 1\n"
    tests = f"#!/bin/sh\necho {secret}; echo {secret} >/logs/verifier/notes.txt; echo 0 >/logs/verifier/reward.txt\n"
    await bench.run(bench.script(told), Made(tests=tests))
    kept = [path for path in bench.attempt.path.rglob("*") if path.is_file() and path.name != "state.snapshot"]
    assert len(kept) > 5
    assert [path.name for path in kept if secret.encode() in path.read_bytes()] == []


async def test_a_cancelled_trial_leaves_nothing_running(bench: Bench) -> None:
    task = make_task(bench.folder / "task", Made(solution="echo 1 >/app/begun; sleep 600\n"))
    running = asyncio.ensure_future(try_task(task, "oracle", bench.attempt.path, home=bench.home))
    await asyncio.wait({running}, timeout=1.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [record for record in NamespaceDriver(home=bench.home).list() if record.is_alive] == []
    assert not bench.attempt.result.exists()


async def test_a_cancelled_trial_leaves_no_secret_in_its_recordings(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", SaysASecretAndWaits.words)
    task = make_task(bench.folder / "task")
    agent = "support.agents:SaysASecretAndWaits"
    running = asyncio.ensure_future(try_task(task, agent, bench.attempt.path, home=bench.home))
    assert await asyncio.to_thread(SaysASecretAndWaits.has_spoken.wait, 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    shown = read_cast(bench.attempt.cast()).text()
    assert "[secret EXAMPLE_API_KEY]" in shown
    assert SaysASecretAndWaits.words not in shown


@pytest.mark.parametrize(("agent", "outcome"), [("always-right", "solved"), ("always-wrong", "unsolved")])
async def test_a_baseline_needs_no_sandbox(bench: Bench, agent: str, outcome: str) -> None:
    result = await bench.run(agent, Made(setup="exit 1\n"))
    assert result.verdict is not None
    assert (result.outcome, result.verdict.graded_in) == (outcome, "baseline")
