"""Playing a recording on the reader's own terminal, with keys to pause, step, hurry and leave."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.cli.attaching import raw_mode, write_all
from termarena.cli.taming import RESET, Tamer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from termarena.sandbox.terminal import Cast

__all__ = ["Pace", "Player"]

FASTER: Final = 1.5
READ_BYTES: Final = 1024
KEYS = "space: pause, .: step, + and -: speed, q: leave"


@dataclass
class Pace:
    """How fast; `idle_limit_s` shortens every longer silence, None none."""

    speed: float = 1.0
    idle_limit_s: float | None = None

    def wait_s(self, silence_s: float) -> float:
        """How long a silence of the recording lasts here."""
        shortened = silence_s if self.idle_limit_s is None else min(silence_s, self.idle_limit_s)
        return max(0.0, shortened) / self.speed


class Player:
    """Plays one recording. The terminal is put back however it ends."""

    def __init__(self, cast: Cast, pace: Pace) -> None:
        """Nothing is shown yet."""
        self._events = [event for event in cast.events if event.code == "o"]
        self._pace = pace
        self._tamer = Tamer()
        self._is_paused = False
        self._has_left = False
        self._steps = 0
        self._keys, self._view = sys.stdin.fileno(), sys.stdout.fileno()

    def play(self) -> bool:
        """Play to the end or until the reader leaves; whether the end was reached."""
        with raw_mode(leave=RESET):
            try:
                shown_at_s = 0.0
                for event in self._events:
                    self._wait(self._pace.wait_s(event.at_s - shown_at_s))
                    if self._has_left:
                        return False
                    shown_at_s = event.at_s
                    write_all(self._view, self._tamer.pass_on(event.text).encode("utf-8", "replace"))
            finally:
                # What is still typed was meant for the player, and must not reach the shell.
                termios.tcflush(self._keys, termios.TCIFLUSH)
        return True

    def _wait(self, seconds: float) -> None:
        """Let the silence pass, taking keys meanwhile; a pause does not use it up."""
        while not (self._has_left or self._steps):
            started = time.monotonic()
            is_typed = bool(select.select([self._keys], [], [], None if self._is_paused else seconds)[0])
            if not self._is_paused:
                seconds = max(0.0, seconds - (time.monotonic() - started))
            if is_typed:
                before = self._pace.speed
                self._take(os.read(self._keys, READ_BYTES))
                seconds *= before / self._pace.speed
            if not (self._is_paused or seconds):
                return
        self._steps = max(0, self._steps - 1)

    def _take(self, keys: Sequence[int]) -> None:
        for key in map(chr, keys or b"q"):
            if key in "q\x03\x04":
                self._has_left = True
            elif key == " ":
                self._is_paused, self._steps = not self._is_paused, 0
            elif key == "." and self._is_paused:
                self._steps += 1
            elif key in "+=":
                self._pace.speed *= FASTER
            elif key == "-":
                self._pace.speed /= FASTER
