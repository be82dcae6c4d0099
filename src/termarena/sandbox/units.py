"""Times and sizes as Dockerfiles and compose files write them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["bytes_of", "nanoseconds_of"]

_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|ms|s|m|h)")
_NANOSECONDS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)b?", re.IGNORECASE)
_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def nanoseconds_of(text: str) -> int:
    """`1m30s` and its like; raises `ValueError`."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text} is no duration")
    return sum(int(float(number) * _NANOSECONDS[unit]) for number, unit in parts)


def bytes_of(text: str) -> int:
    """`64m`, `1gb`, `4096`; raises `ValueError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text} is no size")
    return int(float(found[1]) * _BYTES[found[2].lower()])
