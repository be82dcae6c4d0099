"""Properties are tried on the same examples every time, with no deadline that a busy machine could miss."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("stats", deadline=None, derandomize=True)
settings.load_profile("stats")
