"""The recordings of our own, and what was typed in them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDER", "SESSIONS", "Session"]

FOLDER = Path(__file__).parent.parent / "data" / "forge"
_SUFFIXES = {"1": ".json", "2": ".cast", "3": ".cast", "typescript": ".typescript", "txt": ".txt"}


@dataclass(frozen=True)
class Session:
    name: str
    title: str
    shell: str
    form: str
    evidence: str
    typed: tuple[str, ...]

    @property
    def path(self) -> Path:
        return FOLDER / (self.name + _SUFFIXES[self.form])


def _sessions() -> tuple[Session, ...]:
    found = tomllib.loads((FOLDER / "sessions.toml").read_text())["session"]
    plain = ("name", "title", "shell", "form", "evidence")
    return tuple(
        Session(
            **{name: session[name] for name in plain},
            typed=tuple(line if isinstance(line, str) else line["text"] for line in session["lines"]),
        )
        for session in found
    )


SESSIONS = _sessions()
