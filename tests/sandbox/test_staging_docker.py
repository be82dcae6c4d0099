"""Start states of tasks on a container engine: images built once, from every format, and whose fault a failure is."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from sandbox.docker_support import left_over
from sandbox.support import out
from support.folders import harbor, simple, terminal_bench_1
from termarena.core.errors import BuildError, BuildTimeout, CapabilityMissing, EngineError, ImageError, Unhealthy
from termarena.sandbox.docker import DockerDriver
from termarena.sandbox.docker.address import find_address
from termarena.sandbox.docker.compose import ComposeSandbox
from termarena.sandbox.docker.sweeping import ask
from termarena.sandbox.staging import Stage
from termarena.tasks import load_task
from termarena.tasks.files import FileTree, TreeFile
from termarena.tasks.model import BareRecipe, Environment, Healthcheck, NetworkPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.needs("docker")

BASE = "FROM debian:bookworm\n"


def environment(dockerfile: str, files: dict[str, str] | None = None, **rest: object) -> Environment:
    everything = {"Dockerfile": dockerfile, **(files or {})}
    context = FileTree.of(TreeFile.inline(name, text.encode()) for name, text in everything.items())
    asked = {"network": NetworkPolicy(mode="none"), **rest}
    return Environment(context=context, **asked)  # type: ignore[arg-type]  # the fields of Environment


@pytest.fixture
async def lines() -> list[str]:
    return []


@pytest.fixture
async def engine(tmp_path: Path, lines: list[str]) -> AsyncIterator[DockerDriver]:
    async with DockerDriver(home=tmp_path / "home", on_log=lines.append) as made:
        yield made
    assert left_over(tmp_path / "home") == []


@pytest.fixture
async def stage(engine: DockerDriver) -> AsyncIterator[Stage]:
    made = Stage(engine)
    yield made
    await made.aclose()


async def test_concurrent_trials_share_one_build(stage: Stage, tmp_path: Path, lines: list[str]) -> None:
    wanted = environment(f"{BASE}WORKDIR /here\nRUN echo {tmp_path} >/unique\nUSER nobody\n", {"a": "b"}, cpus=1)
    states = await asyncio.gather(*(stage.prepare(wanted, folder=tmp_path, task="t") for _ in range(4)))
    assert sum(line.startswith("Step 1/") for line in lines) == 1
    assert sorted(state.was_cached for state in states) == [False, True, True, True]
    assert len({state.image_digest for state in states}) == 1
    assert states[0].digest.startswith("sha256:")
    assert not states[0].is_host_root
    assert states[0].spec.limits.cpus == 1
    again = await Stage(stage._driver).prepare(wanted, folder=tmp_path, task="t")  # noqa: SLF001 - another run
    assert again.was_cached
    assert again.image_digest == states[0].image_digest
    async with states[0].start() as one, states[1].start() as other:
        assert await out(one, "cat /unique; pwd; id -un") == f"{tmp_path}\n/here\nnobody"
        await one.write("/unique", b"changed")
        assert await out(other, "cat /unique") == str(tmp_path)
    image = ask(find_address(), "GET", f"/images/{states[0].image_digest}/json")
    assert image["Id"] == states[0].image_digest


async def test_formats(stage: Stage, tmp_path: Path) -> None:
    terminal_bench_1(tmp_path / "one", Dockerfile=f"{BASE}WORKDIR /app\nCOPY data.txt /app/data.txt\n")
    toml = harbor(tmp_path / "two")
    (toml / "environment/Dockerfile").write_text(f"{BASE}WORKDIR /app\nCOPY sub /app/sub\n")
    (toml / "environment/sub").mkdir()
    (toml / "environment/sub/file").write_text("of harbor\n")
    plain = simple(tmp_path / "three")
    document = (plain / "metadata.json").read_text().replace("python:3.11-slim", "debian:bookworm")
    (plain / "metadata.json").write_text(document)
    expected = {"one": "/app\ndata", "two": "/app\nof harbor", "three": "/workspace\nempty"}
    for name, shown in expected.items():
        task = load_task(tmp_path / name)
        state = await stage.prepare(task.environment, folder=tmp_path / name, task=task.id)
        async with state.start() as box:
            looked = await out(box, "pwd; cat data.txt sub/file 2>/dev/null || echo empty")
            assert looked.removesuffix("\nempty" if name != "three" else "") == shown
            assert await out(box, "ls -d /tests /solution /app/solution.sh 2>/dev/null | wc -l") == "0"


@pytest.mark.parametrize(
    ("dockerfile", "cause", "step"),
    [
        ("RUN echo said; exit 3\n", "task", "RUN echo said; exit 3"),
        ("COPY missing /x\n", "task", "COPY missing /x"),
        ("FROB x\n", "task", ""),
        ("FROM localhost:1/no/such:image\n", "infra", "FROM localhost:1/no/such:image"),
        ("ADD http://127.0.0.1:1/x /x\n", "infra", "ADD http://127.0.0.1:1/x /x"),
    ],
)
async def test_whose_fault_a_failed_build_is(
    stage: Stage, tmp_path: Path, dockerfile: str, cause: str, step: str
) -> None:
    with pytest.raises(BuildError) as caught:
        await stage.prepare(environment(BASE + dockerfile), folder=tmp_path, task="t")
    assert caught.value.cause == cause
    assert caught.value.step.endswith(step)


async def test_a_context_without_a_dockerfile(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(CapabilityMissing, match="no Dockerfile"):
        await stage.prepare(Environment(bare=BareRecipe(requires=())), folder=tmp_path, task="t")


async def test_an_image_that_cannot_be_had(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        await stage.prepare(Environment(image="localhost:1/no/such:image"), folder=tmp_path, task="t")
    assert caught.value.cause == "infra"


async def test_an_engine_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    async with DockerDriver(home=tmp_path) as driver:
        with pytest.raises(EngineError):
            await Stage(driver).prepare(environment(BASE), folder=tmp_path, task="t")


async def test_a_build_beyond_its_time(engine: DockerDriver, tmp_path: Path) -> None:
    stage = Stage(engine, build_timeout_multiplier=0.01)
    began = time.monotonic()
    slow = environment(f"{BASE}RUN echo {tmp_path}; sleep 1000\n", build_timeout_s=100.0)
    with pytest.raises(BuildTimeout, match="within 1 s"):
        await stage.prepare(slow, folder=tmp_path, task="t")
    assert time.monotonic() - began < 30
    rows = ask(find_address(), "GET", "/containers/json")
    while any("sleep 1000" in row["Command"] and str(tmp_path) in row["Command"] for row in rows):
        rows = await asyncio.to_thread(ask, find_address(), "GET", "/containers/json")


async def test_a_healthcheck_that_never_passes(stage: Stage, tmp_path: Path) -> None:
    check = Healthcheck(command="test -e /never", interval_sec=0.05, retries=2)
    state = await stage.prepare(environment(BASE, healthcheck=check), folder=tmp_path, task="t")
    with pytest.raises(Unhealthy, match="failed 2 times"):
        async with state.start():
            raise AssertionError("started")


BEGIN = """#!/bin/sh
sleep 1000 >/dev/null 2>&1 &
echo "$WORD" >/begun
exec "$@"
"""


async def test_an_entrypoint_begins_the_sandbox_but_no_fork(stage: Stage, tmp_path: Path) -> None:
    dockerfile = f'{BASE}COPY begin.sh /begin.sh\nENTRYPOINT ["sh", "/begin.sh"]\n'
    wanted = environment(dockerfile, {"begin.sh": BEGIN}, env={"WORD": "given"})
    state = await stage.prepare(wanted, folder=tmp_path, task="t")
    async with state.start() as box:
        await out(box, "until [ -s /begun ]; do :; done")
        assert await box.read("/begun") == b"given\n"
        assert [one.argv for one in await box.processes()] == [("sleep", "1000")]
        await box.write("/begun", b"changed")
        await box.seal()
        assert await box.processes() == ()
        snapshot = await box.snapshot()
        async with stage._driver.start(snapshot) as fork:  # noqa: SLF001 - the test's own
            assert await fork.read("/begun") == b"changed"
            assert await fork.processes() == ()
        snapshot.close()


@pytest.mark.parametrize(
    ("entrypoint", "is_kept"),
    [('["sh", "-c", "while :; do date >/clock; done"]', True), ('["false"]', False)],
    ids=["works for itself", "ends at once"],
)
async def test_an_entrypoint_that_runs_no_words(
    stage: Stage, tmp_path: Path, entrypoint: str, *, is_kept: bool
) -> None:
    state = await stage.prepare(environment(f"{BASE}ENTRYPOINT {entrypoint}\n"), folder=tmp_path, task="t")
    async with state.start() as box:
        if is_kept:
            await out(box, "until [ -s /clock ]; do :; done")
        await box.write("/mine", b"x")
        await box.seal()
        before = [entry.path for entry in (await box.diff()).changes]
        assert before == (["/clock", "/mine"] if is_kept else ["/mine"])
        if is_kept:
            held = await box.read("/clock")
            await box.thaw()
            assert await box.read("/clock") == await box.read("/clock") == held


COMPOSE = """
services:
  main:
    depends_on: [web]
    volumes: ["./shared:/shared:ro"]
  web:
    build: {context: web, args: {WORD: built}}
    command: ["sh", "-c", "while :; do sleep 1; done"]
