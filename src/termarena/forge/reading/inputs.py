"""What a recording itself says about its commands: the one that was recorded, or the keys that were pressed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from termarena.forge.transcript import Command, Tier

if TYPE_CHECKING:
    from termarena.forge.casts import Recording

__all__ = ["recorded_command"]

HEADER_CONFIDENCE: Final = 0.9
KEYS_CONFIDENCE: Final = 0.5
_SHELL: Final = re.compile(
    r"(?:\S*/)?(?:ba|z|fi|da|k|tc)?sh(?:\.exe)?(?: -?-?[a-z]+)*|(?:\S*[/\\\\])?(?:pwsh|powershell|cmd)(?:\.exe)?.*"
)
_MOVES: Final = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z])|\t|[\x00-\x06\x0b\x0c\x0e-\x14\x16\x18-\x1a]")


def recorded_command(recording: Recording, text: str) -> tuple[Command, ...]:
    """The command in the header, unless that is only a shell; else the lines that were typed, as far as keys tell."""
    given = recording.header.get("command")
    if isinstance(given, str) and given.strip() and not _SHELL.fullmatch(given.strip()):
        end_s = recording.events[-1].at_s if recording.events else 0.0
        status = next((event.text for event in recording.events if event.code == "x"), "")
        return (
            Command(
                text=given.strip(),
                output=text,
                tier=Tier.INPUT,
                confidence=HEADER_CONFIDENCE,
                ended_s=end_s,
                exit_status=int(status) if re.fullmatch(r"-?\d{1,4}", status) else None,
            ),
        )
    return _typed(recording)


def _typed(recording: Recording) -> tuple[Command, ...]:
    """Lines out of key presses; one with cursor keys or completion in it cannot be known and is left out."""
    found: list[Command] = []
    line, began_s = "", 0.0
    for event in recording.events:
        if event.code != "i":
            continue
        for piece in re.split(r"([\r\n])", event.text):
            if piece in ("\r", "\n"):
                if (text := _edited(line).strip()) and not _MOVES.search(line):
                    found.append(
                        Command(
                            text=text,
                            output="",
                            tier=Tier.INPUT,
                            confidence=KEYS_CONFIDENCE,
                            began_s=began_s,
                            ended_s=event.at_s,
                        )
                    )
                line = ""
            elif piece:
                began_s = began_s if line else event.at_s
                line += piece
    return tuple(found)


def _edited(line: str) -> str:
    """The line after its own corrections: rubbed-out characters, words and lines."""
    kept = ""
    for key in line:
        if key in "\x7f\b":
            kept = kept[:-1]
        elif key == "\x15":
            kept = ""
        elif key == "\x17":
            kept = re.sub(r"\S+\s*$", "", kept)
        else:
            kept += key
    return kept
