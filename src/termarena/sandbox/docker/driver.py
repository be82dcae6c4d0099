"""The docker driver: sandboxes as containers of an engine that speaks Docker's API, here or far away."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from termarena.core.errors import CapabilityMissing, EngineError, ImageError, SandboxBroken, SandboxStartError
from termarena.sandbox.compositions import names_in, own_user
from termarena.sandbox.contract import Capabilities, Prepared, SandboxRecord, Snapshot, spec_for
from termarena.sandbox.docker import abilities, labels
from termarena.sandbox.docker.address import Address, find_address
from termarena.sandbox.docker.archives import in_thread
from termarena.sandbox.docker.box import DockerSandbox, Origin
from termarena.sandbox.docker.changes import Rows
from termarena.sandbox.docker.client import Request
from termarena.sandbox.docker.container import Container
from termarena.sandbox.docker.description import describe
from termarena.sandbox.docker.hub import Hub
from termarena.sandbox.docker.images import ImageStore, inspect_image
from termarena.sandbox.docker.pinning import pin_composition
from termarena.sandbox.docker.reaper import Reaper
from termarena.sandbox.docker.snapshots import DockerSnapshot, LayerSnapshot, SavedSnapshot, load_snapshot, restore
from termarena.sandbox.docker.sweeping import containers_with, remove_all_with
from termarena.sandbox.spec import PROXY_PORT, Root, SandboxSpec
from termarena.sandbox.staged import sweep_staged
from termarena.sandbox.state import default_home
from termarena.sandbox.way_out import way_out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from termarena.sandbox.docker.images import Image
    from termarena.sandbox.spec import Limits

__all__ = ["DockerDriver"]

T = TypeVar("T")

NO_STORAGE_LIMIT: Final = ("storage-opt", "storage opt", "pquota", "project quota")


class DockerDriver:
    """See `termarena.sandbox.contract.Driver`."""

    def __init__(
        self,
        *,
        engine: Address | None = None,
        home: Path | None = None,
        default_root: Root | None = None,
        run_id: str = "",
        on_log: Callable[[str], None] | None = None,
        allow_local: bool = True,
    ) -> None:
        """Connects at the first use.

        `default_root` stands in for a `host` root, which a container cannot have; `on_log` gets the lines of pulls and
        builds; without `allow_local` an engine of this machine is treated like a far one.
        """
        self._address = engine
        self._harness = labels.Harness(str((home or default_home()).absolute()), run_id)
        self._default_root = default_root
        self._store = ImageStore(on_log)
        self._allow_local = allow_local
        self._reaper: Reaper | None = None
        self._hubs: dict[asyncio.AbstractEventLoop, Hub] = {}
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self._abilities: abilities.Abilities | None = None
        self.compose_words: list[str] = []

    @property
    def name(self) -> str:
        """The word that `--driver` takes."""
        return "docker"

    @property
    def address(self) -> Address:
        """The engine; found at the first question."""
        if self._address is None:
            self._address = find_address()
        return self._address

    @property
    def allows_local(self) -> bool:
        """Whether containers of this machine are touched through the kernel."""
        return self._allow_local

    @property
    def has_layers(self) -> bool:
        """Whether the change layers of containers can be read from here."""
        return self._found.has_layers

    @property
    def reaper_pid(self) -> int | None:
        """The process that cleans up after us; None before the first start."""
        return self._reaper.pid if self._reaper is not None else None

    async def __aenter__(self) -> Self:
        """Nothing starts yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End everything."""
        await self.aclose()

    async def aclose(self) -> None:
        """Remove whatever is still there of this driver."""
        if self._reaper is None:
            return
        own = f"{labels.HARNESS}={self._harness.id}"
        await asyncio.to_thread(remove_all_with, self.address, own)
        reaper, self._reaper = self._reaper, None
        await asyncio.to_thread(reaper.dismiss)

    def list(self) -> tuple[SandboxRecord, ...]:
        """See the contract; raises `EngineError`."""
        found: dict[str, SandboxRecord] = {}
        for row in self._ours():
            own = row["Labels"]
            found[own[labels.SANDBOX]] = SandboxRecord(
                id=own[labels.SANDBOX],
                is_alive=labels.is_harness_alive(own),
                started_at=own.get(labels.STARTED, ""),
                harness_pid=int(own.get(labels.PID) or 0),
                root=own.get(labels.ROOT, ""),
            )
        return tuple(found[name] for name in sorted(found))

    def _ours(self) -> tuple[dict[str, Any], ...]:
        return tuple(containers_with(self.address, labels.SANDBOX, f"{labels.HOME}={self._harness.home}"))

    def sweep(self) -> int:
        """See the contract; raises `EngineError`."""
        dead = {row["Labels"][labels.HARNESS] for row in self._ours() if not labels.is_harness_alive(row["Labels"])}
        count = sum(1 for record in self.list() if not record.is_alive)
        for harness in dead:
            remove_all_with(self.address, f"{labels.HARNESS}={harness}")
        return count

    def load(self, path: Path) -> Snapshot:
        """See the contract."""
        return load_snapshot(path)

    def capabilities(self) -> Capabilities:
        """See the contract; the engine is asked at the first call. Raises `EngineError`."""
        if self._abilities is None:
            self._abilities = abilities.find(self.address, allow_local=self._allow_local)
        return self._abilities.declare()

    def _check(self, spec: SandboxSpec) -> Root:
        """What the root really is; raises `CapabilityMissing`."""
        declared = self.capabilities()
        for feature in sorted(spec.requires - declared.features):
            raise CapabilityMissing(feature.value, driver=self.name, why=declared.missing[feature])
        self._found.check_network(spec.network.mode)
        self._found.check_reach(spec)
        if spec.root.kind != "host":
            return spec.root
        if self._default_root is None:
            raise CapabilityMissing(
                "the host's own files as its root",
                driver=self.name,
                why="a container has an image",
                hint="name one: --image debian:bookworm",
            )
        return self._default_root

    @property
    def _found(self) -> abilities.Abilities:
        self.capabilities()
        if self._abilities is None:
            raise EngineError(str(self.address), "could not be asked")
        return self._abilities

    # Starting.

    def start(
        self, what: SandboxSpec | Snapshot, *, spec: SandboxSpec | None = None
    ) -> AbstractAsyncContextManager[DockerSandbox]:
        """See the contract."""
        return self._start(what, spec_for(what, spec))

    @asynccontextmanager
    async def _start(self, what: SandboxSpec | Snapshot, spec: SandboxSpec) -> AsyncIterator[DockerSandbox]:
        root = await asyncio.to_thread(self._check, spec)
        async with self.hub() as hub:
            if root.kind == "compose":
                from termarena.sandbox.docker.compose import composed  # noqa: PLC0415 - it imports this module's parts

                snapshot = None if isinstance(what, SandboxSpec) else what
                names = await asyncio.to_thread(names_in, Path(str(root.path)))
                async with (
                    composed(self, hub, spec, root, snapshot=snapshot) as main,
                    self._timed(main, spec.limits),
                    self._networked(main, spec, names),
                ):
                    yield main
                return
            base = (await self._store.prepare(hub.engine, root)).image
            has_entrypoint = spec.runs_entrypoint and bool(base.entrypoint) and isinstance(what, SandboxSpec)
            spec = spec.model_copy(update={"runs_entrypoint": has_entrypoint})
            box = await self._make_patiently(hub, spec, await self._origin(hub, spec, base, what))
            try:
                async with self._timed(box, spec.limits), self._networked(box, spec):
                    yield box
            finally:
                await asyncio.shield(box.stop())

    @asynccontextmanager
    async def hub(self) -> AsyncIterator[Hub]:
        """The engine as this event loop uses it, shared by all that hold it."""
        loop = asyncio.get_running_loop()
        async with self._opening.setdefault(loop, asyncio.Lock()):
            if self._reaper is None:
                await asyncio.to_thread(sweep_staged, Path(self._harness.home))
                self._reaper = Reaper(self.address, f"{labels.HARNESS}={self._harness.id}")
            if loop not in self._hubs:
                hub = Hub(self.address, self._harness.id)
                await hub.open()
                self._hubs[loop] = hub
            self._hubs[loop].holders += 1
        held = self._hubs[loop]
        try:
            yield held
        finally:
            held.holders -= 1
            if held.holders == 0:
                self._hubs.pop(loop, None)
                self._opening.pop(loop, None)
                await asyncio.shield(held.close())

    async def prepare(self, spec: SandboxSpec) -> Prepared:
        """See the contract; the user is the image's own unless the spec names one."""
        root = await asyncio.to_thread(self._check, spec)
        try:
            async with self.hub() as hub:
                if root.kind == "compose":
                    return await pin_composition(hub.engine, self._store, spec, home=Path(self._harness.home))
                ready = await self._store.prepare(hub.engine, root)
        except EngineError as error:
            raise _start_error(error) from error
        image = ready.image
        user = own_user(spec, image.user)
        pinned = spec.model_copy(update={"root": Root(kind="image", image=image.id), "user": user})
        return Prepared(pinned, image.digest, image.id, was_cached=ready.was_there)

    async def export(self, spec: SandboxSpec, consume: Callable[[int], T]) -> T:
        """Hand the archive of a spec's image to a blocking reader; see `in_thread`. Raises `EngineError`, and as
        `prepare`."""
        image = (await self.prepare(spec)).spec.root.image
        async with self.hub() as hub, hub.engine.open(Request("GET", f"/images/{image}/get")) as body:
            return await in_thread(body, consume)

    def new_labels(self, sandbox_id: str, root: Root) -> dict[str, str]:
        """For everything of one sandbox."""
        return self._harness.labels(sandbox_id, root.image or (str(root.path) if root.path else root.kind))

    async def _origin(self, hub: Hub, spec: SandboxSpec, base: Image, what: SandboxSpec | Snapshot) -> Origin:
        tags = self.new_labels(f"ta-{secrets.token_hex(6)}", spec.root)
        plain = Origin(base, base, Rows({}), tags, self.address, scratch=Path(self._harness.home))
        if isinstance(what, SandboxSpec):
            return plain
        if not isinstance(what, DockerSnapshot | LayerSnapshot | SavedSnapshot):
            raise ImageError("snapshot", "was not made by the docker driver")
        if what.base_digest != base.digest:
            hint = "start it on an engine that has the image it was taken on"
            raise ImageError(f"snapshot of {what.taken_in}", "was taken on another image than the one here", hint=hint)
        if isinstance(what, LayerSnapshot) or (isinstance(what, SavedSnapshot) and self._found.has_layers):
            return replace(plain, layer=what)
        if isinstance(what, SavedSnapshot):
            what = await restore(hub.engine, what, base, address=self.address, labels=tags)
        image = await inspect_image(hub.engine, what.image)
        if image is None:
            raise ImageError(f"snapshot of {what.taken_in}", "has been closed, or its engine has dropped it")
        return replace(plain, image=image, rows=what.rows)

    async def _make_patiently(self, hub: Hub, spec: SandboxSpec, origin: Origin) -> DockerSandbox:
        """One whose entrypoint does not run the words it is given is started without it."""
        try:
            return await self._make(hub, spec, origin)
        except SandboxStartError as error:
            if not spec.runs_entrypoint:
                raise
            self._store.say(f"{origin.image.name}: its ENTRYPOINT does not keep a container alive, left out: {error}")
        return await self._make(hub, spec.model_copy(update={"runs_entrypoint": False}), origin)

    async def _make(self, hub: Hub, spec: SandboxSpec, origin: Origin) -> DockerSandbox:
        """A ready sandbox, or nothing left of it."""
        sandbox_id = origin.labels[labels.SANDBOX]
        made = await self._create(hub, spec, origin)
        container = Container(hub, made, sandbox_id, allow_local=self._allow_local, has_layers=self._found.has_layers)
        box = DockerSandbox(sandbox_id, spec, container, origin)
        try:
            if origin.layer is not None:
                await container.fill(origin.layer)
            await hub.engine.call("POST", f"/containers/{made}/start")
            await container.attend()
            if spec.runs_entrypoint:
                await container.settle()
            await box.make_workdir()
        except BaseException as error:
            await asyncio.shield(box.stop())
            if isinstance(error, EngineError | SandboxBroken):
                raise _start_error(error) from error
            raise
        return box

    async def _create(self, hub: Hub, spec: SandboxSpec, origin: Origin) -> str:
        network, has_quota = self._found.network_of(spec.network.mode), self._found.has_disk_limit
        wanted = describe(spec, origin.image.id, origin.labels, network=network, has_quota=has_quota)
        query = {"name": origin.labels[labels.SANDBOX]}
        try:
            return str((await hub.engine.call("POST", "/containers/create", query=query, json=wanted)).json()["Id"])
        except EngineError as error:
            if not any(words in error.problem.lower() for words in NO_STORAGE_LIMIT):
                raise _start_error(error) from error
            self._found.refuse_disk_limit(error.problem)
        self._check(spec)
        return await self._create(hub, spec, origin)

    @asynccontextmanager
    async def _timed(self, box: DockerSandbox, limits: Limits) -> AsyncIterator[None]:
        if limits.wall_s is None:
            yield
            return
        clock = asyncio.create_task(box.end_after(limits.wall_s))
        try:
            yield
        finally:
            clock.cancel()
            await asyncio.gather(clock, return_exceptions=True)

    @asynccontextmanager
    async def _networked(self, box: DockerSandbox, spec: SandboxSpec, names: Sequence[str] = ()) -> AsyncIterator[None]:
        """Serve the sandbox's proxy, if its network has one; `names` are reached without it."""
        if spec.network.mode == "none" or self._found.network_of(spec.network.mode) != "none":
            yield
            return
        local = box.container.local
        if local is None:
            raise CapabilityMissing("network through a proxy", driver=self.name, why=abilities.NO_PROXY)
        async with way_out(box, spec, local.listen(PROXY_PORT), direct=names):
            yield


def _start_error(error: Exception) -> Exception:
    problem = str(getattr(error, "problem", None) or error)
    if "/bin/sh" in problem and ("no such file" in problem or "not found" in problem):
        return ImageError("image", "has no /bin/sh", hint="use an image with a POSIX shell")
    if "init" in problem and "not found" in problem:
        return SandboxStartError(problem, hint="the engine needs docker-init: install tini on its machine")
    return SandboxStartError(f"the engine refused: {problem}", hint="run: termarena doctor --docker")
