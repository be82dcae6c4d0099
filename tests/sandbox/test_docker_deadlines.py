"""Nothing waits for ever: engines that forget, fall silent or get stuck, and shells that do not end."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from sandbox.docker_support import free_port
from sandbox.lossy_engine import LossyEngine, lossy_engine
from sandbox.support import CONFORMANCE_ROOT, sh
from termarena.core.errors import EngineError, SandboxBroken
from termarena.sandbox import SandboxSpec
from termarena.sandbox.docker import Address, DockerDriver, census, endings, execs, streams, sweeping
from termarena.sandbox.docker.client import Engine, Request
from termarena.sandbox.docker.scripts import GATE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from termarena.sandbox.docker.box import DockerSandbox
    from termarena.sandbox.docker.census import Census, Group
    from termarena.sandbox.docker.local import Seen

needs_docker = pytest.mark.needs("docker")
LIMIT_S = 60.0
"""Far more than any of these takes, and less than the limit of a test, which would end the whole process."""


@asynccontextmanager
async def _lossy_box(folder: Path) -> AsyncIterator[tuple[LossyEngine, DockerSandbox]]:
    async with (
        lossy_engine(folder) as lossy,
        DockerDriver(engine=lossy.address, home=folder, default_root=CONFORMANCE_ROOT, allow_local=False) as driver,
        driver.start(SandboxSpec()) as box,
        asyncio.timeout(LIMIT_S),
    ):
        yield lossy, box


@asynccontextmanager
async def _far_box(folder: Path) -> AsyncIterator[DockerSandbox]:
    async with (
        DockerDriver(home=folder, default_root=CONFORMANCE_ROOT, allow_local=False) as driver,
        driver.start(SandboxSpec()) as box,
        asyncio.timeout(LIMIT_S),
    ):
        yield box


@needs_docker
async def test_end_that_no_event_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "ASK_S", 0.1)
    async with _lossy_box(tmp_path) as (lossy, box):
        lossy.forgets_exits = True
        result = await sh(box, "echo out; sleep 0.3; exit 3")
        assert (result.exit_status, result.stdout) == (3, b"out\n")
        assert (await sh(box, "sleep 60", timeout_s=0.2)).timed_out
        pty = await box.open_pty(["sh", "-c", "exit 6"])
        assert (await pty.wait()).exit_status == 6
        pty.close()


@needs_docker
async def test_events_go_on_when_their_connection_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "ASK_S", 2 * LIMIT_S)
    async with _lossy_box(tmp_path) as (lossy, box):
        for number in range(3):
            assert lossy.cut_events() == 1
            assert (await sh(box, f"exit {number}")).exit_status == number
        assert box.is_alive


@needs_docker
async def test_kill_in_a_container_that_has_ended(tmp_path: Path) -> None:
    async with (
        DockerDriver(home=tmp_path, default_root=CONFORMANCE_ROOT) as driver,
        driver.start(SandboxSpec()) as box,
        asyncio.timeout(LIMIT_S),
    ):
        begun = time.monotonic()
        await box.stop()
        if box.container.local is not None:
            assert await box.container.census.kill(census.Everyone()) == 0
        assert time.monotonic() - begun < 10


@needs_docker
async def test_a_container_that_ends_behind_a_terminal_that_nobody_waits_for_is_no_news(tmp_path: Path) -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    async with _far_box(tmp_path) as box:
        pty = await box.open_pty(["sleep", "60"])
        waiting = asyncio.ensure_future(pty.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await box.stop()
        ending = pty._ending  # noqa: SLF001 - to see its end without taking note of it
        assert ending is not None
        await asyncio.wait({ending})
        assert not ending.cancelled()
        pty.close()
    del pty, waiting, ending
    gc.collect()
    assert told == []


@needs_docker
async def test_output_whose_end_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "SILENT_S", 0.5)
    async with _lossy_box(tmp_path) as (lossy, box):
        lossy.holds_ends = True
        with pytest.raises(SandboxBroken, match="output was lost"):
            await sh(box, "echo out")


@needs_docker
async def test_command_that_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execs, "BEGIN_TIMEOUT_S", 0.5)
    async with _lossy_box(tmp_path) as (lossy, box):
        lossy.is_silent = True
        with pytest.raises(SandboxBroken, match="did not begin"):
            await sh(box, "echo out")
        assert not box.is_alive
        lossy.is_silent = False


@needs_docker
async def test_shell_of_ours_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _far_box(tmp_path) as box:
        monkeypatch.setattr(execs, "PLAIN_TIMEOUT_S", 0.5)
        monkeypatch.setattr(census, "KILL", "while :; do :; done")
        with pytest.raises(SandboxBroken, match="a shell of ours did not end"):
            await sh(box, "sleep 60", timeout_s=0.1)
        assert not box.is_alive


class _LateCensus:
    """Misses everything the first time."""

    def __init__(self, inner: Census) -> None:
        self._inner = inner
        self.kills = 0

    async def terminate(self, _: Group) -> None:
        """Nothing."""

    async def kill(self, group: Group) -> int:
        self.kills += 1
        return await self._inner.kill(group) if self.kills > 1 else 0

    async def living(self) -> list[Seen]:
        return await self._inner.living()

    async def condemn(self, group: Group) -> None:
        await self._inner.condemn(group)


@needs_docker
async def test_kill_is_repeated_until_the_command_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execs, "KILL_AGAIN_S", 0.1)
    async with _far_box(tmp_path) as box:
        late = _LateCensus(box.container.census)
        monkeypatch.setattr(box.container, "census", late)
        result = await sh(box, "sleep 60", timeout_s=0.1)
        assert (result.timed_out, result.signal) == (True, 9)
        assert late.kills > 1


@needs_docker
async def test_commands_and_pauses_at_once(tmp_path: Path) -> None:
    """An engine that pauses a container while a command starts in it never unpauses it."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_text("content")
    async with _far_box(tmp_path) as box:
        commands = [sh(box, f"echo {number}") for number in range(30)]
        trees = [box.put_tree(tmp_path / "in", f"/srv/{number}") for number in range(10)]
        results, _, snapshot = await asyncio.gather(asyncio.gather(*commands), asyncio.gather(*trees), box.snapshot())
        assert [result.stdout for result in results] == [f"{number}\n".encode() for number in range(30)]
        assert await box.read("/srv/9/file") == b"content"
        await asyncio.to_thread(snapshot.close)


