"""Services brought up in their order: each in a sandbox of its own, its command running, its healthcheck passed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import SandboxBroken, SandboxStartError, ServiceFailed, Unhealthy
from termarena.sandbox.compositions import own_user
from termarena.sandbox.fetches.trust import TRUST_FILES, trust_environment
from termarena.sandbox.health import until_healthy
from termarena.sandbox.namespace.services.box import ServiceLog, ServicesSandbox
from termarena.sandbox.namespace.services.commands import Order, check_ports, order_of
from termarena.sandbox.namespace.services.ground import laid
from termarena.sandbox.namespace.services.ordering import awaited_by
from termarena.sandbox.namespace.services.pinning import load_services, root_services
from termarena.sandbox.proxy import Proxy
from termarena.sandbox.spec import PROXY_PORT, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from termarena.sandbox.contract import ExecResult, Snapshot
    from termarena.sandbox.namespace.box import NamespaceSandbox
    from termarena.sandbox.namespace.driver import NamespaceDriver
    from termarena.sandbox.namespace.imageroots import ImageRoots, Rooted
    from termarena.sandbox.namespace.services.ground import Ground
    from termarena.sandbox.namespace.services.model import Composition, Condition

__all__ = ["started"]

UP_TIMEOUT_S: Final = 900.0
"""As long as the docker driver gives Compose."""


@asynccontextmanager
async def started(
    driver: NamespaceDriver, images: ImageRoots, spec: SandboxSpec, *, snapshot: Snapshot | None
) -> AsyncIterator[ServicesSandbox]:
    """The services of a compose file, ready; all of them end with the context.

    Raises what `load_services` and `root_services` do before anything starts, `CapabilityMissing` for users and ports
    that cannot be had here, `ServiceFailed` for a service that ends or does not become healthy.
    """
    loaded = await asyncio.to_thread(load_services, spec)
    rooted = await root_services(images, loaded, spec.fetches)
    orders = _orders(loaded.composition, rooted, spec)
    bringing = _Bringing(driver, images, loaded.composition, orders, rooted, spec, snapshot)
    try:
        async with AsyncExitStack() as stack:
            ground = await stack.enter_async_context(laid(driver, loaded.composition, spec, folder=loaded.path.parent))
            yield await bringing.up(ground, stack)
    finally:
        await asyncio.gather(*bringing.running.values(), return_exceptions=True)


def _orders(composition: Composition, rooted: dict[str, Rooted], spec: SandboxSpec) -> dict[str, Order]:
    main = spec.root.service
    orders = {
        name: order_of(service, rooted[name].image.config, is_main=name == main)
        for name, service in composition.services.items()
    }
    check_ports(orders, has_proxy=spec.network.mode != "none")
    return orders


@dataclass(slots=True)
class _Bringing:
    """The way from a read file to running services."""

    driver: NamespaceDriver
    images: ImageRoots
    composition: Composition
    orders: dict[str, Order]
    rooted: dict[str, Rooted]
    spec: SandboxSpec
    snapshot: Snapshot | None
    boxes: dict[str, NamespaceSandbox] = field(default_factory=dict)
    logs: dict[str, ServiceLog] = field(default_factory=dict)
    running: dict[str, asyncio.Task[ExecResult | None]] = field(default_factory=dict)
    _beginning: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _healing: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def up(self, ground: Ground, stack: AsyncExitStack) -> ServicesSandbox:
        """Start everything; the sandboxes are given to the stack. Raises `ServiceFailed` and what a start raises."""
        for name in self.composition.services:
            self._beginning[name] = asyncio.create_task(self._begin(name, ground, stack))
            self._healing[name] = asyncio.create_task(self._heal(name))
        await self._all([*self._beginning.values(), *self._healing.values()])
        for name, running in self.running.items():
            self._refuse_dead(name, running)
        main = self.boxes[self.spec.root.service]
        if not isinstance(main, ServicesSandbox):
            raise SandboxStartError(f"no sandbox came of the service {self.spec.root.service}")
        others = {name: box for name, box in self.boxes.items() if box is not main}
        main.join(others, self.logs, ground)
        return main

    async def _all(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for all of them; the first that fails ends the others."""
        try:
            done, missing = await asyncio.wait(tasks, timeout=UP_TIMEOUT_S, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        if missing:
            late = [name for name, task in self._healing.items() if task in missing]
            raise SandboxStartError(f"not ready within {UP_TIMEOUT_S:g} s: {', '.join(late)}")

    # One service.

    async def _begin(self, name: str, ground: Ground, stack: AsyncExitStack) -> None:
        service = self.composition.services[name]
        for other in awaited_by(service):
            await self._reached(other, service.waits_for.get(other, "service_started"), by=name)
        is_main = name == self.spec.root.service
        spec = self._spec_of(name, is_main=is_main)
        async with ground.joining(service) as joining:
            box = await stack.enter_async_context(
                self.driver.start_on(
                    spec,
                    self.rooted[name].base,
                    joining,
                    snapshot=self.snapshot if is_main else None,
                    kind=ServicesSandbox if is_main else None,
                )
            )
        self.boxes[name] = box
        self.logs[name] = ServiceLog()
        await self._tell_proxy(box, ground, is_main=is_main)
        order = self.orders[name]
        if order.argv:
            self.running[name] = asyncio.create_task(self._run(name, box, order))
        elif self.spec.runs_entrypoint and self.snapshot is None:
            await self.images.begin(box, self.rooted[name].prepared.spec)

    async def _run(self, name: str, box: NamespaceSandbox, order: Order) -> ExecResult | None:
        """The service's command to its end; None when its sandbox ended before it."""
        try:
            return await box.exec_told(
                order.argv, self.logs[name].take, user=order.user, cwd=order.workdir, env=order.environment
            )
        except SandboxBroken:
            return None

    def _spec_of(self, name: str, *, is_main: bool) -> SandboxSpec:
        order, service = self.orders[name], self.composition.services[name]
        if not is_main:
            return SandboxSpec(
                root=self.rooted[name].prepared.spec.root,
                limits=service.limits,
                env=dict(order.environment),
                workdir=order.workdir,
                hostname=order.hostname,
                user=order.user,
            )
        return self.spec.model_copy(
            update={
                "env": {**order.environment, **self.spec.env},
                "workdir": self.spec.workdir or order.workdir,
                "hostname": order.hostname if service.hostname else self.spec.hostname,
                "user": own_user(self.spec, order.user),
            }
        )

    async def _tell_proxy(self, box: NamespaceSandbox, ground: Ground, *, is_main: bool) -> None:
        """The main service knows the way out, the others a public one; the names of services never take it.

        With a recording the way out is the recording's, whose certificate the ground holds.
        """
        if self.spec.network.mode == "none" or not (is_main or self.spec.network.mode == "public"):
            return
        names = [name for service in self.composition.services.values() for name in (service.name, *service.names)]
        told = Proxy.environment(PROXY_PORT, direct=names)
        if self.spec.fetches is None:
            box.add_environment(told)
            return
        for path in TRUST_FILES:
            await box.write(path, await ground.box.read(path), user="root")
        box.add_environment({**told, **trust_environment()}, is_final=True)

    # Waiting.

    async def _reached(self, name: str, condition: Condition, *, by: str) -> None:
        await asyncio.shield(self._beginning[name])
        if condition == "service_healthy":
            if self.orders[name].health is None:
                raise ServiceFailed(name, f"has no healthcheck, and {by} waits for it to be healthy")
            await asyncio.shield(self._healing[name])
        elif condition == "service_completed_successfully":
            ended = await asyncio.shield(self.running[name]) if name in self.running else None
            if ended is None or ended.exit_status != 0:
                status = "did not end" if ended is None else f"ended with status {ended.exit_status}"
                raise ServiceFailed(name, f"{status}, and {by} waits for it to succeed", self.logs[name].tail())

    async def _heal(self, name: str) -> None:
        await asyncio.shield(self._beginning[name])
        health = self.orders[name].health
        if health is None:
            return
        checking = asyncio.create_task(until_healthy(self.boxes[name], health.rules, argv=health.argv))
        waited: set[asyncio.Task[Any]] = {checking}
        if name in self.running:
            waited.add(self.running[name])
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if checking.done():
                checking.result()
            else:
                self._refuse_dead(name, self.running[name], before="before it was healthy")
        except Unhealthy as error:
            raise ServiceFailed(name, f"is unhealthy: {error}", self.logs[name].tail()) from error
        finally:
            checking.cancel()
            await asyncio.gather(checking, return_exceptions=True)

    def _refuse_dead(self, name: str, running: asyncio.Task[ExecResult | None], *, before: str = "") -> None:
        """Raise `ServiceFailed` for a service whose command has failed, or ended at all where it must not have."""
        if not running.done():
            return
        ended = running.result()
        if before or ended is None or ended.exit_status != 0:
            status = "has gone" if ended is None else f"ended with status {ended.exit_status}"
            raise ServiceFailed(name, f"{status} {before}".strip(), self.logs[name].tail())
