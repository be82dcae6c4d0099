"""Start states of tasks: each is made once per run, whoever asks first, and started for every trial."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from termarena.core.errors import BuildTimeout, CapabilityMissing
from termarena.sandbox.bare import bare_spec, filled_in, prepare_bare
from termarena.sandbox.contract import Prepared, Snapshot
from termarena.sandbox.drivers import has_image
from termarena.sandbox.health import until_healthy
from termarena.sandbox.spec import Feature, Limits, Network, Root, SandboxSpec
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from termarena.sandbox.contract import Driver, Sandbox
    from termarena.sandbox.fetches.plan import FetchPlan
    from termarena.tasks.model import Environment, Healthcheck

__all__ = ["Stage", "StartState", "StartStates"]

MIB: Final = 1 << 20
KEPT_ALIVE: Final = 32
"""How many sealed sandboxes lend their layers to forks, at about 2 MB each; older ones become files on disk."""


@dataclass(frozen=True, slots=True)
class StartState:
    """A task's start state, ready to be started any number of times while its stage is open."""

    digest: str
    """What it is: the root file system, and the recipe that ran on it."""
    image_digest: str | None
    """The engine's own name for the image; None without an engine."""
    is_host_root: bool
    """Whether it lies on this machine's own files: comparable on this machine only, never ranked."""
    build_s: float
    """How long the making took, whoever waited for it."""
    was_cached: bool
    """Whether it was there when it was asked for: from an earlier run, or made for another trial."""
    what: SandboxSpec | Snapshot
    spec: SandboxSpec
    """With the limits, network, variables and working folder of the task."""
    substitutes: tuple[str, ...] = ()
    """The names of images for which this site has set another one: not comparable with the original."""
    healthcheck: Healthcheck | None = None
    _driver: Driver = field(kw_only=True, repr=False)

    def start(self, *, spec: SandboxSpec | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A sandbox in this state, its healthcheck passed, for the length of an `async with`.

        `spec` replaces the state's own, for another user, more variables, a network for grading: take `self.spec` and
        change a copy. Entering raises what a driver's `start` does, and `Unhealthy`.
        """
        return self._start(spec or self.spec)

    @asynccontextmanager
    async def _start(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
        is_fork = isinstance(self.what, Snapshot)
        async with self._driver.start(self.what if is_fork else spec, spec=spec if is_fork else None) as box:
            if self.healthcheck is not None:
                await until_healthy(box, self.healthcheck)
            yield box


class StartStates(Protocol):
    """Where trials get their start states from."""

    async def prepare(self, environment: Environment, *, folder: Path, task: str) -> StartState:
        """See `Stage.prepare`."""

    async def aclose(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made for one key."""

    prepared: Prepared
    digest: str
    snapshot: Snapshot | None = None
    build_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be made."""

    environment: Environment
    spec: SandboxSpec
    recipe: str
    """A digest of what decides it beside the root file system."""
    source: str


class Stage:
    """Start states of tasks on one driver: each is made once, whoever asks first; the others wait for it.

    A failure is told to all who wait; who asks later tries anew. What nobody waits for any more is given up.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        variables: Mapping[str, str] | None = None,
        on_log: Callable[[str], None] | None = None,
        build_timeout_multiplier: float = 1.0,
        fetches: FetchPlan | None = None,
    ) -> None:
        """`variables` fill in `${NAME}` of a task's variables, nothing else does; `on_log` gets a line per build.

        With `fetches` what is downloaded while a state is made is recorded beside its task, or comes from there.
        """
        self._driver = driver
        self._variables = dict(variables or {})
        self._on_log = on_log
        self._multiplier = build_timeout_multiplier
        self._fetches = fetches
        self._jobs: dict[str, asyncio.Task[_Made]] = {}
        self._waiting: dict[asyncio.Task[_Made], int] = {}
        self._sealed: deque[AsyncExitStack] = deque()
        self._snapshots: list[Snapshot] = []

    async def prepare(self, environment: Environment, *, folder: Path, task: str) -> StartState:
        """The start state of an environment; `folder` (where the task lies) and `task` name it in errors.

        Raises `TaskError` for a setup that fails, `BuildError` for an image that does not build and `ImageError` for
        one that cannot be had (both with `cause`), `BuildTimeout` beyond the environment's time, `CapabilityMissing`
        for what the driver cannot do here, `UsageError` for a variable that was not given.
        """
        spec = await self._spec(environment)
        recipe = await asyncio.to_thread(_recipe_digest, environment, spec)
        # A setup may do otherwise within other limits.
        key = f"{recipe} {spec.limits!r}" if spec.root.kind == "host" else recipe
        fetches = None if self._fetches is None else self._fetches.of(folder, task)
        key = key if fetches is None else f"{key} {fetches.folder}"
        job = self._jobs.get(key)
        is_first = job is None or (job.done() and (job.cancelled() or job.exception() is not None))
        if job is None or is_first:
            making = spec.model_copy(update={"fetches": fetches})
            order = _Order(environment, making, recipe, f"{task} ({folder})")
            job = self._jobs[key] = asyncio.create_task(self._make(order))
        made = await self._wait_for(job)
        root = made.prepared.spec
        spec = spec.model_copy(update={"root": root.root, "user": root.user})
        return StartState(
            digest=made.digest,
            image_digest=made.prepared.image_digest,
            is_host_root=root.root.kind == "host",
            build_s=made.build_s,
            was_cached=made.prepared.was_cached if is_first else True,
            what=made.snapshot or spec,
            spec=spec,
            substitutes=made.prepared.substitutes,
            healthcheck=environment.healthcheck,
            _driver=self._driver,
        )

    async def aclose(self) -> None:
        """Give up what is being made, and everything that it holds for forks."""
        for job in self._jobs.values():
            job.cancel()
        await asyncio.gather(*self._jobs.values(), return_exceptions=True)
        self._jobs.clear()
        for snapshot in self._snapshots:
            snapshot.close()
        while self._sealed:
            await self._sealed.popleft().aclose()

    async def _wait_for(self, job: asyncio.Task[_Made]) -> _Made:
        self._waiting[job] = self._waiting.get(job, 0) + 1
        try:
            return await asyncio.shield(job)
        finally:
            self._waiting[job] -= 1
            if self._waiting[job] == 0:
                del self._waiting[job]
                job.cancel()

    async def _spec(self, environment: Environment) -> SandboxSpec:
        features = (await asyncio.to_thread(self._driver.capabilities)).features
        if Feature.HOST_ROOT in features and (environment.bare is not None or not has_image(environment)):
            return bare_spec(environment, variables=self._variables)
        if not has_image(environment):
            why = "the task names no image, no Dockerfile and no compose file"
            raise CapabilityMissing("an image", driver=self._driver.name, why=why, hint="use --driver namespace")
        return image_spec(environment, variables=self._variables)

    # Making.

    async def _make(self, order: _Order) -> _Made:
        timeout_s = order.environment.build_timeout_s * self._multiplier
        began = time.monotonic()
        self._say(f"{order.source}: making the start state")
        try:
            async with asyncio.timeout(timeout_s) as clock:
                made = await (self._from_recipe if order.spec.root.kind == "host" else self._from_image)(order)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise BuildTimeout(order.source, timeout_s=timeout_s) from error
        took = time.monotonic() - began
        self._say(f"{order.source}: made in {took:.1f} s")
        return replace(made, build_s=took)

    def _say(self, line: str) -> None:
        if self._on_log is not None:
            self._on_log(line)

    async def _from_image(self, order: _Order) -> _Made:
        spec = order.spec
        with staged("context") as context:
            if spec.root.path is not None:
                await asyncio.to_thread(order.environment.context.write_to, context)
                placed = spec.root.model_copy(update={"path": context / spec.root.path})
                spec = spec.model_copy(update={"root": placed})
            prepared = await self._driver.prepare(spec)
        return _Made(prepared, prepared.digest)

    async def _from_recipe(self, order: _Order) -> _Made:
        prepared = await self._driver.prepare(order.spec)
        digest = "sha256:" + hashlib.sha256(f"{prepared.digest}\n{order.recipe}".encode()).hexdigest()
        async with AsyncExitStack() as stack:
            box = await stack.enter_async_context(self._driver.start(prepared.spec))
            await prepare_bare(box, order.environment)
            if order.environment.bare is None or order.environment.bare.setup is None:
                return _Made(prepared, digest)
            await box.seal()
            snapshot = await box.snapshot()
            self._snapshots.append(snapshot)
            self._sealed.append(stack.pop_all())
        while len(self._sealed) > KEPT_ALIVE:
            await self._sealed.popleft().aclose()
        return _Made(replace(prepared, was_cached=False), digest, snapshot)


