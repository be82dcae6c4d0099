"""The interfaces that the broker speaks with agents."""

from __future__ import annotations
