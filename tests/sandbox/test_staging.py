"""Start states of tasks: made once, shared, forked, told whose fault a failure is."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from sandbox.support import out
from support.folders import simple
from termarena.core.errors import BuildTimeout, CapabilityMissing, ImageError, TaskError, Unhealthy, UsageError
from termarena.sandbox.bare import bare_spec, prepare_bare
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.staged import stage_below, staged, staging, sweep_staged
from termarena.sandbox.staging import KEPT_ALIVE, Stage
from termarena.tasks import load_task
from termarena.tasks.files import FileTree, TreeFile
from termarena.tasks.model import BareRecipe, Environment, Healthcheck, NetworkPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SETUP = (
    b'#!/bin/sh\nset -e\ncp "$(dirname "$0")/files/a" /app/a\necho $$ >/app/pid\necho "$WORD" >/app/word\n'
    b"mkdir /etc/own\nrm /etc/issue\nsleep 1000 >/dev/null 2>&1 &\n"
)


def environment(setup: bytes = SETUP, **rest: object) -> Environment:
    files = FileTree.of([TreeFile.inline("setup.sh", setup), TreeFile.inline("files/a", b"content")])
    recipe = BareRecipe(requires=("sh",), setup="setup.sh")
    asked = {"env": {"WORD": "${WORD:-none}"}, "network": NetworkPolicy(mode="none"), **rest}
    return Environment(context=files, bare=recipe, **asked)  # type: ignore[arg-type]  # the fields of Environment


@pytest.fixture
async def embedded(sandbox_home: Path) -> AsyncIterator[NamespaceDriver]:
    async with NamespaceDriver(home=sandbox_home) as made:
        yield made


@pytest.fixture
async def stage(embedded: NamespaceDriver) -> AsyncIterator[Stage]:
    made = Stage(embedded)
    yield made
    await made.aclose()


async def test_concurrent_trials_share_one_setup(embedded: NamespaceDriver, tmp_path: Path) -> None:
    lines: list[str] = []
    stage = Stage(embedded, on_log=lines.append)
    asked = [stage.prepare(environment(), folder=tmp_path, task="t") for _ in range(8)]
    states = await asyncio.gather(*asked)
    assert sum("made in" in line for line in lines) == 1
    assert sorted(state.was_cached for state in states) == [False, *[True] * 7]
    assert len({state.digest for state in states}) == 1
    assert states[0].is_host_root
    assert states[0].image_digest is None
    pids = set()
    for state in states:
        async with state.start() as box:
            pids.add(await box.read("/app/pid"))
            await box.write("/app/pid", b"changed")
            assert await box.processes() == ()
    assert len(pids) == 1
    assert len(embedded.list()) == 1
    await stage.aclose()
    assert embedded.list() == ()


async def test_a_fork_equals_a_fresh_set_up(embedded: NamespaceDriver, stage: Stage, tmp_path: Path) -> None:
    wanted = environment(SETUP.replace(b"echo $$", b"echo 1"), workdir="/srv/here")
    state = await stage.prepare(wanted, folder=tmp_path, task="t")
    listing = (
        "find / -xdev -not -path '/proc/*' -not -path '/sys/*' -not -path '/usr/*'"
        " -printf '%p %y %m %u %g %l\\n' | sort; find /app /etc -type f | sort | xargs cksum"
    )
    async with embedded.start(bare_spec(wanted)) as fresh, state.start() as fork:
        await prepare_bare(fresh, wanted)
        assert (await fork.diff()).changes == ()
        assert (await fork.exec(["pwd"])).stdout == b"/srv/here\n"
        theirs, ours = await out(fresh, listing), await out(fork, listing)
        assert len(ours.splitlines()) > 100
        assert ours == theirs


async def test_limits_of_the_task_hold_in_a_fork(stage: Stage, tmp_path: Path) -> None:
    wanted = environment(cpus=1, memory_mb=1536, storage_mb=64, env={"WORD": "said"})
    state = await stage.prepare(wanted, folder=tmp_path, task="t")
    assert (state.spec.limits.cpus, state.spec.limits.memory_bytes) == (1, 1536 << 20)
    assert state.spec.limits.disk_bytes == 64 << 20
    assert state.spec.network.mode == "none"
    async with state.start() as box:
        assert await box.read("/app/word") == b"said\n"
        assert await out(box, "echo $WORD") == "said"
        assert box.spec == state.spec
    changed = state.spec.model_copy(update={"env": {"WORD": "other"}, "workdir": "/etc"})
    async with state.start(spec=changed) as box:
        assert await out(box, "echo $WORD; pwd") == "other\n/etc"
        assert await box.read("/app/word") == b"said\n"


async def test_variables_come_from_the_run_only(
    embedded: NamespaceDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "of the harness")
    wanted = environment(env={"WORD": "${TOKEN}"})
    with pytest.raises(UsageError, match="TOKEN"):
        await Stage(embedded).prepare(wanted, folder=tmp_path, task="t")
    stage = Stage(embedded, variables={"TOKEN": "given"})
    state = await stage.prepare(wanted, folder=tmp_path, task="t")
    async with state.start() as box:
        assert await out(box, "echo $WORD") == "given"
    await stage.aclose()


async def test_a_failing_setup_is_told_to_all_who_wait_and_tried_anew_later(stage: Stage, tmp_path: Path) -> None:
    lines: list[str] = []
    stage._on_log = lines.append  # noqa: SLF001 - to count
    wanted = environment(b"echo no luck >&2; exit 3\n")
    asked = [stage.prepare(wanted, folder=tmp_path, task="t") for _ in range(3)]
    failures = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(one, TaskError) and "status 3: no luck" in str(one) for one in failures)
    assert len(failures) == 3
    assert len(lines) == 1
    with pytest.raises(TaskError):
        await stage.prepare(wanted, folder=tmp_path, task="t")
    assert len(lines) == 2


async def test_a_setup_beyond_its_time(embedded: NamespaceDriver, stage: Stage, tmp_path: Path) -> None:
    slow = environment(b"sleep 1000\n", build_timeout_s=0.3)
    began = time.monotonic()
    with pytest.raises(BuildTimeout, match=r"t \(.*\): was not built within 0.3 s") as caught:
        await stage.prepare(slow, folder=tmp_path, task="t")
    assert time.monotonic() - began < 60
    assert isinstance(caught.value, TimeoutError)
    assert embedded.list() == ()


async def test_more_time_for_all(embedded: NamespaceDriver, tmp_path: Path) -> None:
    stage = Stage(embedded, build_timeout_multiplier=1e-4)
    with pytest.raises(BuildTimeout):
        await stage.prepare(environment(b"sleep 1000\n"), folder=tmp_path, task="t")
    await stage.aclose()


async def test_what_nobody_waits_for_is_given_up(embedded: NamespaceDriver, stage: Stage, tmp_path: Path) -> None:
    asked = [
        asyncio.create_task(stage.prepare(environment(b"echo >/app/x; sleep 1000\n"), folder=tmp_path, task="t"))
        for _ in range(2)
    ]
    while not await asyncio.to_thread(embedded.list):
        pass
    asked[0].cancel()
    await asyncio.wait({asked[0]})
    assert len(embedded.list()) == 1
    asked[1].cancel()
    await asyncio.wait({asked[1]})
    while await asyncio.to_thread(embedded.list):
        pass


async def test_a_task_without_a_recipe(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(CapabilityMissing, match="an image"):
        await stage.prepare(Environment(), folder=tmp_path, task="t")
    with pytest.raises(ImageError, match=r"compose\.yaml"):
        await stage.prepare(Environment(compose="compose.yaml"), folder=tmp_path, task="t")


async def test_a_simple_task(stage: Stage, tmp_path: Path) -> None:
    task = load_task(simple(tmp_path / "one"))
    state = await stage.prepare(task.environment, folder=tmp_path / "one", task=task.id)
    async with state.start() as box:
        assert await out(box, "pwd; ls -d /workspace") == "/workspace\n/workspace"


async def test_older_start_states_move_to_disk(embedded: NamespaceDriver, stage: Stage, tmp_path: Path) -> None:
    states = [
        await stage.prepare(environment(b"echo %d >/app/n\n" % number), folder=tmp_path, task="t")
        for number in range(KEPT_ALIVE + 2)
    ]
    assert len(embedded.list()) == KEPT_ALIVE
    for number in (0, 1, KEPT_ALIVE + 1):
        async with states[number].start() as box:
            assert await box.read("/app/n") == b"%d\n" % number


def _health(command: str, **rest: float) -> Environment:
    times = {"interval_sec": 0.05, "timeout_sec": 5.0, "start_interval_sec": 0.01, "retries": 3, **rest}
    return environment(healthcheck=Healthcheck(command=command, **times))  # type: ignore[arg-type]  # numbers


async def test_a_healthcheck_that_never_passes(embedded: NamespaceDriver, stage: Stage, tmp_path: Path) -> None:
    state = await stage.prepare(_health("echo not yet >&2; false"), folder=tmp_path, task="t")
    began = time.monotonic()
    with pytest.raises(Unhealthy, match="failed 3 times") as caught:
        async with state.start():
            raise AssertionError("started")
    assert 0.1 <= time.monotonic() - began < 20
    assert (caught.value.failures, caught.value.output) == (3, "not yet")
    assert len(embedded.list()) == 1


async def test_a_healthcheck_that_passes_in_the_end(stage: Stage, tmp_path: Path) -> None:
    counting = "echo x >>/tmp/tries; [ $(wc -l </tmp/tries) -ge 4 ]"
    state = await stage.prepare(_health(counting), folder=tmp_path, task="t")
    async with state.start() as box:
        assert await out(box, "wc -l </tmp/tries") == "4"
    patient = await stage.prepare(
        _health("echo x >>/tmp/tries; [ $(wc -l </tmp/tries) -ge 9 ]", start_period_sec=60.0), folder=tmp_path, task="t"
    )
    async with patient.start() as box:
        assert await out(box, "wc -l </tmp/tries") == "9"


async def test_a_healthcheck_that_hangs(stage: Stage, tmp_path: Path) -> None:
    state = await stage.prepare(_health("sleep 1000", timeout_sec=0.1, retries=1), folder=tmp_path, task="t")
    with pytest.raises(Unhealthy, match="failed 1 times"):
        async with state.start():
            raise AssertionError("started")


def test_what_a_living_harness_stages_is_not_swept(tmp_path: Path) -> None:
    stage_below(tmp_path)
    with staged("tests") as folder:
        (folder / "test.sh").touch()
        sweep_staged(tmp_path)
        assert (folder / "test.sh").exists()
        assert tmp_path in folder.parents
    assert list((tmp_path / "staged").iterdir()) == []


def test_a_harness_stages_in_one_folder_of_its_own_as_long_as_it_stages(tmp_path: Path) -> None:
    stage_below(tmp_path)
    (tmp_path / "elsewhere").mkdir(0o500)
    with staging(), staged("tests") as first:
        with staged("tests") as second:
            assert second.parent == first.parent
            (second / "closed/inner").mkdir(parents=True)
            (second / "closed/link").symlink_to(tmp_path / "elsewhere")
            (second / "closed/inner").chmod(0)
            (second / "closed").chmod(0)
        assert sorted(path.name for path in first.parent.iterdir() if path.is_dir()) == [first.name]
        assert [path.stat().st_mode & 0o777 for path in (first, first.parent)] == [0o700, 0o700]
    with staging():
        (kept,) = (tmp_path / "staged").iterdir()
        with staged("logs") as third:
            assert third.parent == kept
        sweep_staged(tmp_path)
        assert kept.is_dir()
    assert list((tmp_path / "staged").iterdir()) == []
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o500


def test_what_a_killed_harness_staged_is_swept_with_folders_closed_to_their_owner(tmp_path: Path) -> None:
    left = tmp_path / "staged/tests-1"
    (left / "closed/inner").mkdir(parents=True)
    (left / "lock").write_text("{}")
    for folder in (left / "closed/inner", left / "closed"):
        folder.chmod(0)
    sweep_staged(tmp_path)
    assert not left.exists()
