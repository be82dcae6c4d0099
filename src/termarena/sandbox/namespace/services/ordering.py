"""Which service waits for which."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.namespace.services.model import Service

__all__ = ["awaited_by", "check_order"]


def awaited_by(service: Service) -> tuple[str, ...]:
    """The services that have to be there before this one: those it waits for, and those it links to."""
    return tuple(dict.fromkeys((*service.waits_for, *(name for name, _ in service.links))))


def check_order(services: Mapping[str, Service], *, source: str) -> None:
    """Raise `TaskFormatError` for a service that waits for none of the file's, or for itself in the end."""
    for name, service in services.items():
        for other in awaited_by(service):
            if other not in services:
                raise TaskFormatError(
                    source, field=f"services.{name}.depends_on", found=other, expected=f"one of {', '.join(services)}"
                )
    try:
        TopologicalSorter({name: awaited_by(service) for name, service in services.items()}).prepare()
    except CycleError as error:
        raise TaskFormatError(
            source, field="services", found=f"a circle: {' -> '.join(error.args[1])}", expected="services in an order"
        ) from error
