"""A running container as a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import EngineError, SandboxBroken, SandboxFileError
from termarena.sandbox.contract import (
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_READ_BYTES,
    DEFAULT_TREE_BYTES,
    ExecResult,
    FileChanges,
    ProcessInfo,
    Snapshot,
    TreeReport,
)
from termarena.sandbox.docker import labels, users
from termarena.sandbox.docker.census import Everyone
from termarena.sandbox.docker.changes import Rows, compare, parse_rows
from termarena.sandbox.docker.client import LONG_S
from termarena.sandbox.docker.execs import Order
from termarena.sandbox.docker.files import Files
from termarena.sandbox.docker.pty import DockerPty
from termarena.sandbox.docker.snapshots import REPOSITORY, DockerSnapshot, commit_query, container_of
from termarena.sandbox.namespace.answers import check_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from termarena.sandbox.docker.address import Address
    from termarena.sandbox.docker.container import Container
    from termarena.sandbox.docker.images import Image
    from termarena.sandbox.spec import SandboxSpec

__all__ = ["DockerSandbox", "Origin"]

PASSWD_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Origin:
    """What a container was made from."""

    image: Image
    """What it was started from: the base, or a snapshot's image."""
    base: Image
    rows: Rows
    """The paths in which the two differ."""
    labels: Mapping[str, str]
    address: Address


