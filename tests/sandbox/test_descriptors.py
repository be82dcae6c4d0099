"""Waiting for descriptors."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest

from termarena.sandbox.descriptors import until_readable, until_writable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


@pytest.mark.parametrize(("wait", "end"), [(until_readable, 0), (until_writable, 1)])
async def test_a_wait_that_is_cancelled_the_moment_it_ends_complains_to_nobody(
    wait: Callable[[int], Coroutine[Any, Any, None]], end: int
) -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    pipe = os.pipe()
    os.write(pipe[1], b"there is something, and there is room")
    waiting = asyncio.create_task(wait(pipe[end]))
    try:
        # The first turn of the loop begins the wait; in the second the descriptor is found ready, behind this test.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    finally:
        for fd in pipe:
            os.close(fd)
    assert complaints == []
