"""The docker driver's own parts: images, builds, engines near and far, what a killed harness leaves."""

from __future__ import annotations

import asyncio
import os
import random
import select
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.docker_support import left_over, shell_only_archive, ssh_engine, tls_engine
from sandbox.support import CONFORMANCE_ROOT
from termarena.core.errors import BuildError, CapabilityMissing, EngineError, ImageError, SandboxBroken, UsageError
from termarena.sandbox import Feature, Root, SandboxSpec
from termarena.sandbox.docker import Address, DockerDriver, parse_address
from termarena.sandbox.docker.build import Recipe, bases_of, context_digest
from termarena.sandbox.docker.census import Everyone, InnerCensus, LocalCensus
from termarena.sandbox.docker.container import from_top
from termarena.sandbox.docker.ignore import Ignored
from termarena.sandbox.docker.local import Local
from termarena.sandbox.docker.users import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

KILLS = int(os.environ.get("TERMARENA_DOCKER_KILL_ROUNDS", "3"))
needs_docker = pytest.mark.needs("docker")


def test_a_container_that_is_just_ending_has_no_processes() -> None:
    rows = [["20", "10", "20", "0", "Ss", "sleep 9"], ["10", "1", "10", "0", "Ssl", "sh -c x"]]
    seen = from_top({"Titles": [], "Processes": rows})
    assert [(one.pid, one.argv) for one in seen] == [(10, ("sh", "-c", "x")), (20, ("sleep", "9"))]
    assert from_top({"Titles": [], "Processes": None}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("unix:///run/x.sock", Address("unix", "/run/x.sock")),
        ("tcp://host:1234", Address("tcp", "host", 1234)),
        ("tcp://host", Address("tcp", "host", 2375)),
        ("ssh://me@host:22", Address("ssh", "me@host", 22)),
        ("ssh://host", Address("ssh", "host")),
    ],
)
def test_address(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "docker", "unix://relative", "npipe:////./pipe/x", "tcp://", "tcp://h:port"])
def test_address_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="no address"):
        parse_address(text)


def test_engine_that_is_not_there(tmp_path: Path) -> None:
    driver = DockerDriver(engine=Address("unix", str(tmp_path / "none.sock")), home=tmp_path)
    with pytest.raises(EngineError, match="No such file") as caught:
        driver.list()
    assert "doctor" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("lines", "path", "excluded"),
    [
        (["*.log"], "a.log", True),
        (["*.log"], "sub/a.log", False),
        (["**/*.log"], "sub/deep/a.log", True),
        (["sub"], "sub/deep/a", True),
        (["/sub/"], "sub/a", True),
        (["sub", "!sub/keep"], "sub/keep", False),
        (["# comment", ""], "comment", False),
        (["a?c"], "abc", True),
        (["[ab]c"], "bc", True),
    ],
)
def test_dockerignore(lines: list[str], path: str, *, excluded: bool) -> None:
    assert Ignored(lines).excludes(path, is_folder=False) is excluded


def test_context_digest_ignores_times_and_what_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / ".dockerignore").write_text("*.log\n")
    first = context_digest(tmp_path, Recipe())
    os.utime(tmp_path / "Dockerfile", (0, 0))
    (tmp_path / "x.log").write_text("noise")
    assert context_digest(tmp_path, Recipe()) == first
    (tmp_path / "file").write_text("x")
    assert context_digest(tmp_path, Recipe()) != first


def test_users_of_a_strange_passwd() -> None:
    passwd = b"broken\nroot:x:0:0::/root:/bin/sh\n:::\n\xff:x:5:6::/h:/bin/sh\nbob:x:7:8::/home/bob:/bin/sh\n"
    who = resolve("bob", passwd=passwd, group=b"staff:x:50:\n")
    assert (who.uid, who.gid, who.home) == (7, 8, "/home/bob")
    assert resolve("bob:staff", passwd=passwd, group=b"staff:x:50:\n").spelled == "7:50"
    assert resolve("99:98", passwd=passwd, group=b"").home == "/"


async def test_keeper_that_came_after_the_first_command() -> None:
    """Under load an init forks the container's own command after the first of ours has begun."""

    async def scan(command: list[str], expected: bytes) -> bytes:
        rows = ["1 S 0 1 0 8388608 1\n/sbin/init\0", "6 S 0 6 0 8386560 1\nsleep\0", "12 S 1 1 0 8388608 1\nkeeper\0"]
        return "".join(f"{row}\n{command[-1]}\n" for row in rows).encode() + expected

    census = InnerCensus("box", scan, has_keeper=True)
    assert [(one.pid, one.argv) for one in await census.living()] == [(6, ("sleep",))]


