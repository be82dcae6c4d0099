"""Reading a recording: from its bytes to a transcript."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from termarena.forge.casts import load_recording, parse_recording
from termarena.forge.reading.facts import facts_of
from termarena.forge.reading.page import Page
from termarena.forge.reading.playing import play
from termarena.forge.reading.resolving import resolve
from termarena.forge.reading.tape import tape_of
from termarena.forge.reading.watching import LineWatcher
from termarena.forge.transcript import Transcript

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.casts import Recording

__all__ = ["read", "read_bytes"]

QUIET_S: Final = 0.12
"""Prompts arrive in one burst; people type later than this."""


def read(path: Path) -> Transcript:
    """Read one recording; raises `RecordingError` for a file that is none."""
    raw, recording = load_recording(path)
    return _transcript(recording, source=str(path), digest=_digest(raw))


def read_bytes(raw: bytes, *, source: str) -> Transcript:
    """Read a recording that is in memory; raises `ValueError` for what is none."""
    return _transcript(parse_recording(raw), source=source, digest=_digest(raw))


def _digest(raw: bytes) -> str:
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _transcript(recording: Recording, *, source: str, digest: str) -> Transcript:
    tape = tape_of(recording.events)
    with Page(recording.cols, recording.rows) as page:
        watcher = LineWatcher(page, marks=tape.has_marks("B", "C"))
        text = play(tape, page, watcher, tape.quiets(QUIET_S))
    commands = resolve(watcher.drafts)
    return Transcript(
        source=source,
        digest=digest,
        title=_title(recording),
        version=recording.version,
        cols=recording.cols,
        rows=recording.rows,
        duration_s=recording.events[-1].at_s if recording.events else 0.0,
        commands=commands,
        facts=facts_of(recording, commands, text),
        text=text,
        alternate_screen=tape.has_alternate,
        trouble=recording.trouble,
    )


def _title(recording: Recording) -> str:
    title = recording.header.get("title")
    return title if isinstance(title, str) else ""
