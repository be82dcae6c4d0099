"""The namespace driver: sandboxes from the kernel's own namespaces, without a daemon and without root."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from termarena.core.errors import CapabilityMissing, SandboxBroken, SandboxStartError
from termarena.sandbox.contract import ROOT_NAMES, Capabilities, Prepared, SandboxRecord, Snapshot, spec_for
from termarena.sandbox.namespace.box import NamespaceSandbox
from termarena.sandbox.namespace.building import remove_abandoned
from termarena.sandbox.namespace.cgroups import CgroupHost, find_cgroups
from termarena.sandbox.namespace.holdings import Holdings
from termarena.sandbox.namespace.ids import IdMap, choose_ids
from termarena.sandbox.namespace.imageroots import ImageRoots
from termarena.sandbox.namespace.launcher import Launcher
from termarena.sandbox.namespace.ondisk import DiskLayers
from termarena.sandbox.namespace.places import Places
from termarena.sandbox.namespace.plan import Plan
from termarena.sandbox.namespace.rootfs import Base, RootStore
from termarena.sandbox.namespace.snapshots import load_snapshot
from termarena.sandbox.namespace.worker import Disk, Joining, LayerWorker
from termarena.sandbox.spec import PROXY_PORT, Feature, SandboxSpec
from termarena.sandbox.staged import sweep_staged
from termarena.sandbox.state import SANDBOXES, default_home, list_traces, sweep_dead
from termarena.sandbox.way_out import way_out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from termarena.sandbox.namespace.ondisk import Changes, Keep
    from termarena.sandbox.namespace.places import Place

__all__ = ["NamespaceDriver"]

START_TIMEOUT_S: Final = 60.0
"""A restored snapshot of gigabytes takes its time; a plain start takes milliseconds."""
IMAGE_KINDS: Final = ("image", "dockerfile")


class NamespaceDriver:
    """See `termarena.sandbox.contract.Driver`."""

    def __init__(
        self,
        *,
        home: Path | None = None,
        allow_cgroups: bool = True,
        allow_ranges: bool = True,
        looks_ahead: bool = True,
        keep: Keep = "auto",
        on_log: Callable[[str], None] | None = None,
    ) -> None:
        """`home` holds traces, root file systems and images; the three switches exist to see what happens without.

        `keep` is where the changes of sandboxes go: by default to memory, and to the home where they do not fit.
        `on_log` gets the lines of pulls and builds.
        """
        # Descriptors and overlays are opened from other folders than this process's own.
        self._home = (home or default_home()).absolute()
        self._store = RootStore(self._home)
        self._launcher = Launcher()
        self._images = ImageRoots(self, self._home, on_log=on_log)
        self._allow_cgroups = allow_cgroups
        self._allow_ranges = allow_ranges
        self._cgroups: CgroupHost | None = None
        self._ids: IdMap | None = None
        self._disk = DiskLayers(self._home, self._launcher, lambda: self.ids, keep=keep)
        self._places = Places(self._home, self._launcher, find=self._find, using_home=self._using_home)
        self._looks_ahead = looks_ahead
        self._is_prepared = False

    @property
    def name(self) -> str:
        """The word that `--driver` takes."""
        return "namespace"

    async def __aenter__(self) -> Self:
        """Nothing starts yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End everything."""
        await self.aclose()

    async def aclose(self) -> None:
        """Wait until the files of ended sandboxes are removed; end the fork server and what is still alive."""
        self._images.close()
        try:
            await self._places.aclose()
            await asyncio.to_thread(self._disk.settle)
        finally:  # whoever waits no longer for files wants the processes ended all the same
            await asyncio.to_thread(self._launcher.close)
            await self._places.aclose()  # a start that was under way may have made another one
            self._store.close()
            self._is_prepared = False

    def list(self) -> tuple[SandboxRecord, ...]:
        """See the contract."""
        traces = list_traces(self._home / SANDBOXES)
        known = {record.id for record in traces}
        return (*traces, *(record for record in self._disk.list() if record.id not in known))

    def sweep(self) -> int:
        """See the contract."""
        remove_abandoned(self._home / "rootfs")
        self._store.prune()
        sweep_staged(self._home)
        dead = self._dead()
        self._disk.sweep()
        sweep_dead(self._home / SANDBOXES)
        return len(dead - self._dead())

    def _dead(self) -> set[str]:
        return {record.id for record in self.list() if not record.is_alive}

    def load(self, path: Path) -> Snapshot:
        """See the contract."""
        return load_snapshot(path)

    def capabilities(self) -> Capabilities:
        """See the contract; the cgroups and ids are found at the first call."""
        cgroups, ids = self._find()
        missing: dict[Feature, str] = {}
        notes = []
        if not ids.has_users:
            missing[Feature.USERS] = "an ordinary user without newuidmap has one id; install uidmap, see /etc/subuid"
            notes.append("on an image, users other than root are recorded, and no file of one is closed to another")
        if ids.kind != "shifted":
            notes.append("on a host root, files of the host cannot be changed in place, only replaced")
        if not cgroups.has("cpu"):
            missing[Feature.CPU_LIMIT] = f"{cgroups.problem or 'no cpu controller'}; {cgroups.remedy}"
        if not cgroups.has("memory"):
            notes.append("memory is watched every 50 ms instead of limited by a cgroup: " + cgroups.problem)
        if not cgroups.has("pids"):
            notes.append("processes are limited per user of the sandbox instead of by a cgroup: " + cgroups.problem)
        if self._disk.notice:
            notes.append("files stay in memory also where it has too little room: " + self._disk.notice)
        if left := sorted(str(layer) for layer in self._disk.left):
            notes.append(
                "files of ended sandboxes could not be removed, the next start tries again: " + ", ".join(left)
            )
        features = frozenset(Feature) - missing.keys()
        return Capabilities("namespace", features, missing, tuple(notes))

    def _find(self) -> tuple[CgroupHost, IdMap]:
        if self._cgroups is None or self._ids is None:
            off = CgroupHost(None, problem="cgroups are switched off for this driver")
            self._cgroups = find_cgroups() if self._allow_cgroups else off
            self._ids = choose_ids(allow_ranges=self._allow_ranges)
        return self._cgroups, self._ids

    def _check(self, spec: SandboxSpec) -> None:
        capabilities = self.capabilities()
        for feature in sorted(spec.requires - capabilities.features):
            raise CapabilityMissing(feature.value, driver=self.name, why=capabilities.missing[feature])
        if Feature.WRITABLE_SYSTEM in spec.requires and spec.root.kind == "host" and self._find()[1].kind != "shifted":
            why = "an ordinary user cannot change the host's files in place; give a root file system, or be root"
            raise CapabilityMissing(Feature.WRITABLE_SYSTEM.value, driver=self.name, why=why)
        if spec.user not in ROOT_NAMES and spec.root.kind == "host" and Feature.USERS in capabilities.missing:
            raise CapabilityMissing(f"the user {spec.user}", driver=self.name, why=capabilities.missing[Feature.USERS])

    async def prepare(self, spec: SandboxSpec) -> Prepared:
        """See the contract."""
        self._check(spec)
        if spec.root.kind in IMAGE_KINDS:
            return (await self._images.prepare(spec)).prepared
        if spec.root.kind == "compose":
            from termarena.sandbox.namespace.services import pin_services  # noqa: PLC0415 - only for who has services

            return await pin_services(self._images, spec, home=self._home)
        was_known = self._store.known(spec.root) is not None
        base = await self._prepare(spec)
        return Prepared(spec, base.digest, was_cached=was_known)

    async def layers(self, spec: SandboxSpec) -> tuple[Path, ...]:
        """The folders of the layers of an image, uppermost first; none where the root is no image. Raises as
        `prepare`."""
        if spec.root.kind not in IMAGE_KINDS:
            return ()
        await self._ready()
        return (await self._images.prepare(spec)).base.volumes[0].lowers

    def start(
        self, what: SandboxSpec | Snapshot, *, spec: SandboxSpec | None = None
    ) -> AbstractAsyncContextManager[NamespaceSandbox]:
        """See the contract."""
        return self._start(spec_for(what, spec), None if isinstance(what, SandboxSpec) else what)

    @asynccontextmanager
    async def _start(self, spec: SandboxSpec, snapshot: Snapshot | None) -> AsyncIterator[NamespaceSandbox]:
        self._check(spec)
        if spec.root.kind == "compose":
            from termarena.sandbox.namespace.services import started  # noqa: PLC0415 - only for who has services

            await self._ready()
            async with started(self, self._images, spec, snapshot=snapshot) as main:
                yield main
            return
        if spec.root.kind in IMAGE_KINDS:
            await self._ready()
            rooted = await self._images.prepare(spec)
            spec, base = rooted.spec, rooted.base
        else:
            base = await self._prepare(spec)
        box = await self._make(spec, base, snapshot)
        try:
            async with self._networked(box, spec):
                if spec.runs_entrypoint and snapshot is None:
                    await self._images.begin(box, spec)
                yield box
        finally:
            await asyncio.shield(box.stop())

    async def _prepare(self, spec: SandboxSpec) -> Base:
        """The fork server running, the dead swept, the root file system ready; `SandboxStartError` or `ImageError`."""
        await self._ready()
        known = self._store.known(spec.root)
        if known is not None:
            return known
        with self._using_home():
            return await asyncio.to_thread(self._store.prepare, spec.root)

    def begin(self) -> None:
        """Have the fork server start while the caller goes on to what needs it. Raises `SandboxStartError`."""
        self._find()  # before it: with cgroups of version 2 this moves the harness, and its children are to follow
        self._launcher.ensure()

    async def _ready(self) -> None:
        """The fork server running, the dead swept; raises `SandboxStartError`."""
        with self._using_home():
            if not self._is_prepared:
                await asyncio.to_thread(self.sweep)
                self._is_prepared = True
            self._launcher.ensure()

    @contextlib.contextmanager
    def _using_home(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "set TERMARENA_HOME to a folder that is writable and has room"
            raise SandboxStartError(f"{self._home} cannot be used: {error}", hint=hint) from error

    @property
    def roots(self) -> RootStore:
        """The root file systems that its sandboxes lie on."""
        return self._store

    @property
    def ids(self) -> IdMap:
        """Which ids of the host stand behind the users of its sandboxes."""
        return self._find()[1]

    @asynccontextmanager
    async def worker(self, folder: Path) -> AsyncIterator[LayerWorker]:
        """A process with the ids of sandboxes that unpacks, packs and removes layers of images below `folder`."""
        await self._ready()
        base = await asyncio.to_thread(self._store.empty)
        box = await self._make(SandboxSpec(), base, None, lent=Disk(folder))
        try:
            yield LayerWorker(box)
        finally:
            await asyncio.shield(box.stop())

    @asynccontextmanager
    async def start_on(
        self,
        spec: SandboxSpec,
        base: Base,
        lent: Disk | Joining | None,
        *,
        snapshot: Snapshot | None = None,
        kind: type[NamespaceSandbox] | None = None,
    ) -> AsyncIterator[NamespaceSandbox]:
        """A sandbox above `base` with what is lent to it: a step of a build, whose changes a disk keeps; a service."""
        await self._ready()
        box = await self._make(spec, base, snapshot, lent=lent, kind=kind or NamespaceSandbox)
        is_joined = isinstance(lent, Joining) and bool(lent.namespaces)
        try:
            names = lent.names if isinstance(lent, Joining) else {}
            async with contextlib.nullcontext() if is_joined else self._networked(box, spec, names):
                yield box
        finally:
            await asyncio.shield(box.stop())

    async def _make(
        self,
        spec: SandboxSpec,
        base: Base,
        snapshot: Snapshot | None,
        *,
        lent: Disk | Joining | None = None,
        kind: type[NamespaceSandbox] = NamespaceSandbox,
    ) -> NamespaceSandbox:
        """A ready sandbox, or nothing left of it."""
        is_on_disk = not isinstance(lent, Disk) and await self._is_for_disk(spec)
        plan = Plan(spec, base, cgroups=self._find()[0], ids=self._find()[1], is_on_disk=is_on_disk)
        if lent is not None:
            plan.lend(lent)
        try:
            if snapshot is not None:
                await plan.fork(snapshot)
            box = await self._launch(plan, kind)
        finally:
            plan.close()
        try:
            answer = await box.ready(START_TIMEOUT_S)
        except BaseException as error:
            await asyncio.shield(box.stop())
            if isinstance(error, SandboxBroken | TimeoutError):
                raise SandboxStartError(
                    f"the sandbox did not come up: {error}", hint="run: termarena doctor"
                ) from error
            raise
        if "failed" in answer:
            await box.stop()
            raise SandboxStartError(
                f"the sandbox could not be assembled: {answer['failed']}", hint="run: termarena doctor"
            )
        if self._looks_ahead:
            self._places.look_ahead()
        return box

    async def _is_for_disk(self, spec: SandboxSpec) -> bool:
        with self._using_home():
            return await self._disk.wants(spec.limits)

    async def _launch(self, plan: Plan, kind: type[NamespaceSandbox]) -> NamespaceSandbox:
        """A sandbox that is assembling itself, or nothing left of it."""
        try:
            place = await self._places.take(plan.joined)
        except OSError as error:
            raise _refused(error) from error
        changes = None
        try:
            with self._using_home():
                place.trace.describe(root=plan.spec.root.kind, changes="disk" if plan.is_on_disk else "memory")
                if plan.is_on_disk:
                    changes = self._disk.make(place.sandbox_id)
                    plan.keep_in(changes)
            plan.put_in(place)
            await place.tell(plan.message, plan.fds)
        except BaseException as error:
            await asyncio.shield(asyncio.to_thread(self._undo, place, changes))
            if isinstance(error, OSError):
                raise _refused(error) from error
            raise
        if changes is not None:
            changes.release()
        control, process = place.hand_over()
        held = Holdings(
            trace=place.trace,
            cgroup=place.cgroup,
            pidfd=process.pidfd,
            host_pid=process.pid,
            has_users=plan.has_users,
            base_digest=plan.base.digest,
            scratch=self._home,
            disk=self._disk,
            layers=tuple(plan.layers),
            is_on_disk=plan.is_on_disk,
        )
        return kind(place.sandbox_id, plan.spec, control, held)

    def _undo(self, place: Place, changes: Changes | None) -> None:
        """Leave nothing of a sandbox that did not come to be."""
        place.end(self._launcher)
        if changes is not None:
            changes.release()
            self._disk.drop((changes.layer,))

    @asynccontextmanager
    async def _networked(
        self, box: NamespaceSandbox, spec: SandboxSpec, names: Mapping[str, str] = MappingProxyType({})
    ) -> AsyncIterator[None]:
        """Serve the sandbox's proxy, if its network has one; `names` are those of its own addresses."""

        if spec.network.mode == "none":
            yield
            return
        listener = await box.doors.listen(PROXY_PORT)
        async with way_out(box, spec, listener, has_users=self.ids.has_users, inside=box.doors.reaching(names)):
            yield


def _refused(error: OSError) -> SandboxStartError:
    return SandboxStartError(f"the host refused: {error}", hint="run: termarena doctor")