def image_spec(environment: Environment, *, variables: Mapping[str, str] | None = None) -> SandboxSpec:
    """A sandbox of the environment's image, Dockerfile or compose file, whose paths are relative to the context.

    Raises `UsageError` for a variable not given.
    """
    limits: dict[str, Any] = {"cpus": environment.cpus}
    if environment.memory_mb is not None:
        limits["memory_bytes"] = max(environment.memory_mb, 16) * MIB
    if environment.storage_mb is not None:
        limits["disk_bytes"] = environment.storage_mb * MIB
    if environment.compose is not None:
        root = Root(kind="compose", path=Path(environment.compose), image=environment.image)
    elif environment.image is not None:
        root = Root(kind="image", image=environment.image)
    else:
        root = Root(kind="dockerfile", path=Path())
    return SandboxSpec(
        root=root,
        limits=Limits(**limits),
        network=Network(mode=environment.network.mode, allowed_hosts=environment.network.allowed_hosts),
        env=filled_in(environment.env, variables or {}),
        workdir=environment.workdir,
        runs_entrypoint=True,
    )


def _recipe_digest(environment: Environment, spec: SandboxSpec) -> str:
    """Of what decides a start state, as far as it is known before it is made. Reads the context's files."""
    view: dict[str, Any] = {"root": [spec.root.kind, spec.root.image, environment.compose]}
    if spec.root.kind != "image":
        view["context"] = environment.context.digests()
    if spec.root.kind == "host" and environment.bare is not None:
        view |= {
            "setup": environment.bare.setup,
            "requires": environment.bare.requires,
            "env": spec.env,
            "network": spec.network.model_dump(mode="json"),
            "workdir": spec.workdir,
        }
    return hashlib.sha256(json.dumps(view, sort_keys=True).encode()).hexdigest()