"""


@pytest.mark.slow
@pytest.mark.needs("docker", "docker-compose")
async def test_services_are_built_once(stage: Stage, tmp_path: Path, lines: list[str]) -> None:
    files = {
        "docker-compose.yaml": COMPOSE,
        "web/Dockerfile": f"{BASE}ARG WORD\nRUN echo $WORD {tmp_path} >/word\n",
        "shared/note": "for all",
    }
    wanted = environment(f"{BASE}RUN echo {tmp_path} >/unique\nWORKDIR /w\n", files, compose="docker-compose.yaml")
    first, second = await asyncio.gather(*(stage.prepare(wanted, folder=tmp_path, task="t") for _ in range(2)))
    assert sum(line.startswith("Step 1/") for line in lines) == 2
    assert first.digest == second.digest
    assert first.image_digest is not None
    async with first.start() as box:
        assert isinstance(box, ComposeSandbox)
        assert await out(box, "cat /unique; pwd; cat /shared/note") == f"{tmp_path}\n/w\nfor all"
        assert await out(box.service("web"), "cat /word") == f"built {tmp_path}"
        await box.write("/state", b"of the agent")
        await box.freeze()
        assert {one.state for one in await box.service("web").processes()}
        snapshot = await box.snapshot()
        await snapshot.save(tmp_path / "saved.tar")
        await box.thaw()
        assert (await box.usage()).cpu_s is not None
    assert sum(line.startswith("Step 1/") for line in lines) == 2
    loaded = stage._driver.load(tmp_path / "saved.tar")  # noqa: SLF001 - the test's own
    for taken in (snapshot, loaded):
        async with stage._driver.start(taken) as fork:  # noqa: SLF001 - the test's own
            assert await fork.read("/state") == b"of the agent"
        taken.close()
