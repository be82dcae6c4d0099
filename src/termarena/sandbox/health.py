"""Waiting until a task's environment says that it is ready."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from termarena.core.errors import Unhealthy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.sandbox.contract import Sandbox
    from termarena.tasks.model import Healthcheck

__all__ = ["until_healthy"]

SHOWN_CHARACTERS: Final = 500


async def until_healthy(box: Sandbox, check: Healthcheck, *, argv: Sequence[str] = ()) -> None:
    """Run the command, or `argv` instead, until it succeeds, by Docker's rules.

    There is one more try at the very beginning, when a failure is free.

    A failure within the start period does not count and is tried again after the start interval; later ones count, at
    the interval, and the last of `retries` in a row raises `Unhealthy`. A try that takes longer than its timeout is a
    failure.
    """
    began = time.monotonic()
    failures = -1
    while True:
        tried = await box.exec(argv or ["sh", "-c", check.command], timeout_s=check.timeout_s)
        if tried.exit_status == 0:
            return
        elapsed_s = time.monotonic() - began
        is_starting = elapsed_s < check.start_period_s
        if not is_starting or failures < 0:
            failures += 1
        if failures >= check.retries:
            said = (tried.stderr or tried.stdout).decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
            raise Unhealthy(check.command, failures=failures, after_s=elapsed_s, output=said)
        await asyncio.sleep(check.start_interval_s if is_starting else check.interval_s)
