"""Many battles at once, a third of them with whites that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from battles.greens import green_at
from battles.hostile import hostile_at
from battles.whites import White, white_at
from support.tasks import Made, make_task
from termarena.battles.config import GreenConfig, LimitSettings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.timeout(300)]

BATTLES = 30
MANNERS = [
    "hangs-up",
    "error",
    "breaks-off",
    "garbage",
    "nonsense",
    "floods",
    "silent",
    "endless-line",
    "twice",
    "silent",
]


@pytest.mark.soak
async def test_thirty_at_once_and_the_honest_ones_are_unaffected(tmp_path: Path, home: Path) -> None:
    tasks = (
        make_task(tmp_path / "tasks" / "one", Made(agent_s=120.0)),
        make_task(tmp_path / "tasks" / "short", Made(agent_s=5.0)),
    )
    config = GreenConfig(driver="namespace", limits=LimitSettings(trials_at_once=30))
    async with contextlib.AsyncExitStack() as stack:
        green = await stack.enter_async_context(green_at(tmp_path, home, tasks=tasks, config=config))
        urls, silent = [], set()
        for number in range(BATTLES):
            if number % 3:
                urls.append(await stack.enter_async_context(white_at(White())))
            else:
                hostile = await stack.enter_async_context(hostile_at(MANNERS[number // 3]))
                urls.append(hostile.url)
                silent |= {hostile.url} if hostile.manner == "silent" else set()
        await green.battle(urls[1], task="one")  # whatever is made once is there
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
        results = await asyncio.gather(*(green.battle(url, task="short" if url in silent else "one") for url in urls))
        after = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count
    ends = [result["rows"][0] for result in results]
    honest = [row for number, row in enumerate(ends) if number % 3]
    others = [row for number, row in enumerate(ends) if not number % 3]
    assert [row["outcome"] for row in honest] == ["solved"] * 20
    assert {row["outcome"] for row in others} == {"unsolved"}
    assert {row["failure_mode"] for row in others} == {"AGENT_ERROR", "AGENT_TIMEOUT", "TEST_FAILED"}
    assert after < before + 90  # open connections of clients and servers that are still there, and no sandbox