NEST = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
DEEP = [*NEST, "sh", "-c", "echo up; exec sleep 7213"]


@contextmanager
def _begun(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Once it has said that it is up; ended at last."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - our own words
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


@pytest.mark.needs("unshare")
@pytest.mark.usefixtures("as_root")
def test_processes_in_a_pid_namespace_of_their_own_are_ended_too() -> None:
    with _begun(DEEP) as apart, _begun([*NEST, "sh", "-c", f"{shlex.join(DEEP)}; exec sleep 7214"]) as outer:
        first = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        census = LocalCensus("box", Local(first, "no container"), has_keeper=False)
        between, deepest = asyncio.run(census.living())
        # As the outer namespace numbers them: its process 1 has a child, and that one the first of the inner namespace.
        assert (between.parent, deepest.parent, deepest.argv) == (1, between.pid, ("sleep", "7213"))
        assert asyncio.run(census.kill(Everyone())) == 2
        assert asyncio.run(census.living()) == []
        assert (apart.poll(), outer.poll()) == (None, None)


async def test_list_of_processes_that_breaks_off() -> None:
    async def scan(command: list[str], _: bytes) -> bytes:
        return f"1 S 0 1 0 8388608 1\n/sbin/init\0\n{command[-1]}\n".encode()

    with pytest.raises(SandboxBroken, match="cannot be listed"):
        await InnerCensus("box", scan, has_keeper=True).living()


@needs_docker
async def test_host_root_is_refused(tmp_path: Path) -> None:
    async with DockerDriver(home=tmp_path) as driver:
        with pytest.raises(CapabilityMissing, match="a container has an image"):
            async with driver.start(SandboxSpec()):
                raise AssertionError("started")


@needs_docker
async def test_image_that_does_not_exist(tmp_path: Path) -> None:
    root = Root(kind="image", image="127.0.0.1:9/termarena/none:never")
    async with DockerDriver(home=tmp_path) as driver:
        with pytest.raises(ImageError, match="cannot be pulled") as caught:
            async with driver.start(SandboxSpec(root=root)):
                raise AssertionError("started")
    assert "docker load" in str(caught.value.hint)
    assert left_over(tmp_path) == []


@needs_docker
async def test_build_that_fails_tells_the_step(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm\nRUN echo before\nRUN echo about-to-fail; exit 7\n")
    log: list[str] = []
    async with DockerDriver(home=tmp_path, on_log=log.append) as driver:
        with pytest.raises(BuildError, match="returned a non-zero code: 7") as caught:
            async with driver.start(SandboxSpec(root=Root(kind="dockerfile", path=tmp_path))):
                raise AssertionError("started")
    assert caught.value.step.startswith("Step 3/4 : RUN echo about-to-fail")
    assert "about-to-fail" in caught.value.log_tail
    assert any("before" in line for line in log)
    assert left_over(tmp_path) == []


@needs_docker
async def test_build_is_kept_until_the_context_changes(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian:bookworm\nCOPY word /word\nWORKDIR /srv/app\nENV MARK=kept\n")
    (tmp_path / "word").write_text(f"one {tmp_path}")
    log: list[str] = []
    spec = SandboxSpec(root=Root(kind="dockerfile", path=tmp_path))
    async with DockerDriver(home=tmp_path, on_log=log.append) as driver:
        async with driver.start(spec) as box:
            assert (await box.exec(["sh", "-c", "pwd; echo $MARK"])).stdout == b"/srv/app\nkept\n"
            await box.seal()
            snapshot, around = await box.snapshot(), await box.surroundings()
        async with driver.start(snapshot) as fork:
            assert await fork.surroundings() == around
        snapshot.close()
        assert (around.workdir, around.env["MARK"]) == ("/srv/app", "kept")
        assert log
        log.clear()
        async with driver.start(spec) as box:
            assert await box.read("/word") == f"one {tmp_path}".encode()
        assert log == []
        (tmp_path / "word").write_text("two")
        async with driver.start(spec) as box:
            assert await box.read("/word") == b"two"


@needs_docker
async def test_build_is_made_anew_when_its_base_is_another(tmp_path: Path) -> None:
    base, engine = f"termarena-base-{os.getpid()}:1", ["docker", "build", "-q", "-t"]
    (tmp_path / "task").mkdir()
    (tmp_path / "task/Dockerfile").write_text(f"ARG OF={base}\nFROM ${{OF}}\nENV MARK=kept\n")
    spec = SandboxSpec(root=Root(kind="dockerfile", path=tmp_path / "task"))
    seen = []
    async with DockerDriver(home=tmp_path / "home") as driver:
        for word in ("one", "one", "two"):
            recipe = f"FROM debian:bookworm\nRUN echo {word} > /word\n".encode()
            subprocess.run([*engine, base, "-"], input=recipe, check=True, capture_output=True)  # noqa: ASYNC221, S603 - the test's own engine
            prepared = await driver.prepare(spec)
            async with driver.start(prepared.spec) as box:
                seen.append(((await box.read("/word")).strip(), prepared.was_cached))
        subprocess.run(["docker", "rmi", "-f", base], check=True, capture_output=True)  # noqa: ASYNC221, S603, S607 - as above
    assert seen == [(b"one", False), (b"one", True), (b"two", False)]


def test_bases_of_a_dockerfile(tmp_path: Path) -> None:
    text = "ARG A=one:1\nARG B=two\nFROM --platform=linux/amd64 $A AS First\nFROM scratch\nfrom ${B}:2 as last\n"
    text += "COPY --from=first /x /y\nCOPY --chown=1:1 --from=three:3 /x /y\nCOPY --from=0 /a /b\nFROM $UNKNOWN\n"
    (tmp_path / "Dockerfile").write_text(text)
    assert bases_of(tmp_path / "Dockerfile", {"B": "given"}) == ("one:1", "given:2", "three:3")


@needs_docker
@pytest.mark.needs("busybox")
@pytest.mark.parametrize("allow_local", [True, False], ids=["near", "far"])
async def test_image_with_nothing_but_a_shell(tmp_path: Path, *, allow_local: bool) -> None:
    root = Root(kind="archive", path=shell_only_archive(tmp_path / "sh.tar"))
    async with (
        DockerDriver(home=tmp_path, allow_local=allow_local) as driver,
        driver.start(SandboxSpec(root=root)) as box,
    ):
        done = await box.exec(["/bin/sh", "-c", "read x; echo got $x; exit 4"], stdin=b"word\n")
        assert (done.stdout, done.exit_status) == (b"got word\n", 4)
        slow = await box.exec(["/bin/sh", "-c", "echo begun; while :; do :; done"], timeout_s=2)
        assert (slow.stdout, slow.timed_out, slow.exit_status) == (b"begun\n", True, 124)
        assert await box.processes() == ()
        await box.write("/deep/er/file", b"content")
        assert await box.read("/deep/er/file") == b"content"
        assert (await box.diff()).of("added") == ("/deep", "/deep/er", "/deep/er/file")
        pty = await box.open_pty(["/bin/sh", "-c", "exit 6"])
        assert (await pty.wait()).exit_status == 6
        pty.close()
    assert left_over(tmp_path) == []


@needs_docker
async def test_stop_does_not_wait_for_what_ignores_it(tmp_path: Path) -> None:
    async with (
        DockerDriver(home=tmp_path, default_root=CONFORMANCE_ROOT) as driver,
        driver.start(SandboxSpec()) as box,
    ):
        await box.exec(["sh", "-c", "(trap '' TERM INT HUP; while :; do sleep 1; done) >/dev/null 2>&1 &"])
        began = time.monotonic()
        await box.stop()
        assert time.monotonic() - began < 10  # an engine's own patience with what ignores its request


@needs_docker
async def test_container_removed_behind_our_back(tmp_path: Path) -> None:
    from termarena.sandbox.docker.sweeping import ask  # noqa: PLC0415 - only here

    async with (
        DockerDriver(home=tmp_path, default_root=CONFORMANCE_ROOT) as driver,
        driver.start(SandboxSpec()) as box,
    ):
        sleeping = asyncio.create_task(box.exec(["sleep", "60"]))
        while not await box.processes():
            pass
        await asyncio.to_thread(ask, driver.address, "DELETE", f"/containers/{box.container.id}", force=1)
        with pytest.raises(Exception, match="gone"):
            await sleeping
        assert not box.is_alive


@needs_docker
async def test_labels_tell_whose_it_is(tmp_path: Path) -> None:
    async with (
        DockerDriver(home=tmp_path, default_root=CONFORMANCE_ROOT, run_id="run-7") as driver,
        driver.start(SandboxSpec()) as box,
    ):
        told = (await box.container.engine.call("GET", f"/containers/{box.container.id}/json")).json()
    own = told["Config"]["Labels"]
    assert own["termarena.sandbox"] == box.id
    assert own["termarena.pid"] == str(os.getpid())
    assert own["termarena.run"] == "run-7"


@needs_docker
async def test_features_are_checked_before_start(tmp_path: Path) -> None:
    async with DockerDriver(home=tmp_path, default_root=CONFORMANCE_ROOT, allow_local=False) as driver:
        missing = driver.capabilities().missing
        assert Feature.NETWORK in missing
        with pytest.raises(CapabilityMissing, match="root on the engine's machine"):
            async with driver.start(SandboxSpec.model_validate({"network": {"mode": "allowlist"}})):
                raise AssertionError("started")


async def _check_engine(address: Address, home: Path, root: Root) -> None:
    async with DockerDriver(engine=address, home=home) as driver:
        async with driver.start(SandboxSpec(root=root)) as box:
            # The end of the input must arrive while the output is still open.
            done = await box.exec(["/bin/sh", "-c", "while read x; do last=$x; done; echo $last; echo e >&2"],
                                  stdin=b"1\n2\n3\n", timeout_s=60)  # fmt: skip
            assert (done.stdout, done.stderr, done.exit_status) == (b"3\n", b"e\n", 0)
            await box.write("/big", bytes(3_000_000))
            assert len(await box.read("/big")) == 3_000_000
            assert (await box.exec(["/bin/sh", "-c", "while :; do :; done"], timeout_s=0.5)).timed_out
            assert [record.id for record in driver.list()] == [box.id]
        assert driver.list() == ()


@needs_docker
@pytest.mark.needs("dockerd", "openssl", "ip", "busybox")
@pytest.mark.slow
async def test_engine_behind_tls(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    root = Root(kind="archive", path=shell_only_archive(tmp_path / "sh.tar"))
    with tls_engine(tmp_path / "engine") as address:
        await _check_engine(address, tmp_path, root)
        stranger = Address("tls", address.host, address.port, tmp_path)
        with pytest.raises(EngineError, match=r"(?i)certificate"):
            DockerDriver(engine=stranger, home=tmp_path).list()


@needs_docker
@pytest.mark.needs("/usr/sbin/sshd", "docker", "busybox")
@pytest.mark.slow
async def test_engine_behind_ssh(tmp_path: Path) -> None:
    root = Root(kind="archive", path=shell_only_archive(tmp_path / "sh.tar"))
    with ssh_engine(tmp_path) as address:
        await _check_engine(address, tmp_path, root)
        wrong = Address("ssh", "nobody-here@127.0.0.1", address.port, ssh_options=address.ssh_options)
        with pytest.raises(EngineError, match="Permission denied"):
            DockerDriver(engine=wrong, home=tmp_path).list()


@needs_docker
@pytest.mark.slow
@pytest.mark.timeout(60 + 60 * KILLS)
def test_killed_harness_leaves_nothing_on_the_engine(tmp_path: Path) -> None:
    moment = random.Random(KILLS)  # noqa: S311 - moments, not secrets
    for _ in range(KILLS):
        command = [sys.executable, str(Path(__file__).with_name("restless_docker.py")), str(tmp_path)]
        harness = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - our own program
        assert harness.stdout is not None
        reaper = os.pidfd_open(int(harness.stdout.readline()))
        # Nothing more is written: this only lets a random time pass.
        select.select([harness.stdout], [], [], moment.uniform(0, 1.5))
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        harness.stdout.close()
        ended, _, _ = select.select([reaper], [], [], 60)
        os.close(reaper)
        assert ended, "the reaper still runs"
        assert left_over(tmp_path) == []


@needs_docker
def test_sweep_removes_what_a_dead_harness_and_its_reaper_left(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("restless_docker.py")), str(tmp_path)]
    harness = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - our own program
    assert harness.stdout is not None
    os.kill(int(harness.stdout.readline()), signal.SIGKILL)
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    harness.stdout.close()
    driver = DockerDriver(home=tmp_path)
    assert [record.is_alive for record in driver.list()][:1] == [False]
    assert driver.sweep() >= 1
    # What the engine was still making comes to light a moment later.
    while driver.sweep():
        pass
    assert driver.list() == ()
