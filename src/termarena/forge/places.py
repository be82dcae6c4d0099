"""Where things were on the recorded machine, and where they are in a task: the start folder becomes `/app`."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from termarena.forge.transcript import Transcript

__all__ = ["HOME", "WORKDIR", "Places", "places_of"]

WORKDIR: Final = "/app"
HOME: Final = "/root"
_FIXED: Final = re.compile(r"/(?:bin|boot|dev|etc|lib\w*|proc|root|run|sbin|srv|sys|usr|var|opt)?(?:/[\w.+@/-]*)?")
"""Folders whose place is what they are: a session that began there begins there in the task too. Names that mean
something to a shell or to a Dockerfile are left out."""
_BEFORE: Final = r"(?<![^\s=:,;|&<>(\"'`])"
_AFTER: Final = r"(?=[/\s:,;|&<>)\"'`]|$)"


@dataclass(frozen=True, slots=True)
class Places:
    """Pairs of a recorded path and its place in the task, longest first."""

    workdir: str = WORKDIR
    pairs: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    """Names of people and machines, and what stands for them."""

    def command(self, text: str) -> str:
        """A command with its paths moved; nothing else of it is touched."""
        for recorded, here in self.pairs:
            text = re.sub(_BEFORE + re.escape(recorded) + _AFTER, here, text)
        return text

    def output(self, text: str) -> str:
        """What a command printed, with paths and names moved."""
        text = self.command(text)
        for recorded, here in self.names:
            text = re.sub(rf"(?<!\w){re.escape(recorded)}(?!\w)", here, text)
        return text

    def folder(self, path: str) -> str:
        """A recorded folder's place in the task."""
        moved = self.command(path)
        return posixpath.join(HOME, moved[2:]) if moved.startswith("~/") else (HOME if moved == "~" else moved)


def places_of(transcript: Transcript) -> Places:
    """The places of a session: from the folder it began in, and from what is known about its user."""
    facts = transcript.facts
    home = facts.home or (f"/home/{facts.user}" if facts.user and facts.user != "root" else None)
    start = transcript.commands[0].cwd if transcript.commands else None
    if start is not None and home is not None and start.startswith("~"):
        start = home + start[1:]
    pairs = _home_pairs(home)
    workdir = WORKDIR
    if start is not None and start.startswith("/") and start not in (home, "/"):
        workdir = start if _FIXED.fullmatch(start) else WORKDIR
        pairs |= {start: workdir}
        if home is not None and start.startswith(f"{home}/"):
            pairs["~" + start.removeprefix(home)] = workdir
    elif start in (home, "~") or start is None:
        pairs |= {"~": WORKDIR, "$HOME": WORKDIR, "${HOME}": WORKDIR} | ({home: WORKDIR} if home else {})
    elif start == "/":
        workdir = "/"
    ordered = sorted(pairs.items(), key=lambda pair: -len(pair[0]))
    names = [(name, here) for name, here in ((facts.user, "root"), (facts.host, "sandbox")) if name]
    return Places(workdir, tuple(ordered), tuple(names))


def _home_pairs(home: str | None) -> dict[str, str]:
    return {home: HOME} if home is not None and home != HOME and len(home) > 1 else {}
