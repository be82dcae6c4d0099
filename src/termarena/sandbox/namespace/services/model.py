"""What a compose file says, as far as embedded sandboxes follow it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from termarena.sandbox.spec import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.tasks.model import Healthcheck

__all__ = ["Build", "Composition", "Condition", "Health", "Memory", "Service", "Use", "Volume"]

Condition = Literal["service_started", "service_healthy", "service_completed_successfully"]


@dataclass(frozen=True, slots=True)
class Build:
    """What a service's image is built from; paths are relative to the compose file."""

    context: str
    dockerfile: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    """A folder, or a file, that services may share; it lives as long as they do."""

    name: str
    source: str | None = None
    """What it begins with: a path relative to the compose file."""


@dataclass(frozen=True, slots=True)
class Use:
    """A volume in a service."""

    volume: Volume
    at: str
    is_writable: bool = True
    fills: bool = True
    """Whether an empty volume begins with what the image has there."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A folder in memory."""

    at: str
    size_bytes: int = 1 << 30
    mode: int = 0o1777


@dataclass(frozen=True, slots=True)
class Health:
    """How a service is asked whether it is ready."""

    argv: tuple[str, ...]
    rules: Healthcheck


@dataclass(frozen=True, slots=True)
class Service:
    """One service. What is None is as its image has it."""

    name: str
    image: str | None = None
    build: Build | None = None
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    hostname: str | None = None
    names: tuple[str, ...] = ()
    """What others call it beside its own name."""
    hosts: tuple[tuple[str, str], ...] = ()
    """Address and name of what else it knows."""
    links: tuple[tuple[str, str], ...] = ()
    """Service, and what this one calls it."""
    waits_for: Mapping[str, Condition] = field(default_factory=dict)
    health: Health | Literal["none"] | None = None
    uses: tuple[Use, ...] = ()
    memories: tuple[Memory, ...] = ()
    limits: Limits = field(default_factory=Limits)
    ports: frozenset[str] = frozenset()
    """`80/tcp`: where it says that it listens."""

    @property
    def has_own_command(self) -> bool:
        """Whether the file says what it runs."""
        return bool(self.command or self.entrypoint)


@dataclass(frozen=True, slots=True)
class Composition:
    """A whole file."""

    services: Mapping[str, Service]

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """All that are used, each once."""
        return tuple(dict.fromkeys(use.volume for service in self.services.values() for use in service.uses))
