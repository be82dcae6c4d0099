"""A running container as a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import (
    CapabilityMissing,
    EngineError,
    NotFound,
    SandboxBroken,
    SandboxFileError,
    SandboxFrozen,
)
from termarena.sandbox.contract import (
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_READ_BYTES,
    DEFAULT_TREE_BYTES,
    ROOT_NAMES,
    ExecResult,
    FileChanges,
    ProcessInfo,
    Snapshot,
    Surroundings,
    TreeReport,
    Usage,
)
from termarena.sandbox.docker import labels, users
from termarena.sandbox.docker.abilities import NO_PROXY
from termarena.sandbox.docker.changes import Rows, compare, parse_rows
from termarena.sandbox.docker.client import LONG_S
from termarena.sandbox.docker.execs import Order
from termarena.sandbox.docker.files import Files
from termarena.sandbox.docker.pty import DockerPty
from termarena.sandbox.docker.snapshots import (
    REPOSITORY,
    DockerSnapshot,
    LayerSnapshot,
    commit_query,
    container_of,
)
from termarena.sandbox.namespace.answers import check_path
from termarena.sandbox.namespace.differences import changes_between
from termarena.sandbox.sides import check_size
from termarena.sandbox.way_out import through

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from termarena.sandbox.docker.address import Address
    from termarena.sandbox.docker.container import Container
    from termarena.sandbox.docker.images import Image
    from termarena.sandbox.docker.overlay import Overlay
    from termarena.sandbox.docker.snapshots import Entries, SavedSnapshot
    from termarena.sandbox.spec import Fetches, SandboxSpec

__all__ = ["DockerSandbox", "Origin"]

PASSWD_BYTES: Final = 8 << 20
SNAPSHOT_TO_DISK: Final = 4
"""How many times its disk limit a container's files may seem to hold: holes cost nothing inside and much in a copy."""


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
    layer: LayerSnapshot | SavedSnapshot | None = None
    """Changes that were laid into the container before it started."""
    scratch: Path | None = None
    """A folder for unnamed files, on a disk rather than in memory."""


