"""What a recording shows, read once: the commands somebody typed, what each printed, and how sure we are of it.

Reading makes a `Transcript`; every later stage takes one and never looks at the recording's bytes again.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from pydantic import BaseModel, ConfigDict

REPOSITORY: Final = re.compile(r"https?://(?:github|gitlab|codeberg|bitbucket)\.[a-z]+/[\w.-]+/[\w.-]+(?<![.])")
"""The address of a repository in a text."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tier(StrEnum):
    """The evidence a command's borders rest on, best first."""

    MARKS = "marks"  # the shell's own marks (OSC 133 or 633)
    PASTE = "paste"  # bracketed paste, switched on exactly while a line is edited
    PROMPT = "prompt"  # a prompt whose shape repeats
    INPUT = "input"  # recorded key presses, or the command that was recorded
    TEXT = "text"  # a transcript without timing


class Command(_Frozen):
    """One command line as it was run; continuation lines and here-documents are part of `text`."""

    text: str
    output: str
    tier: Tier
    confidence: float
    began_s: float = 0.0
    ended_s: float = 0.0
    cwd: str | None = None
    exit_status: int | None = None
    interactive: bool = False  # it took over the screen (alternate screen, or full-screen drawing)
    shell: bool = True  # False: input to something else (a REPL, psql, redis-cli)


class Facts(_Frozen):
    """What the recording says about the machine it was made on; None where it says nothing."""

    shell: str | None = None
    system: str | None = None  # "debian", "ubuntu", "fedora", "macos", "windows" …
    release: str | None = None
    user: str | None = None
    host: str | None = None
    home: str | None = None
    recorded_at: str | None = None  # ISO 8601, UTC


class Transcript(_Frozen):
    """A recording as data. `source` names it (path or address), `digest` is of its bytes."""

    source: str
    digest: str
    title: str = ""
    licence: str | None = None  # what it may be used under, where that is known
    repository: str | None = None  # the one it lies in, or whose address stands beside it
    version: str  # "1", "2", "3", "typescript" or "txt"
    cols: int
    rows: int
    duration_s: float
    commands: tuple[Command, ...]
    facts: Facts = Facts()
    text: str = ""  # the primary screen with its scroll-back, soft-wrapped lines joined
    alternate_screen: bool = False
    inside_alternate: bool = False  # all of the session is there, and was read as if it were on the primary one
    trouble: tuple[str, ...] = ()  # what the reader had to forgive, one sentence each


def public_name(source: str) -> str:
    """A recording's address, or the name of its file: where that lies is nobody's business."""
    return source if "://" in source else PurePath(source).name
