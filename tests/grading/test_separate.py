"""Separate graders: what is carried over, and what never is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import CapabilityMissing
from termarena.grading import GradingJob
from termarena.grading.separate import carry_over, collect
from termarena.sandbox import SandboxSpec
from termarena.tasks.model import Artifact, Collect, Grading

if TYPE_CHECKING:
    from grading.bench import Bench

pytestmark = pytest.mark.needs("user-namespaces")
WORK = """
mkdir -p /app/out/deep /logs/artifacts /logs/verifier /srv/data /tests
echo made >/app/out/deep/file; echo '#!/bin/sh' >/app/out/run.sh; chmod 750 /app/out/run.sh
echo junk >/app/out/junk.log; mkdir /app/out/cache; echo junk >/app/out/cache/x
ln -s deep/file /app/out/inner; ln -s /etc/passwd /app/out/outer; mkfifo /app/out/pipe
echo kept >/logs/artifacts/kept; echo 1 >/logs/verifier/reward.txt; echo evil >/tests/test.sh
printf '\\177ELF' >/app/program; chmod 711 /app/program; touch /app/empty
"""


async def test_artifacts_come_to_the_same_places_and_nothing_else_does(bench: Bench) -> None:
    task = bench.harbor()
    artifacts = [
        Artifact(source="/app/out", exclude=("*.log", "cache")),
        Artifact(source="/app/program"),
        Artifact(source="/app/empty"),
        Artifact(source="/app/never-made"),
        Artifact(source="/logs"),
        Artifact(source="/tests"),
    ]
    async with bench.worked(task, WORK) as box, bench.driver.start(SandboxSpec()) as own:
        await box.freeze()
        carried = await carry_over(box, own, artifacts, changes=await box.diff())
        done = await own.exec(
            ["sh", "-c", "find /app /logs /tests -type f -printf '%p %m\\n' -o -type l -print | sort"]
        )
    assert done.stdout.decode().split("\n")[:-1] == [
        "/app/empty 644",
        "/app/out/deep/file 644",
        "/app/out/inner",
        "/app/out/run.sh 750",
        "/app/program 711",
        "/logs/artifacts/kept 644",
    ]
    assert {one.source: one.state for one in carried} == {
        "/logs/artifacts": "carried",
        "/app/out": "carried",
        "/app/program": "carried",
        "/app/empty": "carried",
        "/app/never-made": "missing",
        "/logs": "carried",
        "/tests": "refused",
    }
    assert next(one.skipped for one in carried if one.source == "/app/out") == ("outer", "pipe")


async def test_a_separate_grader_judges_artifacts_in_a_box_the_agent_never_saw(bench: Bench) -> None:
    check = "grep -qx made /app/out/deep/file && [ ! -e /srv/data ]"
    test = f"#!/bin/sh\nif {check}; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
    task = bench.harbor(test, verifier='environment_mode = "separate"')
    for agent, reward in ((WORK, 1.0), ("cp /bin/true /usr/bin/grep; mkdir -p /app/out", 0.0)):
        async with bench.worked(task, agent) as box, bench.driver.start(SandboxSpec(workdir="/app")) as own:
            await collect(box, task.grading)
            await carry_over(box, own, [Artifact(source="/app/out")])
            job = GradingJob.of(task, output=bench.folder / "output-x")
            verdict = await bench.grader.grade(own, job, graded_in="separate")
        assert (verdict.reward, verdict.fault, verdict.graded_in) == (reward, None, "separate")


async def test_collect_commands_turn_live_state_into_files(bench: Bench) -> None:
    bench.need_users()
    grading = Grading(
        collect=(
            Collect(command="echo collected >/app/state; id -u", user="nobody", timeout_sec=5),
            Collect(command="exit 3"),
            Collect(command="sleep 60", timeout_sec=0.2),
        )
    )
    async with bench.worked(bench.harbor(), "chmod 777 /app") as box:
        done = await collect(box, grading)
        assert await box.read("/app/state") == b"collected\n"
    assert [(one.result.exit_status, one.result.timed_out) for one in done] == [(0, False), (3, False), (124, True)]
    assert done[0].result.stdout == b"65534\n"


async def test_a_service_that_a_box_does_not_have_is_refused(bench: Bench) -> None:
    async with bench.worked(bench.harbor(), None) as box, bench.driver.start(SandboxSpec()) as own:
        with pytest.raises(CapabilityMissing):
            await collect(box, Grading(collect=(Collect(command="true", service="database"),)))
        with pytest.raises(CapabilityMissing):
            await carry_over(box, own, [Artifact(source="/app", service="database")])


async def test_an_image_that_brings_its_tests_keeps_them(bench: Bench) -> None:
    """The grader's own image was built out of the tests' folder: nothing is laid over it."""
    task = bench.harbor(
        "#!/bin/sh\necho 0 >/logs/verifier/reward.txt\n",
        verifier='environment_mode = "separate"',
        tests__Dockerfile_="FROM debian:bookworm-slim\nCOPY . /tests\n",
    )
    job = GradingJob.of(task, output=bench.folder / "output-x")
    assert job.is_bundled
    async with bench.driver.start(SandboxSpec()) as own:
        await own.write("/tests/test.sh", b"#!/bin/sh\necho 0.75 >/logs/verifier/reward.txt\n", mode=0o755)
        verdict = await bench.grader.grade(own, job, graded_in="separate")
    assert (verdict.reward, verdict.fault) == (0.75, None)
