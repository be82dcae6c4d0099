"""What agents and tests have done to graders, done to this one."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

import pytest

from grading.bench import REWARDED, SOLVED
from termarena.grading import company
from termarena.grading.control import against_control, needs_control
from termarena.grading.integrity import apply, examine
from termarena.tasks import load_task

if TYPE_CHECKING:
    from grading.bench import Bench
    from termarena.grading import Verdict
    from termarena.tasks import Task

pytestmark = pytest.mark.needs("user-namespaces")
FAILING = "#!/bin/sh\necho 0 >/logs/verifier/reward.txt\n"


async def _judged(bench: Bench, task: Task, agent: str, *, live: bool = False) -> Verdict:
    """The verdict with the integrity findings applied, as a trial does it."""
    async with bench.worked(task, agent) as box:
        await box.freeze()
        changes = await box.diff()
        findings = await examine(box, changes, task)
        if live:
            await box.thaw()
            return apply(await bench.grade(box, task, "live", changes), findings)
        await box.seal()
        snapshot = await box.snapshot()
        try:
            async with bench.driver.start(snapshot) as fork:
                return apply(await bench.grade(fork, task, "sealed", changes), findings)
        finally:
            snapshot.close()


# The agent bends the grading.


@pytest.mark.parametrize("name", ["reward.json", "reward.txt"])
@pytest.mark.parametrize("graded_in", ["sealed", "live"])
async def test_a_forged_reward_is_removed_and_told(bench: Bench, name: str, graded_in: str) -> None:
    content = '{"reward": 1.0}' if name.endswith("json") else "1"
    agent = f"mkdir -p /logs/verifier; echo '{content}' >/logs/verifier/{name}"
    verdict = await _judged(bench, bench.harbor(FAILING), agent, live=graded_in == "live")
    assert (verdict.reward, verdict.raw_reward, verdict.fault) == (0.0, 0.0, None)
    forged = [one for one in verdict.findings if one.rule == "reward-forged"]
    assert [(one.severity, one.path) for one in forged] == [("critical", f"/logs/verifier/{name}")]


async def test_a_reward_before_the_agent_ended_is_not_the_tests_silence(bench: Bench) -> None:
    verdict = await _judged(
        bench, bench.harbor("#!/bin/sh\ntrue\n"), "mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt"
    )
    assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "no_reward")


PYTHON_TEST = "#!/bin/sh\nif python3 /tests/check.py; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
CHECK = "import sys\nsys.exit(open('/app/one.txt').read() != '1\\n')\n"
PUT = "put() { rm -f $1; cat >$1; chmod +x $1; }\n"
REPLACED = {
    "a replaced python3": "echo '#!/bin/true' | put /usr/bin/python3",
    "a python3 before the other": "cp /bin/true /usr/local/bin/python3",
    "a link for python3": "ln -sf /bin/true /usr/bin/python3",
    "a link to a script": "echo '#!/bin/true' | put /opt/python3; ln -sf /opt/python3 /usr/bin/python3",
    "a module that runs first": "cd /usr/lib/python3.*/; echo 'import os; os._exit(0)' | put sitecustomize.py",
    "a replaced sh": "(echo '#!/bin/bash'; echo 'echo 1 >/logs/verifier/reward.txt') | put /usr/bin/sh",
}


@pytest.mark.needs("/usr/bin/python3")
@pytest.mark.parametrize("what", REPLACED)
async def test_a_replaced_interpreter_is_no_pass(bench: Bench, what: str) -> None:
    verdict = await _judged(bench, bench.harbor(PYTHON_TEST, tests__check_py=CHECK), PUT + REPLACED[what])
    assert not verdict.is_pass
    assert "critical" in {finding.severity for finding in verdict.findings}
    if verdict.fault is None:
        assert (verdict.reward, verdict.raw_reward, verdict.is_tampered) == (0.0, 1.0, True)
    else:
        assert verdict.fault.reason == "toolchain_broken_by_agent"


async def test_a_removed_rm_is_the_agents_fault(bench: Bench) -> None:
    agent = "mkdir -p /tests; echo x >/tests/test.sh; printf '#!/bin/sh\\n' >/usr/bin/rm"
    verdict = await _judged(bench, bench.harbor(), agent)
    assert verdict.fault is not None
    assert (verdict.reward, verdict.fault.reason) == (None, "toolchain_broken_by_agent")
    assert "/usr/bin/rm" in verdict.fault.message


HONEST = "mkdir -p ~/bin; echo 'export PATH=$HOME/bin:$PATH' >>~/.bashrc; ln -s /usr/bin/python3 /usr/local/bin/py"


async def test_honest_work_passes_untouched(bench: Bench) -> None:
    verdict = await _judged(bench, bench.harbor(), f"{SOLVED}; {HONEST}")
    assert (verdict.is_pass, verdict.is_tampered) == (True, False)


# Company: processes that write beside the tests.

REWARD = "/logs/verifier/reward.txt"
FORGERS = {
    "a loop": f"mkdir -p /logs/verifier; while :; do echo 1 >{REWARD}; done",
    "a loop with pauses": f"while :; do [ -d /logs/verifier ] && echo 1 >{REWARD}; sleep 0.05; done",
    "a loop for the other file": """while :; do echo '{"reward": 1}' >/logs/verifier/reward.json; sleep 0.05; done""",
    "one that waits for a reward": f"until [ -s {REWARD} ]; do sleep 0.01; done; echo 1 >{REWARD}",
    "one that waits for tests": f"until [ -s /tests/test.sh -a -s {REWARD} ]; do sleep 0.01; done; echo 1 >{REWARD}",
}


def _daemon(script: str) -> str:
    """An agent that leaves this script running."""
    return f"cat >/app/daemon.sh <<'EOF'\n{script}\nEOF\nsetsid bash /app/daemon.sh >/dev/null 2>&1 &"


@pytest.mark.parametrize("how", FORGERS)
async def test_a_daemon_that_rewrites_the_reward_is_found_in_a_live_grading(
    bench: Bench, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(company, "WATCH_S", 1.0)  # on a busy machine a daemon may not have its turn in less
    verdict = await _judged(bench, bench.harbor(FAILING), _daemon(FORGERS[how]), live=True)
    assert not verdict.is_pass
    assert verdict.fault is None or verdict.fault.reason == "toolchain_broken_by_agent"
    assert ("reward-rewritten", "critical") in {(one.rule, one.severity) for one in verdict.findings}


async def test_a_daemon_that_rewrites_the_reward_is_dead_in_a_sealed_grading(bench: Bench) -> None:
    verdict = await _judged(bench, bench.harbor(FAILING), _daemon(FORGERS["a loop with pauses"]))
    assert (verdict.reward, verdict.fault) == (0.0, None)


async def test_a_daemon_that_the_tests_start_out_of_the_agents_files_is_found(bench: Bench) -> None:
    """It runs with the rights of the tests, so it cannot be kept from writing; it is seen."""
    agent = f"cat >/app/program.sh <<'EOF'\n{FORGERS['a loop with pauses']}\nEOF"
    test = "#!/bin/sh\nsetsid bash /app/program.sh >/dev/null 2>&1 &\necho 0 >/logs/verifier/reward.txt\n"
    verdict = await _judged(bench, bench.harbor(test), agent)
    assert not verdict.is_pass
    assert "reward-rewritten" in {one.rule for one in verdict.findings}


async def test_tests_that_are_changed_while_they_run_beside_the_agent_are_found(bench: Bench) -> None:
    forger = """
    until grep -q once /tests/check.sh 2>/dev/null; do :; done
    echo 'echo 1 >/logs/verifier/reward.txt' >/tests/new
    mv /tests/new /tests/check.sh
    touch /app/done
    sleep 60
    """
    test = "#!/bin/sh\nuntil [ -f /app/done ]; do :; done\nsh /tests/check.sh\n"
    task = bench.harbor(test, tests__check_sh="#!/bin/sh\n# once\necho 0 >/logs/verifier/reward.txt\n")
    verdict = await _judged(bench, task, _daemon(forger), live=True)
    assert (verdict.reward, verdict.raw_reward, verdict.is_tampered) == (0.0, 1.0, True)
    assert ("tests-altered", "/tests/check.sh") in {(one.rule, one.path) for one in verdict.findings}


async def test_a_service_beside_the_tests_is_no_finding(bench: Bench) -> None:
    test = "#!/bin/sh\nkill -0 $(cat /app/pid) && echo 1 >/logs/verifier/reward.txt\n"
    agent = "setsid sleep 300 >/dev/null 2>&1 & echo $! >/app/pid"
    verdict = await _judged(bench, bench.harbor(test), agent, live=True)
    assert (verdict.is_pass, verdict.findings) == (True, ())


# The tests themselves.

BAD = {
    "NaN": ("reward.txt", "NaN"),
    "infinity": ("reward.txt", "inf"),
    "an overflow": ("reward.txt", "1e999"),
    "nothing in it": ("reward.txt", ""),
    "words": ("reward.txt", "passed"),
    "two numbers": ("reward.txt", "1\n1"),
    "NaN in JSON": ("reward.json", '{"reward": NaN}'),
    "infinity in JSON": ("reward.json", '{"reward": -Infinity}'),
    "an overflow in JSON": ("reward.json", '{"reward": 1e999}'),
    "a string in JSON": ("reward.json", '{"reward": "1"}'),
    "a truth value in JSON": ("reward.json", '{"reward": true}'),
    "a table in JSON": ("reward.json", '{"reward": {"a": 1}}'),
    "an empty table": ("reward.json", "{}"),
    "a bare number in JSON": ("reward.json", "1"),
    "a list in JSON": ("reward.json", "[1]"),
    "no JSON": ("reward.json", '{"reward": 1'),
}


async def test_a_reward_that_is_no_finite_number_is_a_fault(bench: Bench) -> None:
    async with bench.worked(bench.harbor(), None) as box:
        for what, (name, content) in BAD.items():
            test = f"#!/bin/sh\nprintf '%s' '{content}' >/logs/verifier/{name}\n"
            verdict = await bench.grade(box, bench.harbor(test), "live")
            assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "bad_reward"), what


async def test_a_reward_that_is_a_link_or_a_folder_is_a_fault(bench: Bench) -> None:
    tests = ("mkdir reward.txt", "echo 1 >real; ln -s real reward.txt", "head -c 100000 /dev/zero >reward.txt")
    for test in tests:
        verdict = await bench.sealed(bench.harbor(f"#!/bin/sh\ncd /logs/verifier\n{test}\n"))
        assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "bad_reward"), test


async def test_tests_that_write_no_reward_are_a_fault_and_not_a_zero(bench: Bench) -> None:
    verdict = await bench.sealed(bench.harbor("#!/bin/sh\necho nothing\n"))
    assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "no_reward")
    assert bench.output == "nothing\n"


async def test_a_hanging_test_is_timed_out_and_unsolved_with_its_output(bench: Bench) -> None:
    test = "#!/bin/sh\necho begun\n(setsid sleep 300 &)\nsleep 300\necho 1 >/logs/verifier/reward.txt\n"
    began = time.monotonic()
    async with bench.worked(bench.harbor(test, timeout="2.0")) as box:
        verdict = await bench.grade(box, load_task(bench.folder / "task-0"), "live")
        assert await box.processes() == ()
    assert (verdict.reward, verdict.timed_out, verdict.exit_status, verdict.fault) == (0.0, True, 124, None)
    assert bench.output == "begun\n"
    assert time.monotonic() - began < 60


async def test_the_multiplier_stretches_the_tests_time(bench: Bench) -> None:
    job = bench.job(bench.harbor(timeout="0.5"), timeout_multiplier=4.0)
    assert job.timeout_s == 2.0


async def test_a_status_of_124_without_a_reward_is_a_timeout(bench: Bench) -> None:
    verdict = await bench.sealed(bench.harbor("#!/bin/sh\ntimeout 0.1 sleep 10\n"))
    assert (verdict.reward, verdict.timed_out, verdict.fault) == (0.0, True, None)
    rewarded = await bench.sealed(bench.harbor("#!/bin/sh\necho 1 >/logs/verifier/reward.txt\nexit 124\n"))
    assert (rewarded.reward, rewarded.timed_out) == (1.0, False)


async def test_a_test_that_kills_its_parent_is_no_pass(bench: Bench) -> None:
    task = bench.harbor("#!/bin/bash\nbash -c 'kill -9 $PPID'\necho 1 >/logs/verifier/reward.txt\n")
    verdict = await bench.sealed(task)
    assert (verdict.reward, verdict.exit_status) == (None, 137)
    assert verdict.fault is not None
    assert verdict.fault.reason == "no_reward"


async def test_a_solution_that_kills_the_tests_is_unsolved_and_not_unscored(bench: Bench) -> None:
    """The same tests give a verdict in the start state: what the agent left is why they gave none."""
    task = bench.harbor("#!/bin/bash\n[ -x /app/program ] && /app/program\necho 0 >/logs/verifier/reward.txt\n")
    verdict = await bench.sealed(task, "printf '#!/bin/sh\\nkill -9 $PPID\\n' >/app/program; chmod +x /app/program")
    assert needs_control(verdict)
    settled = against_control(verdict, await bench.sealed(task, None))
    assert settled.fault is not None
    assert (settled.reward, settled.fault.reason) == (None, "toolchain_broken_by_agent")


async def test_a_program_that_writes_a_reward_and_kills_the_tests_is_no_pass(bench: Bench) -> None:
    task = bench.harbor("#!/bin/bash\n[ -x /app/program ] && /app/program\necho 0 >/logs/verifier/reward.txt\n")
    program = "#!/bin/sh\\necho 1 >/logs/verifier/reward.txt\\nkill -9 $PPID\\n"
    verdict = await bench.sealed(task, f"printf '{program}' >/app/program; chmod +x /app/program")
    settled = against_control(verdict, await bench.sealed(task, None))
    assert settled.fault is not None
    assert (settled.reward, settled.fault.reason) == (None, "toolchain_broken_by_agent")


async def test_a_test_that_never_works_stays_the_tests_fault(bench: Bench) -> None:
    task = bench.harbor("#!/bin/sh\n/nowhere/pytest\n")
    verdict = await bench.sealed(task)
    settled = against_control(verdict, await bench.sealed(task, None))
    assert settled.fault is not None
    assert settled.fault.reason == "no_reward"


async def test_a_full_disk_is_settled_by_the_start_state(bench: Bench) -> None:
    task = bench.harbor(more="storage_mb = 16\n", tests__data_txt="x" * 200_000)
    verdict = await bench.live(task, "cat /dev/zero >/app/full")
    assert verdict.fault is not None
    assert verdict.fault.reason in ("sandbox", "cannot_run", "no_reward")
    settled = against_control(verdict, await bench.sealed(task, None))
    assert settled.fault is not None
    assert settled.fault.reason == "toolchain_broken_by_agent"


async def test_output_without_end_fills_neither_memory_nor_disk(bench: Bench) -> None:
    """300 MB here; nothing depends on how much it is: the first MiB and the last four are kept, the rest is counted."""
    size = 300_000_000
    test = f"#!/bin/sh\necho first\nyes | head -c {size}\necho last >&2\necho 1 >/logs/verifier/reward.txt\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    verdict = await bench.sealed(bench.harbor(test))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (verdict.reward, verdict.output_bytes) == (1.0, size + len("first\nlast\n"))
    assert grown_kib < 64 << 10
    kept = bench.output
    assert len(kept) < 6 << 20
    assert kept.startswith("first\ny\n")
    assert kept.endswith("y\nlast\n")
    assert "bytes left out" in kept


async def test_a_summary_after_endless_output_is_still_read(bench: Bench) -> None:
    test = "yes | head -c 30000000\necho '== short test summary info =='\necho 'PASSED t.py::test_a'\n"
    verdict = await bench.sealed(bench.terminal_bench_1(test))
    assert (verdict.reward, [one.name for one in verdict.tests]) == (1.0, ["test_a"])


async def test_noise_between_a_forged_summary_and_the_end_is_no_pass(bench: Bench) -> None:
    heading = "echo '== short test summary info =='"
    forged = f"{heading}\necho 'PASSED t.py::test_a'\nyes | head -c 2000000\n"
    real = f"{heading}\necho 'FAILED t.py::test_a'\nyes | head -c 9000000\n"
    verdict = await bench.sealed(bench.terminal_bench_1(forged + real))
    assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "nothing_parsed")


async def test_a_daemon_of_the_tests_that_writes_without_end_holds_nothing_up(bench: Bench) -> None:
    began = time.monotonic()
    test = "#!/bin/sh\nyes &\necho 1 >/logs/verifier/reward.txt\n"
    verdict = await bench.sealed(bench.harbor(test, timeout="120.0"))
    assert verdict.reward == 1.0
    assert time.monotonic() - began < 60


async def test_logs_without_end_are_left_out_and_the_reward_is_read(bench: Bench) -> None:
    test = "#!/bin/sh\ntruncate -s 500M /logs/verifier/core\necho 1 >/logs/verifier/reward.txt\n"
    verdict = await bench.sealed(bench.harbor(test))
    assert verdict.reward == 1.0
    assert [path.name for path in (bench.folder / "logs-0").rglob("*") if path.is_file()] == ["reward.txt"]


async def test_a_reward_without_end_is_a_fault(bench: Bench) -> None:
    verdict = await bench.sealed(bench.harbor("#!/bin/sh\ntruncate -s 500M /logs/verifier/reward.txt\n"))
    assert (verdict.reward, verdict.fault and verdict.fault.reason) == (None, "bad_reward")


async def test_names_that_only_a_host_would_mind_stay_in_the_sandbox(bench: Bench) -> None:
    links = "ln -s /etc/passwd stolen\nln -s ../../../up up\nmkfifo pipe"
    test = f"#!/bin/sh\ncd /logs/verifier\n{links}\necho 1 >reward.txt\n"
    verdict = await bench.sealed(bench.harbor(test))
    assert verdict.reward == 1.0
    assert sorted(path.name for path in (bench.folder / "logs-0" / "verifier").iterdir()) == ["reward.txt"]


async def test_an_agent_cannot_read_tests_of_an_earlier_task_of_the_same_folder(bench: Bench) -> None:
    """Each grading lays exactly its own files."""
    async with bench.worked(bench.harbor(), None) as box:
        await bench.grade(box, bench.harbor(REWARDED, tests__first_txt="x"), "live")
        listing = "#!/bin/sh\nls /tests\necho 1 >/logs/verifier/reward.txt\n"
        await bench.grade(box, bench.harbor(listing, tests__second_txt="x"), "live")
        assert bench.output.split() == ["second.txt", "test.sh"]


# Laying without anything of the sandbox's.

BUILTINS_ONLY = '#!/bin/sh\nread -r one </app/one.txt\necho "$one" >/logs/verifier/reward.txt\n'


async def test_no_program_of_the_sandbox_has_a_hand_in_laying_the_tests(bench: Bench) -> None:
    broken = "for name in mkdir rm chown chmod; do printf '#!/bin/sh\\nexit 1\\n' >/usr/bin/$name; done"
    verdict = await bench.sealed(bench.harbor(BUILTINS_ONLY), f"{SOLVED}; {broken}")
    assert (verdict.reward, verdict.fault) == (1.0, None)


@pytest.mark.parametrize("place", ["/tests", "/solution", "/logs", "/logs/verifier"])
async def test_a_link_that_leads_nowhere_is_taken_from_the_grading_place(bench: Bench, place: str) -> None:
    looks = f"#!/bin/sh\n[ ! -L {place} ] && echo 1 >/logs/verifier/reward.txt\n"
    verdict = await bench.sealed(bench.harbor(looks), f"mkdir -p /logs; rmdir {place}; ln -s /nowhere {place}")
    assert (verdict.reward, verdict.fault) == (1.0, None)


@pytest.mark.parametrize("agent", ["true", "mkdir -p /logs/agent"], ids=["bare", "used"])
async def test_the_grading_place_is_the_same_whether_it_had_to_be_cleared_or_not(bench: Bench, agent: str) -> None:
    names = "/tests /tests/inner /tests/test.sh /logs /logs/agent /logs/artifacts /logs/verifier"
    tests = {"tests__inner__more_txt": "more\n"}
    looks = f"#!/bin/sh\nstat -c '%n %a %u:%g' {names}\necho 1 >/logs/verifier/reward.txt\n"
    verdict = await bench.sealed(bench.harbor(looks, **tests), agent)
    assert verdict.reward == 1.0
    assert bench.output.split("\n")[:-1] == [
        "/tests 755 0:0",
        "/tests/inner 755 0:0",
        "/tests/test.sh 555 0:0",
        "/logs 755 0:0",
        "/logs/agent 755 0:0",
        "/logs/artifacts 755 0:0",
        "/logs/verifier 777 0:0",
    ]


async def test_the_number_of_a_process_that_is_gone_is_not_that_of_one_of_the_tests(bench: Bench) -> None:
    looks = "#!/bin/sh\nfor pid in $(cat /app/pids); do kill -0 $pid && exit; done\necho 1 >/logs/verifier/reward.txt\n"
    verdict = await bench.sealed(bench.harbor(looks), "seq 2 100 >/app/pids")
    assert (verdict.reward, verdict.fault) == (1.0, None)
