"""One grading: each format's way to a verdict, and what the place looks like for the tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grading.bench import REWARDED, SOLVED
from termarena.core.errors import UsageError
from termarena.grading import GradingJob
from termarena.sandbox import SandboxSpec
from termarena.tasks import load_task, write_harbor

if TYPE_CHECKING:
    from grading.bench import Bench

pytestmark = pytest.mark.needs("user-namespaces")
HIDDEN = "hidden-from-the-agent"


@pytest.mark.parametrize(("agent", "reward"), [(SOLVED, 1.0), (None, 0.0)])
async def test_a_reward_file_is_the_verdict(bench: Bench, agent: str | None, reward: float) -> None:
    verdict = await bench.sealed(bench.harbor(), agent)
    assert (verdict.reward, verdict.fault, verdict.graded_in) == (reward, None, "sealed")
    assert (verdict.rewards, verdict.raw_reward) == ({"reward": reward}, reward)
    assert verdict.is_pass == (reward == 1.0)


async def test_a_live_grading_gives_the_same_verdict_and_leaves_no_trace(bench: Bench) -> None:
    task = bench.harbor(f"{REWARDED}echo {HIDDEN}\n", tests__data_txt=HIDDEN)
    async with bench.worked(task, f"{SOLVED}; (sleep 100 &)") as box:
        verdict = await bench.grade(box, task, "live")
        assert (verdict.reward, verdict.graded_in, verdict.findings) == (1.0, "live", ())
        assert [process.argv[0] for process in await box.processes()] == ["sleep"]
        left = await box.exec(["sh", "-c", f"ls -A /tests /solution /logs/verifier; grep -rl {HIDDEN} /logs /tests"])
        assert left.stdout == b"/logs/verifier:\n"
    assert HIDDEN in bench.output


async def test_exit_statuses_do_not_count_beside_a_reward_file(bench: Bench) -> None:
    verdict = await bench.sealed(bench.harbor(f"{REWARDED}exit 3\n"))
    assert (verdict.reward, verdict.exit_status) == (1.0, 3)


@pytest.mark.parametrize(("agent", "reward"), [("echo 1 >/workspace/one.txt", 1.0), (None, 0.0)])
async def test_the_exit_status_of_a_simple_task_is_the_verdict(bench: Bench, agent: str | None, reward: float) -> None:
    verdict = await bench.sealed(bench.simple("test -f /workspace/one.txt\n"), agent)
    assert (verdict.reward, verdict.exit_status) == (reward, 0 if reward else 1)


SUMMARY = """\
#!/bin/bash
echo 'collected 2 items'
test "$TEST_DIR" = /tests && test -f $TEST_DIR/test_outputs.py || exit 3
echo '=== short test summary info ==='
echo 'PASSED ../tests/test_outputs.py::test_one'
[ -f /app/one.txt ] && echo 'PASSED ../tests/test_outputs.py::test_two' ||
  echo "FAILED ../tests/test_outputs.py::test_two - FileNotFoundError: no - such file"
"""


@pytest.mark.parametrize(("agent", "state"), [(SOLVED, "passed"), (None, "failed")])
async def test_the_printed_summary_of_a_terminal_bench_1_task_is_the_verdict(
    bench: Bench, agent: str | None, state: str
) -> None:
    verdict = await bench.sealed(bench.terminal_bench_1(SUMMARY), agent)
    assert verdict.reward == (1.0 if state == "passed" else 0.0)
    assert [(test.name, test.state) for test in verdict.tests] == [("test_one", "passed"), ("test_two", state)]


async def test_output_without_results_is_a_fault_of_the_test(bench: Bench) -> None:
    verdict = await bench.sealed(bench.terminal_bench_1("echo nothing of the kind\n"))
    assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "nothing_parsed")


async def test_named_rewards_are_kept_and_the_one_called_reward_is_the_verdict(bench: Bench) -> None:
    test = """#!/bin/sh\necho '{"reward": 0.5, "speed": 3, "style": -1e-3}' >/logs/verifier/reward.json\n"""
    verdict = await bench.sealed(bench.harbor(test))
    assert verdict.reward == 0.5
    assert verdict.rewards == {"reward": 0.5, "speed": 3.0, "style": -0.001}


async def test_reward_json_wins_over_reward_txt(bench: Bench) -> None:
    test = "#!/bin/sh\ncd /logs/verifier\necho 1 >reward.txt\necho '{\"reward\": 0}' >reward.json\n"
    assert (await bench.sealed(bench.harbor(test))).reward == 0.0


LOOKING = """\
#!/bin/sh
cd /tests
stat -c '%U %a %F' . test.sh data.txt helper.sh >/logs/verifier/modes
ls -A /solution >/dev/null 2>&1 && echo 'the solution is here' >>/logs/verifier/modes
pwd; id -un; env | sort
echo 1 >/logs/verifier/reward.txt
"""


