"""Reading: what a recording shows, as data. The emulator decides what was on the screen; no line is guessed twice."""

from __future__ import annotations

from termarena.forge.reading.reading import read, read_bytes, read_loaded

__all__ = ["read", "read_bytes", "read_loaded"]