async def test_engine_that_accepts_and_says_nothing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "mute.sock"))
        server.listen()
        engine = Engine(Address("unix", str(tmp_path / "mute.sock")))
        with pytest.raises(EngineError, match=r"nothing moved for 0.2 s"):
            await engine.call("GET", "/version", patience_s=0.2)


async def test_engine_that_takes_nothing(tmp_path: Path) -> None:
    async def zeros() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "mute.sock"))
        server.listen()
        engine = Engine(Address("unix", str(tmp_path / "mute.sock")))
        with pytest.raises(EngineError, match="nothing moved"):
            await engine.call("PUT", "/containers/x/archive", body=zeros(), patience_s=0.2)


async def test_handshake_that_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE_S", 0.2)
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(EngineError, match="nothing moved"):
        await Engine(Address("tls", "127.0.0.1", port)).call("GET", "/version")


async def test_source_that_fails_while_it_is_sent(tmp_path: Path) -> None:
    """The engine waits for the rest, and we must not wait for the engine."""

    async def failing() -> AsyncIterator[bytes]:
        yield b"begun"
        raise FileNotFoundError(2, "No such file or directory", "gone")

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "mute.sock"))
        server.listen()
        engine = Engine(Address("unix", str(tmp_path / "mute.sock")))
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(FileNotFoundError, match="gone"):
                async with engine.open(Request("PUT", "/containers/x/archive", body=failing())):
                    raise AssertionError("answered")


def test_thing_that_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "REMOVE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(sweeping, "remove_with", lambda *_: 1)
    begun = time.monotonic()
    with pytest.raises(EngineError, match=r"a=b cannot be removed"):
        sweeping.remove_all_with(Address("unix", "/none"), "a=b")
    assert time.monotonic() - begun < 5


def test_gate_whose_input_ends_does_not_open() -> None:
    command = ["/bin/sh", "-c", GATE, "sh", "64", "/", "", "OLDPWD", "", "echo", "ran"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603 - our own script
    assert (done.returncode, done.stdout) == (125, b"")
