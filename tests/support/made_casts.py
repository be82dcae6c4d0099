"""Recordings made of a few events, read at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from termarena.forge.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.forge.transcript import Command, Transcript

__all__ = ["keys", "read_made", "texts"]


def read_made(*events: tuple[float, str] | tuple[float, str, str], **header: object) -> Transcript:
    """Events are (silence before it, text), or (silence, code, text)."""
    at, lines = 0.0, [json.dumps({"version": 2, "width": 80, "height": 24, **header})]
    for event in events:
        at += event[0]
        lines.append(json.dumps([at, *(event[1:] if len(event) == 3 else ("o", event[1]))]))
    return read_bytes("\n".join(lines).encode(), source="made.cast")


def keys(text: str, pause_s: float = 0.1) -> Iterable[tuple[float, str]]:
    """One event for each key."""
    return ((pause_s, key) for key in text)


def texts(commands: Iterable[Command]) -> list[str]:
    """What was typed."""
    return [command.text for command in commands]