class DockerSandbox:
    """See `termarena.sandbox.contract.Sandbox`."""

    def __init__(self, sandbox_id: str, spec: SandboxSpec, container: Container, origin: Origin) -> None:
        """Takes over the container; made by the driver."""
        self._id = sandbox_id
        self._spec = spec
        self._origin = origin
        self.container = container
        self._env: dict[str, str] = {} if "LANG" in origin.base.env else {"LANG": "C.UTF-8"}
        self._env.update(spec.env)
        self._is_sealed = False
        self._aside = AsyncExitStack()
        self._looked_at: dict[str, Files] = {}
        self._stopping: asyncio.Future[None] | None = None

    @property
    def id(self) -> str:
        """Unique on this engine."""
        return self._id

    @property
    def spec(self) -> SandboxSpec:
        """What it was started from."""
        return self._spec

    @property
    def is_alive(self) -> bool:
        """Whether its container was alive when last heard of."""
        return not self.container.ended.done()

    def add_environment(self, env: Mapping[str, str]) -> None:
        """Variables for every later command; the driver uses it for the proxy's address."""
        self._env.update(env)

    def _check_alive(self) -> None:
        if self.container.ended.done():
            raise SandboxBroken(self._id, self.container.ended.result())

    def _check_open(self) -> None:
        self._check_alive()
        if self._is_sealed:
            raise SandboxBroken(self._id, "it has been sealed")

    # Commands.

    async def identity(self, user: str | None) -> users.Identity:
        """Who that is in this sandbox; raises `NotFound`."""
        wanted = user or self._spec.user
        if users.is_root(wanted):
            return users.ROOT
        passwd, group = b"", b""
        with contextlib.suppress(SandboxFileError):
            passwd = await self.container.files.read("/etc/passwd", max_bytes=PASSWD_BYTES)
        with contextlib.suppress(SandboxFileError):
            group = await self.container.files.read("/etc/group", max_bytes=PASSWD_BYTES)
        return users.resolve(wanted, passwd=passwd, group=group)

    async def _order(
        self, argv: Sequence[str], *, user: str | None, cwd: str | None, env: Mapping[str, str] | None
    ) -> Order:
        words = tuple(argv)
        if not words or any("\0" in word for word in words):
            raise ValueError("a command needs at least one word, and no word may hold a NUL")
        self._check_open()
        who = await self.identity(user)
        asked = cwd or self._spec.workdir
        place = asked or self._origin.base.workdir or who.home
        return Order(words, who, place, "" if asked else "/", {**who.environment(), **self._env, **(env or {})})

    async def exec(  # noqa: PLR0913 - the words of the contract
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int = DEFAULT_OUTPUT_BYTES,
    ) -> ExecResult:
        """See the contract."""
        order = await self._order(argv, user=user, cwd=cwd, env=env)
        return await self.container.commands.run(order, stdin=stdin, timeout_s=timeout_s, keep_bytes=max_output_bytes)

    async def open_pty(
        self,
        argv: Sequence[str],
        *,
        cols: int = 80,
        rows: int = 24,
        user: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> DockerPty:
        """See the contract."""
        if cols < 1 or rows < 1:
            raise ValueError(f"a terminal needs at least 1x1, not {cols}x{rows}")
        order = await self._order(argv, user=user, cwd=cwd, env={"TERM": "xterm-256color", **(env or {})})
        pty = DockerPty(self.container, await self.container.commands.begin(order, tty=True))
        try:
            await pty.open(cols, rows)
        except BaseException:
            pty.close()
            raise
        return pty

    async def processes(self) -> tuple[ProcessInfo, ...]:
        """See the contract."""
        self._check_alive()
        found = await self.container.census.living()
        return tuple(ProcessInfo(one.pid, one.parent, one.uid, one.state, one.argv) for one in found)

    async def kill_processes(self) -> int:
        """See the contract."""
        self._check_alive()
        return await self.container.census.kill(Everyone())

    # Files.

    async def read(self, path: str, *, max_bytes: int = DEFAULT_READ_BYTES) -> bytes:
        """See the contract."""
        check_path(path)
        self._check_alive()
        return await self.container.files.read(path, max_bytes=max_bytes)

    async def write(self, path: str, content: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """See the contract."""
        check_path(path)
        self._check_open()
        who = await self.identity(user)
        await self.container.files.write(path, content, mode=mode, owner=(who.uid, who.gid))

    async def put_tree(self, source: Path, target: str, *, user: str | None = None) -> TreeReport:
        """See the contract."""
        check_path(target)
        self._check_open()
        who = await self.identity(user)
        return await self.container.files.put_tree(source, target, owner=(who.uid, who.gid))

    async def get_tree(self, source: str, target: Path, *, max_bytes: int = DEFAULT_TREE_BYTES) -> TreeReport:
        """See the contract."""
        check_path(source)
        self._check_alive()
        return await self.container.files.get_tree(source, target, max_bytes=max_bytes)

    # States.

    async def seal(self) -> None:
        """See the contract."""
        if not self._is_sealed:
            await self.kill_processes()
            self._is_sealed = True

    async def _rows(self) -> Rows:
        self._check_alive()
        try:
            return parse_rows(
                (await self.container.engine.call("GET", f"/containers/{self.container.id}/changes")).json()
            )
        except EngineError as error:
            raise SandboxBroken(self._id, error.problem) from error

    async def snapshot(self) -> DockerSnapshot:
        """See the contract."""
        rows = await self._rows()
        name = f"{REPOSITORY}:{secrets.token_hex(10)}"
        query = commit_query(self.container.id, name)
        try:
            # It outlives the sandbox, and must not go with what carries the sandbox's own label.
            config = {"Labels": {labels.SANDBOX: f"{self._id}.snapshot"}}
            async with self.container.pauses.alone():
                await self.container.engine.call("POST", "/commit", query=query, json=config, patience_s=LONG_S)
        except EngineError as error:
            raise SandboxBroken(self._id, f"its state could not be kept: {error.problem}") from error
        origin = self._origin
        merged = rows.merged(origin.rows)
        return DockerSnapshot(self._spec, origin.base, name, merged, self._id, origin.address, origin.labels)

    async def diff(self, since: Snapshot | None = None) -> FileChanges:
        """See the contract."""
        if since is None:
            return await compare(self.container.files, await self._files_of(self._origin.image.id), await self._rows())
        if not isinstance(since, DockerSnapshot) or since.taken_in != self._id:
            raise ValueError("the snapshot was not taken in this sandbox")
        rows = (await self._rows()).merged(since.rows)
        return await compare(self.container.files, await self._files_of(since.image), rows, may_touch=False)

    async def _files_of(self, image: str) -> Files:
        """The files of an image, through a container of it that never runs and goes with this sandbox."""
        if image not in self._looked_at:
            engine = self.container.engine
            made = await self._aside.enter_async_context(container_of(engine, image, self._origin.labels))
            self._looked_at[image] = Files(engine, made, self._id)
        return self._looked_at[image]

    async def stop(self) -> None:
        """See the contract."""
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        try:
            await self.container.stop()
        finally:
            await self._aside.aclose()

    async def end_after(self, wall_s: float) -> None:
        """End it when its time is over."""
        await asyncio.wait({self.container.ended}, timeout=wall_s)
        if not self.container.ended.done():
            self.container.end("its wall time limit was reached")
            await self.stop()
