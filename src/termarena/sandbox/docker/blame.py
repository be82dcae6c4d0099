"""Whose fault it is that an image cannot be had, by evidence: the engine's answers, its disk, the step that failed."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.core.errors import EngineError
from termarena.sandbox.counters import room_of
from termarena.sandbox.docker.client import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.core.errors import Cause
    from termarena.sandbox.docker.client import Engine

__all__ = ["Failure", "blame_for_build", "blame_for_pull", "pull_query"]

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
INSTRUCTION_AT: Final = 3
"""`Step 2/3 : RUN make` → the words from RUN on."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a build ended."""

    step: str
    """As the builder tells it; empty before the first."""
    exit_code: int | None = None
    """Of the command that failed, where one did."""
    error: EngineError | None = None
    """The engine refused, or went away."""


async def blame_for_build(engine: Engine, failure: Failure) -> Cause | None:
    """None where there is no evidence either way."""
    if (failure.error is not None and failure.error.status is None) or await _is_disk_full(engine):
        return "infra"
    if failure.exit_code is not None:
        return "task"
    words = failure.step.split()[INSTRUCTION_AT:]
    if not words:
        is_refused = failure.error is not None and failure.error.status == BAD_REQUEST
        return "task" if is_refused else None
    name = words[0].upper()
    if name == "FROM":
        image = next((word for word in words[1:] if not word.startswith("--")), "")
        return None if "$" in image or not image else await _blame_for_base(engine, image)
    is_fetched = name == "ADD" and any(word.startswith(("http://", "https://", "git@")) for word in words)
    return "infra" if is_fetched else "task"


def blame_for_pull(status: int | None) -> Cause:
    """From the status of a refused pull: a registry that answers says when there is no such image."""
    return "task" if status == NOT_FOUND else "infra"


async def _blame_for_base(engine: Engine, image: str) -> Cause:
    """Ask the engine for the image that a build begins with, to hear the registry's own answer."""
    try:
        async with engine.open(Request("POST", "/images/create", pull_query(image))) as body:
            await body.all()
    except EngineError as error:
        return blame_for_pull(error.status)
    return "infra"


def pull_query(image: str) -> Mapping[str, str]:
    """What to pull: without a tag, the latest only."""
    is_exact = "@" in image or ":" in image.rpartition("/")[2]
    return {"fromImage": image if is_exact else f"{image}:latest"}


async def _is_disk_full(engine: Engine) -> bool:
    """Whether the disk under the engine's data has no room; False where it cannot be seen from here."""
    try:
        folder = (await engine.call("GET", "/info")).json()["DockerRootDir"]
        return room_of(await asyncio.to_thread(os.statvfs, folder)).is_full
    except (EngineError, OSError, KeyError):
        return False
