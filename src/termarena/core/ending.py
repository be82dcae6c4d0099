"""Ending tasks that clean up after themselves."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["cancel_once", "end_tasks"]


def cancel_once(task: asyncio.Task[Any]) -> None:
    """A second word would end the cleaning up as well."""
    if not task.cancelling():
        task.cancel()


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel each once, and return when all have cleaned up. Whoever cancels this meanwhile waits for that too."""
    for task in tasks:
        cancel_once(task)
    stopped: asyncio.CancelledError | None = None
    while under_way := {task for task in tasks if not task.done()}:
        try:
            await asyncio.wait(under_way)
        except asyncio.CancelledError as error:
            stopped = error
    if stopped is not None:
        raise stopped
