"""Waiting for a descriptor without holding up the event loop."""

from __future__ import annotations

import asyncio

__all__ = ["until_readable", "until_writable"]


async def until_readable(fd: int) -> None:
    """Wait until a descriptor has something: for a pidfd, until its process has ended."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def until_writable(fd: int) -> None:
    """Wait until a descriptor takes more, or nobody reads it any longer."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(fd)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
