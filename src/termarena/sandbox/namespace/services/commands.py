"""What each service runs, and how: the file's words where it has some, its image's where it has none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import ImageError
from termarena.sandbox.namespace.services.reading import health_of_image
from termarena.sandbox.namespace.services.values import unsupported
from termarena.sandbox.spec import PROXY_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.images import ImageConfig
    from termarena.sandbox.namespace.services.model import Health, Service

__all__ = ["Order", "check_ports", "order_of"]

_NO_HOSTNAME: Final = re.compile(r"[^A-Za-z0-9.-]")
LONGEST_HOSTNAME: Final = 63


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run in a service's sandbox."""

    argv: tuple[str, ...]
    """Empty: nothing, as in a main service that waits for commands."""
    environment: Mapping[str, str]
    workdir: str
    user: str
    hostname: str
    health: Health | None
    ports: frozenset[str]
    """Where it says that it listens; none where nothing runs."""


def order_of(service: Service, config: ImageConfig, *, is_main: bool) -> Order:
    """Docker's rules: an entrypoint of the file replaces the image's and its command too.

    Raises `ImageError` for a service that nothing says a command for.
    """
    argv: tuple[str, ...] = ()
    if not is_main or service.has_own_command:
        own = service.entrypoint is not None
        head = service.entrypoint if own else config.entrypoint
        words = service.command if service.command is not None else None if own else config.cmd
        argv = (*(head or ()), *(words or ()))
        if not argv:
            raise ImageError(service.name, "neither the compose file nor its image has a command", cause="task")
    health = health_of_image(config.healthcheck, source=service.name) if service.health is None else service.health
    return Order(
        argv=argv,
        environment={**config.environment, **service.environment},
        workdir=service.workdir or config.workdir or "/",
        user=service.user or config.user or "root",
        hostname=(_NO_HOSTNAME.sub("-", service.hostname or service.name).strip("-.") or "service")[:LONGEST_HOSTNAME],
        health=None if health == "none" else health,
        ports=service.ports | frozenset(config.ports) if argv else frozenset(),
    )


def check_ports(orders: Mapping[str, Order], *, has_proxy: bool) -> None:
    """Raise `CapabilityMissing` for two services that say that they listen on one port: their network is one."""
    taken = {f"{PROXY_PORT}/tcp": "the sandbox's own proxy"} if has_proxy else {}
    for name, order in orders.items():
        for port in sorted(order.ports):
            if port in taken:
                raise unsupported(f"port {port} of {name}", f"{taken[port]} has it, and all services share one network")
            taken[port] = name