async def test_tests_are_roots_read_only_and_without_the_solution(bench: Bench) -> None:
    task = bench.harbor(LOOKING, tests__data_txt="x", tests__helper_sh="#!/bin/sh\n", solution__solve_sh="#!/bin/sh\n")
    verdict = await bench.sealed(task, "mkdir /solution; touch /solution/notes")
    assert verdict.reward == 1.0
    modes = (bench.folder / "logs-0" / "verifier" / "modes").read_text().splitlines()
    assert modes == [
        "root 755 directory",
        "root 555 regular file",
        "root 444 regular file",
        "root 555 regular file",
    ]


async def test_the_environment_is_ours(bench: Bench) -> None:
    agent = """
    for file in ~/.bashrc ~/.profile ~/.bash_profile /etc/profile /etc/environment /etc/bash.bashrc; do
      echo 'export LD_PRELOAD=/evil.so PYTHONPATH=/evil BASH_ENV=/evil.sh ENV=/evil.sh PYTEST_ADDOPTS=--co' >>$file
    done
    export PATH=/evil:$PATH EVIL=1
    """
    await bench.sealed(bench.harbor(LOOKING, verifier='env = { WANTED = "${NOT_GIVEN:-yes}" }'), agent)
    names = {line.partition("=")[0]: line.partition("=")[2] for line in bench.output.splitlines() if "=" in line}
    assert names.pop("WANTED") == "yes"
    assert names.pop("PATH").startswith("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
    assert names.keys() <= {"HOME", "USER", "LOGNAME", "LANG", "PWD", "OLDPWD", "SHLVL", "_"}


async def test_variables_of_the_harness_reach_the_tests_by_name_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "of-the-harness")
    task = bench.harbor(
        '#!/bin/sh\necho "$KEY"\necho 1 >/logs/verifier/reward.txt\n', verifier='env = { KEY = "${JUDGE_KEY}" }'
    )
    with pytest.raises(UsageError, match="JUDGE_KEY"):
        await bench.sealed(task)
    async with bench.worked(task) as box:
        job = bench.job(task, variables={"JUDGE_KEY": "given"})
        assert (await bench.grader.grade(box, job, graded_in="live")).reward == 1.0
    assert bench.output == "given\n"


async def test_only_the_last_live_grading_leaves_its_tests_behind(bench: Bench) -> None:
    task = bench.harbor("#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n")
    async with bench.worked(task) as box:
        for is_last, status in ((False, 1), (True, 0)):
            job = replace(bench.job(task), is_last=is_last)
            assert (await bench.grader.grade(box, job, graded_in="live")).reward == 1.0
            assert (await box.exec(["/bin/sh", "-c", "test -e /tests/test.sh"])).exit_status == status


async def test_terminal_bench_1_tests_run_as_root_whoever_the_agent_was(bench: Bench) -> None:
    bench.need_users()
    task = bench.terminal_bench_1("echo '== short test summary info =='; echo PASSED t.py::as_$(id -u)\n")
    async with bench.driver.start(SandboxSpec(user="nobody")) as box:
        verdict = await bench.grade(box, task, "live")
    assert [one.name for one in verdict.tests] == ["as_0"]


async def test_a_grading_user_runs_the_tests_and_may_write_the_reward(bench: Bench) -> None:
    bench.need_users()
    test = "#!/bin/sh\nid -u\necho 1 >/logs/verifier/reward.txt\n"
    task = bench.harbor(test, verifier='user = "nobody"')
    for verdict in (await bench.sealed(task), await bench.live(task)):
        assert (verdict.reward, verdict.fault) == (1.0, None)
        assert bench.output.strip() == "65534"


async def test_a_grading_user_that_the_agent_removed_is_told(bench: Bench) -> None:
    bench.need_users()
    task = bench.harbor(REWARDED, verifier='user = "nobody"')
    verdict = await bench.sealed(task, "sed -i /nobody/d /etc/passwd")
    assert verdict.fault is not None
    assert (verdict.fault.reason, "nobody" in verdict.fault.message) == ("cannot_run", True)


async def test_the_working_folder_may_be_gone(bench: Bench) -> None:
    verdict = await bench.live(bench.harbor(LOOKING), "rm -rf /app")
    assert (verdict.reward, [finding.rule for finding in verdict.findings]) == (1.0, ["workdir-gone"])


async def test_a_missing_interpreter_is_told_apart_from_a_failing_test(bench: Bench) -> None:
    missing = await bench.sealed(bench.harbor("#!/opt/nowhere/bash\necho 1 >/logs/verifier/reward.txt\n"))
    assert (missing.reward, missing.fault and missing.fault.reason) == (None, "cannot_run")
    failing = await bench.sealed(bench.simple("exit 127\n"))
    assert (failing.reward, failing.fault) == (0.0, None)


