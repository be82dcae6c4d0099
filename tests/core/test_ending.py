"""Ending tasks: once, and not before they have cleaned up."""

from __future__ import annotations

import asyncio

import pytest

from termarena.core.ending import end_tasks


class _Tidy:
    """Works until it is cancelled, then cleans up until it may end."""

    def __init__(self) -> None:
        self.cleaning, self.may_end = asyncio.Event(), asyncio.Event()
        self.is_clean = False

    async def work(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.cleaning.set()
            await self.may_end.wait()
            self.is_clean = True


async def test_a_second_word_does_not_end_the_cleaning_up() -> None:
    tidy = _Tidy()
    working = asyncio.create_task(tidy.work())
    await asyncio.sleep(0)
    ending = [asyncio.create_task(end_tasks(working)) for _ in range(2)]
    await tidy.cleaning.wait()
    ending[0].cancel()
    await asyncio.sleep(0)
    assert not any(task.done() for task in ending)
    tidy.may_end.set()
    await ending[1]
    with pytest.raises(asyncio.CancelledError):
        await ending[0]
    assert tidy.is_clean
    assert working.cancelled()


async def test_what_has_ended_is_as_it_was() -> None:
    done = asyncio.create_task(asyncio.sleep(0, "result"))
    await done
    await end_tasks(done)
    await end_tasks()
    assert done.result() == "result"
