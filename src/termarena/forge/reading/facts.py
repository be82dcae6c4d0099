"""What a recording says about the machine it was made on."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Final

from termarena.forge.transcript import Facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.forge.casts import Recording
    from termarena.forge.transcript import Command

__all__ = ["facts_of"]

_SYSTEMS: Final = (
    # What a machine prints about itself comes before what only hints at it.
    ("debian", re.compile(r"Debian GNU/Linux(?: (\d+))?|^ID=debian$", re.MULTILINE)),
    ("ubuntu", re.compile(r"\bUbuntu (\d\d\.\d\d)|^ID=ubuntu$", re.MULTILINE)),
    ("fedora", re.compile(r"\bFedora(?: Linux)?(?: release)? (\d+)|\.fc(\d\d)\b|^ID=fedora$", re.MULTILINE)),
    ("rhel", re.compile(r"\b(?:CentOS|Red Hat|Rocky|AlmaLinux)[A-Za-z ]* (\d+)|\.el(\d)\b")),
    ("alpine", re.compile(r"\bAlpine Linux(?: v?([\d.]+))?|^fetch http\S*/alpine/v([\d.]+)/", re.MULTILINE)),
    ("arch", re.compile(r"\bArch Linux\b|^:: Synchronizing package databases", re.MULTILINE)),
    (
        "macos",
        re.compile(r"\bDarwin Kernel\b|/opt/homebrew/|/usr/local/Cellar/|\bmacOS (\d+)|^/Users/\w", re.MULTILINE),
    ),
    ("windows", re.compile(r"\bMicrosoft Windows \[|^(?:PS )?[A-Z]:\\[^\n]*>", re.MULTILINE)),
)
_IDENTITY: Final = re.compile(r"^[\[(]?([a-z_][\w.-]{0,31})@([\w.-]{1,63})\b", re.MULTILINE)
_HOME: Final = re.compile(r"(?:/home|/Users)/[\w.-]+")


def facts_of(recording: Recording, commands: Sequence[Command], text: str) -> Facts:
    """Look into the header first, then into what was printed."""
    header_env = recording.header.get("env")
    env = header_env if isinstance(header_env, dict) else {}
    system, release = _system(text)
    identity = _IDENTITY.search(text)
    home = _HOME.search(" ".join(command.cwd or "" for command in commands)) or _HOME.search(text)
    shell = _shell(env.get("SHELL"))
    if system is None and shell in ("powershell", "pwsh", "cmd"):
        system = "windows"
    return Facts(
        shell=shell,
        system=system,
        release=release,
        user=identity[1] if identity else None,
        host=identity[2] if identity else None,
        home=home[0] if home else None,
        recorded_at=_when(recording.header.get("timestamp")),
    )


def _system(text: str) -> tuple[str | None, str | None]:
    for name, pattern in _SYSTEMS:
        if found := pattern.search(text):
            return name, next((group for group in found.groups() if group), None)
    return None, None


def _shell(path: object) -> str | None:
    if not isinstance(path, str) or not path:
        return None
    name = PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name
    return name.lower().removesuffix(".exe") or None


def _when(timestamp: object) -> str | None:
    if not isinstance(timestamp, int | float) or not 0 < timestamp < 1 << 33:
        return None
    return datetime.fromtimestamp(timestamp, UTC).isoformat().replace("+00:00", "Z")