@pytest.mark.parametrize(
    "agent",
    [
        "ln -s /etc /tests; ln -s /etc /logs; ln -s /root /solution",
        "mkdir /logs; ln -s /etc /logs/verifier; mkfifo /tests",
        "mkdir -p /logs/verifier /tests; mkfifo /logs/verifier/reward.txt; mkdir -m 0 /tests/no /logs/verifier/no",
        "echo file >/logs; echo file >/tests; echo file >/solution",
        "mkdir -p /tests/test.sh/deep /logs/verifier/reward.json; chmod 000 /tests /logs; ln -s /nowhere /solution",
        "mkdir -p '/tests/-rf' '/logs/verifier/a\nb'; touch '/logs/verifier/...' /tests/test.sh; chmod 555 /tests",
    ],
)
async def test_whatever_the_agent_left_in_the_graders_places_is_gone(bench: Bench, agent: str) -> None:
    verdict = await bench.sealed(bench.harbor(), f"{agent}; {SOLVED}")
    assert (verdict.reward, verdict.fault) == (1.0, None)
    live = await bench.live(bench.harbor(), agent)
    assert (live.reward, live.fault) == (0.0, None)


async def test_etc_is_not_cleared_through_a_link(bench: Bench) -> None:
    test = "#!/bin/sh\ntest -f /etc/passwd && test -f /etc/verifier/kept && echo 1 >/logs/verifier/reward.txt\n"
    verdict = await bench.sealed(bench.harbor(test), "mkdir /etc/verifier; touch /etc/verifier/kept; ln -s /etc /logs")
    assert verdict.reward == 1.0


async def test_tests_that_changed_on_disk_since_the_task_was_loaded_are_a_fault(bench: Bench) -> None:
    task = bench.harbor()
    assert task.digest
    script = Path(task.provenance.path) / "tests" / "test.sh"
    script.write_text("#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n")
    verdict = await bench.sealed(task, None)
    assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "tests_changed")


async def test_tests_that_changed_after_a_first_grading_are_a_fault(bench: Bench) -> None:
    task = bench.harbor()
    assert (await bench.sealed(task, None)).reward == 0.0
    script = Path(task.provenance.path) / "tests" / "test.sh"
    script.write_text("#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n")
    verdict = await bench.sealed(task, None)
    assert verdict.fault is not None
    assert (verdict.fault.reason, "test.sh" in verdict.fault.message) == ("tests_changed", True)


async def test_single_tests_are_kept_from_ctrf(bench: Bench) -> None:
    report = {
        "results": {
            "tool": {"name": "pytest"},
            "tests": [
                {"name": "test_a", "status": "passed", "duration": 12},
                {"name": "test_b", "status": "skipped", "message": "no network"},
                {"name": "test_c", "status": "failed"},
            ],
        }
    }
    write = f"cat >ctrf.json <<'EOF'\n{json.dumps(report)}\nEOF\necho 0 >reward.txt\n"
    test = f"#!/bin/sh\ncd /logs/verifier\n{write}"
    verdict = await bench.sealed(bench.harbor(test))
    assert [(one.name, one.state, one.message, one.duration_s) for one in verdict.tests] == [
        ("test_a", "passed", "", 0.012),
        ("test_b", "skipped", "no network", None),
        ("test_c", "failed", "", None),
    ]


async def test_a_steps_tests_go_over_those_that_all_steps_share(bench: Bench) -> None:
    steps = '[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n'
    task = bench.harbor(
        "#!/bin/sh\ncat /tests/shared.txt /tests/own.txt\necho 0.25 >/logs/verifier/reward.txt\n",
        more=steps,
        tests__shared_txt="shared\n",
        tests__own_txt="of the task\n",
        steps__first__instruction_md="First.\n",
        steps__first__tests__own_txt="of the first step\n",
        steps__second__instruction_md="Second.\n",
    )
    for step, said in zip(task.steps, ("of the first step", "of the task"), strict=True):
        async with bench.worked(task) as box:
            job = GradingJob.of(task, step=step, output=bench.folder / f"output-{step.name}")
            verdict = await bench.grader.grade(box, job, graded_in="live")
        assert (verdict.reward, verdict.fault) == (0.25, None)
        assert job.output.read_text() == f"shared\n{said}\n"


