"""How many processors this process may use."""

from __future__ import annotations

import os

__all__ = ["usable_processors"]


def usable_processors() -> int:
    """Those in our affinity; on systems that have none (macOS) all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
