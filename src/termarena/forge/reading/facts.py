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
    # What a machine prints about itself comes before what only hints at it. The words are searched for first.
    ("debian", ("Debian GNU/Linux", "ID=debian"), r"Debian GNU/Linux(?: (\d+))?|^ID=debian$"),
    ("ubuntu", ("Ubuntu ", "ID=ubuntu"), r"\bUbuntu (\d\d\.\d\d)|^ID=ubuntu$"),
    ("fedora", ("Fedora", ".fc", "ID=fedora"), r"\bFedora(?: Linux)?(?: release)? (\d+)|\.fc(\d\d)\b|^ID=fedora$"),
    (
        "rhel",
        ("CentOS", "Red Hat", "Rocky", "AlmaLinux", ".el"),
        r"\b(?:CentOS|Red Hat|Rocky|AlmaLinux)[A-Za-z ]* (\d+)|\.el(\d)\b",
    ),
    ("alpine", ("Alpine Linux", "/alpine/v"), r"\bAlpine Linux(?: v?([\d.]+))?|^fetch http\S*/alpine/v([\d.]+)/"),
    ("arch", ("Arch Linux", ":: Synchronizing"), r"\bArch Linux\b|^:: Synchronizing package databases"),
    (
        "macos",
        ("Darwin Kernel", "/opt/homebrew/", "/usr/local/Cellar/", "macOS ", "/Users/"),
        r"\bDarwin Kernel\b|/opt/homebrew/|/usr/local/Cellar/|\bmacOS (\d+)|^/Users/\w",
    ),
    ("windows", ("Microsoft Windows [", ":\\"), r"\bMicrosoft Windows \[|^(?:PS )?[A-Z]:\\[^\n]*>"),
)
LOOKED_AT: Final = 20_000
"""Characters from the beginning, in which the first prompts stand."""
_IDENTITY: Final = re.compile(r"^[\[(]?([a-z_][\w.-]{0,31})@([\w.-]{1,63})\b", re.MULTILINE)
_TITLE: Final = re.compile(r"\x1b(?:\][02];|k)([a-z_][\w.-]{0,31})@([\w.-]{1,63})\b")
_HOME: Final = re.compile(r"/(?:home|Users)/[\w.-]+")


def facts_of(recording: Recording, commands: Sequence[Command], text: str) -> Facts:
    """Look into the header first, then into what was printed."""
    header_env = recording.header.get("env")
    env = header_env if isinstance(header_env, dict) else {}
    system, release = _system(text)
    identity = _IDENTITY.search(text[:LOOKED_AT]) or _named_in_titles(recording)
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


def _named_in_titles(recording: Recording) -> re.Match[str] | None:
    """Who and where, as shells write it over their window."""
    titles = (_TITLE.search(event.text) for event in recording.events[:LOOKED_AT] if event.code == "o")
    return next((found for found in titles if found), None)


def _system(text: str) -> tuple[str | None, str | None]:
    for name, markers, pattern in _SYSTEMS:
        is_likely = any(marker in text for marker in markers)
        if is_likely and (found := re.search(pattern, text, re.MULTILINE)):
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
