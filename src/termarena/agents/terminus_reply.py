"""The replies of the keystroke loop: a JSON object with analysis, plan, keystrokes and whether the task is done."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final

from termarena.agents.toolbox import HALF

__all__ = ["Keys", "TerminusReply", "read_reply"]

DEFAULT_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 60.0
LONGEST_REPLY: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Keys:
    """Keystrokes to type, and how long to wait for what they start."""

    keystrokes: str
    wait_s: float = DEFAULT_WAIT_S


@dataclass(frozen=True, slots=True)
class TerminusReply:
    """A reply, understood; `problem` says why it was not."""

    keys: tuple[Keys, ...] = ()
    is_done: bool = False
    problem: str | None = None
    warnings: tuple[str, ...] = ()


def read_reply(text: str) -> TerminusReply:
    """What a reply asks for; whatever stands around the object is talk."""
    document = _object(text)
    if document is None:
        return TerminusReply(problem="there is no JSON object with `commands` in your reply")
    commands = document.get("commands")
    if not isinstance(commands, list):
        found = "is missing" if commands is None else "is no list"
        return TerminusReply(problem=f"`commands` {found}; give [] to type nothing")
    warnings: list[str] = []
    keys: list[Keys] = []
    for place, command in enumerate(commands, 1):
        if not isinstance(command, dict) or not isinstance(command.get("keystrokes"), str):
            return TerminusReply(problem=f"command {place} has no text `keystrokes`")
        if HALF.search(command["keystrokes"]):
            return TerminusReply(problem=f"the keystrokes of command {place} hold half a character")
        keys.append(Keys(command["keystrokes"], _wait_s(command.get("duration"), place, warnings)))
    warnings += [f"`{name}` is missing" for name in ("analysis", "plan") if not isinstance(document.get(name), str)]
    return TerminusReply(tuple(keys), document.get("task_complete") is True, warnings=tuple(warnings))


def _wait_s(value: object, place: int, warnings: list[str]) -> float:
    if value is None:
        return DEFAULT_WAIT_S
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        warnings.append(f"the duration of command {place} is no number of seconds: {DEFAULT_WAIT_S:g} was taken")
        return DEFAULT_WAIT_S
    return min(float(value), LONGEST_WAIT_S)


def _object(text: str) -> dict[str, Any] | None:
    """The first object that has commands; one that was not closed at its end is closed."""
    start = text.find("{")
    while 0 <= start < len(text) <= LONGEST_REPLY:
        for ending in ("", "}", "]}", '"}]}'):
            try:
                value, _ = json.JSONDecoder(strict=False).raw_decode(text[start:].rstrip("` \n") + ending)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and ("commands" in value or "task_complete" in value):
                return value
            break
        start = text.find("{", start + 1)
    return None