class DockerSandbox:
    """See `termarena.sandbox.contract.Sandbox`."""

    keeps_layers = True
    """Whether a snapshot may be a layer that is laid into the next container before that starts."""

    def __init__(self, sandbox_id: str, spec: SandboxSpec, container: Container, origin: Origin) -> None:
        """Takes over the container; made by the driver."""
        self._id = sandbox_id
        self._spec = spec
        self._origin = origin
        self.container = container
        self._env: dict[str, str] = {} if "LANG" in origin.base.env else {"LANG": "C.UTF-8"}
        self._env.update(spec.env)
        self._final: dict[str, str] = {}
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

    async def surroundings(self) -> Surroundings:
        """See the contract."""
        image = self._origin.base
        return Surroundings({**image.env, **self._spec.env}, self._spec.workdir or image.workdir or None)

    def add_environment(self, env: Mapping[str, str], *, is_final: bool = False) -> None:
        """Variables for every later command, `is_final` over its own; the driver uses it for the proxy's address."""
        (self._final if is_final else self._env).update(env)

    def drop_final_environment(self) -> None:
        """Later commands have their own variables again."""
        self._final.clear()

    @asynccontextmanager
    async def through(self, fetches: Fetches) -> AsyncIterator[None]:
        """Commands that begin meanwhile reach a recording, and no network. Raises what `open_fetches` raises, and
        `CapabilityMissing` on an engine elsewhere."""
        if self.container.local is None:
            raise CapabilityMissing("recorded fetches", driver="docker", why=NO_PROXY)
        async with through(self, fetches, self.container.local.listen(0)):
            yield

    def _check_alive(self) -> None:
        if self.container.ended.done():
            raise SandboxBroken(self._id, self.container.ended.result())

    def _check_open(self) -> None:
        self._check_alive()
        if self._is_sealed:
            raise SandboxBroken(self._id, "it has been sealed")
        if self.container.is_frozen:
            raise SandboxFrozen(self._id)

    async def make_workdir(self) -> None:
        """Make the working directory where it is missing; the driver does it before anything runs.

        In a fork something else may stand in its place, or the user be gone: whoever had the files did that, and the
        commands say so. Raises `SandboxFileError` and `NotFound` where there was nobody.
        """
        path = self._spec.workdir
        if path is None:
            return
        try:
            who = await self.identity(None)
            await self.container.files.make_folder(path, owner=(who.uid, who.gid))
        except (SandboxFileError, NotFound):
            if self._origin.layer is None and self._origin.image.id == self._origin.base.id:
                raise

    # Commands.

    async def identity(self, user: str | None) -> users.Identity:
        """Who that is in this sandbox; raises `NotFound`."""
        wanted = user or self._spec.user
        if wanted in ROOT_NAMES:
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
        variables = {**who.environment(), **self._env, **(env or {}), **self._final}
        return Order(words, who, place, "" if asked else "/", variables)

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
        tail_bytes: int = 0,
    ) -> ExecResult:
        """See the contract."""
        order = await self._order(argv, user=user, cwd=cwd, env=env)
        return await self.container.commands.run(
            order, stdin=stdin, timeout_s=timeout_s, keep_bytes=max_output_bytes, tail_bytes=tail_bytes
        )

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
        check_size(cols, rows)
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
        found = await self.container.living()
        return tuple(ProcessInfo(one.pid, one.parent, one.uid, one.state, one.argv) for one in found)

    async def kill_processes(self) -> int:
        """See the contract."""
        self._check_alive()
        return await self.container.kill_all()

    async def freeze(self) -> None:
        """See the contract."""
        self._check_alive()
        await self.container.freeze()

    async def thaw(self) -> None:
        """See the contract; what a seal holds stays held."""
        self._check_alive()
        if not self._is_sealed:
            await self.container.thaw()

    async def usage(self) -> Usage:
        """See the contract; of several services, the main one's."""
        return await self.container.usage()

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
            if self._spec.runs_entrypoint or self._spec.root.kind == "compose":
                await self.container.quiet()

    async def _rows(self) -> Rows:
        self._check_alive()
        try:
            return parse_rows(
                (await self.container.engine.call("GET", f"/containers/{self.container.id}/changes")).json()
            )
        except EngineError as error:
            raise SandboxBroken(self._id, error.problem) from error

    async def snapshot(self) -> Snapshot:
        """See the contract."""
        if self.container.overlay is None or not self.keeps_layers:
            return await self._commit()
        self._check_alive()
        return await asyncio.to_thread(self._pack, self.container.overlay)

    def _pack(self, overlay: Overlay) -> LayerSnapshot:
        origin = self._origin
        if origin.scratch is not None:
            origin.scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
        layer = tempfile.TemporaryFile(dir=origin.scratch)  # noqa: SIM115 - the snapshot owns it
        try:
            overlay.pack(layer, max_bytes=SNAPSHOT_TO_DISK * self._spec.limits.disk_bytes)
            entries = overlay.changes()
        except OSError as error:
            layer.close()
            problem = error.strerror or str(error)
            raise SandboxFileError("snapshot", "/", problem=problem, errno=error.errno) from error
        return LayerSnapshot(self._spec, origin.base, layer, taken_in=self._id, entries=entries)

    async def _commit(self) -> DockerSnapshot:
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
        if isinstance(since, LayerSnapshot) and since.taken_in == self._id:
            return changes_between(since.entries, await self._changes())
        if since is None and self.container.overlay is not None:
            began = self._origin.layer.entries if self._origin.layer is not None else None
            return changes_between(began or (), await self._changes())
        if since is None:
            return await compare(self.container.files, await self._files_of(self._origin.image.id), await self._rows())
        if not isinstance(since, DockerSnapshot) or since.taken_in != self._id:
            raise ValueError("the snapshot was not taken in this sandbox")
        rows = (await self._rows()).merged(since.rows)
        return await compare(self.container.files, await self._files_of(since.image), rows, may_touch=False)

    async def _changes(self) -> Entries:
        """What differs from the image, from the change layer itself."""
        self._check_alive()
        if self.container.overlay is None:
            raise SandboxBroken(self._id, "its change layer cannot be read")
        try:
            return await asyncio.to_thread(self.container.overlay.changes)
        except OSError as error:
            problem = error.strerror or str(error)
            raise SandboxFileError("diff", error.filename or "/", problem=problem, errno=error.errno) from error

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