async def test_tests_in_the_agents_shell_run_in_its_terminal(bench: Bench) -> None:
    from termarena.sandbox.terminal import TerminalOptions, open_terminal  # noqa: PLC0415 - loads the emulator

    check = '[ "$MADE_BY_AGENT" = yes ] && echo PASSED t.py::t || echo FAILED t.py::t'
    script = f"echo '=== short test summary info ==='\n{check}\n"
    task = bench.terminal_bench_1(script, more="run_tests_in_same_shell: true\n")
    async with bench.worked(task) as box, open_terminal(box, TerminalOptions(shell_argv=("/bin/bash",))) as terminal:
        await terminal.run("export MADE_BY_AGENT=yes")
        verdict = await bench.grader.grade(box, bench.job(task), graded_in="live", terminal=terminal)
        assert (verdict.reward, [one.rule for one in verdict.findings]) == (1.0, [])
        without = await bench.grader.grade(box, bench.job(task), graded_in="live")
        assert (without.reward, [one.rule for one in without.findings]) == (0.0, ["same-shell-missing"])


PIPED = '[metadata.termarena.tests]\nverdict = "reward_pipe"\n'


async def test_a_reward_through_the_pipe_is_the_verdict_and_no_file_is(bench: Bench) -> None:
    task = bench.harbor(
        '#!/bin/sh\necho out; echo err >&2; echo 0 >/logs/verifier/reward.txt\necho 0.5 >&"$TERMARENA_REWARD_FD"\n',
        ours=PIPED,
    )
    for verdict in (await bench.sealed(task), await bench.live(task)):
        assert (verdict.reward, verdict.fault) == (0.5, None)
        assert bench.output == "out\nerr\n"


async def test_a_program_of_the_agent_has_no_hand_on_the_pipe(bench: Bench) -> None:
    cheat = "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\necho 1 >&3\n"
    agent = f"printf '{cheat}' >/app/one; chmod 755 /app/one".replace("\n", "\\n")
    task = bench.harbor("#!/bin/sh\n/app/one 3>&-\necho 0 >&3\n", ours=PIPED)
    assert (await bench.sealed(task, agent)).reward == 0.0


async def test_a_program_of_the_agent_cannot_open_the_pipe_again(bench: Bench) -> None:
    """Where the harness is an ordinary user, every program that the tests start could open a pipe of theirs."""
    cheat = "#!/bin/sh\nfor one in /proc/$PPID/fd/*; do readlink $one; echo 1 >$one; done\n"
    agent = f"printf '{cheat}' >/app/one; chmod 755 /app/one".replace("\n", "\\n")
    task = bench.harbor("#!/bin/sh\n/app/one 3>&-\necho 0 >&3\n", ours=PIPED)
    for verdict in (await bench.sealed(task, agent), await bench.live(task, agent)):
        assert (verdict.reward, verdict.fault) == (0.0, None)
        assert "socket:[" in bench.output


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("true", "no_reward"),
        ("echo 1; echo 1", "bad_reward"),
        ("echo yes", "bad_reward"),
        ("kill -9 $$", "no_reward"),
        ("echo nan", "bad_reward"),
        ("head -c 3000000 /dev/zero", "bad_reward"),
    ],
)
async def test_what_is_no_reward_in_the_pipe_is_a_fault(bench: Bench, told: str, reason: str) -> None:
    verdict = await bench.sealed(bench.harbor(f"#!/bin/sh\n{{ {told}; }} >&3\n", ours=PIPED))
    assert verdict.fault is not None
    assert verdict.fault.reason == reason


@pytest.mark.parametrize(("before", "after"), [("1.", ""), ("1", ""), ("0.9", ""), ("", "1")])
async def test_what_others_write_beside_the_reward_makes_no_other_number_of_it(
    bench: Bench, before: str, after: str
) -> None:
    script = f"#!/bin/sh\nprintf '{before}' >&3\necho 0 >&3\nprintf '{after}' >&3\n"
    verdict = await bench.sealed(bench.harbor(script, ours=PIPED))
    assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "bad_reward")


async def test_complaints_of_the_shell_that_starts_the_tests_are_no_reward(bench: Bench) -> None:
    complaining = 'ln -sf bash /usr/bin/sh.new && mv -f /usr/bin/sh.new "$(readlink -f /bin)/sh"'
    task = bench.harbor("#!/bin/sh\necho 1 >&3\n", ours=PIPED, more='[environment.env]\nLC_ALL = "xx_XX.nowhere"\n')
    verdict = await bench.sealed(task, complaining)
    assert (verdict.reward, verdict.fault) == (1.0, None)
    assert "setlocale" in bench.output


def test_how_tests_tell_their_reward_is_kept_when_a_task_is_written(bench: Bench) -> None:
    task = bench.harbor(ours=PIPED + 'toolchain = "pristine"\n')
    written = load_task(write_harbor(task, bench.folder / "written"))
    assert written.tests is not None
    assert (written.tests.verdict, written.tests.toolchain) == ("reward_pipe", "pristine")
    assert written.digest == task.digest
