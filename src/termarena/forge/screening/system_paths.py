"""Paths that no session may remove or open as a whole: the machine's, and a person's home."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from termarena.shell.remembering import UNKNOWN, placed

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SYSTEM", "first_whole"]

SYSTEM: Final = (
    r"(?:/|/(?:bin|boot|dev|etc|home|lib|lib32|lib64|opt|proc|root|sbin|srv|sys|usr|var|Users|System|Library)"
    r"|/usr/(?:bin|sbin|lib|lib32|lib64|libexec|share|include|local)|/var/lib"
    r"|/etc/(?:passwd|shadow|group|gshadow|sudoers|fstab))"
)
"""Folders that hold more than a session's own, and the files without which nobody can log in."""
_EVERYTHING: Final = rf"\*+|\.\*|\?\*|\.?\[[^\]/]*\]\*|{UNKNOWN}"
_WHOLE: Final = re.compile(
    rf"(?:~|{UNKNOWN}(?=/)|{SYSTEM})/?(?:{_EVERYTHING})?/?|{UNKNOWN}/\*?|~\w*"
    r"|/[^/.]*[*?\[][^/.]*"  # several of the root's folders
    r"|(?:\.\./)*\.\.(?:/\*)?"  # what lies around the folder that the session began in
)
_BRACES: Final = re.compile(r"(.*?)\{([^{}]*,[^{}]*)\}(.*)", re.DOTALL)
MOST_PATHS: Final = 64


def first_whole(words: Iterable[str], cwd: str) -> str | None:
    """The first word that names such a path for a command that runs in `cwd`."""
    for word in words:
        if any(_WHOLE.fullmatch(placed(path, cwd)) for path in _braces(word)):
            return word
    return None


def _braces(word: str) -> list[str]:
    """The words that `/{bin,usr}` stands for; those beyond reading as they are."""
    waiting = [word]
    done: list[str] = []
    while waiting and len(waiting) + len(done) < MOST_PATHS:
        found = _BRACES.fullmatch(one := waiting.pop())
        if found is None:
            done.append(one)
        else:
            waiting += [found[1] + part + found[3] for part in found[2].split(",")]
    return done + waiting
