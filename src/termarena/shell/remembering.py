"""What a shell knows from one line to the next: its variables, where it is, which files its lines have made."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from termarena.shell.calls import Call

__all__ = ["FETCHERS", "START", "UNKNOWN", "Memory", "placed", "printed", "unescaped"]

UNKNOWN: Final = "…"
"""Stands in a word for what only running the command would tell."""
START: Final = "."
"""Where a session began, if nothing tells."""
LONGEST_PLACE: Final = 4096
"""As the kernel has it for a path."""
FETCHERS: Final = frozenset({"curl", "wget", "fetch", "aria2c", "lwp-request"})
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|0?([0-7]{1,3})|([ntr\\]))")
_PLAIN_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_ECHO_OPTION: Final = re.compile(r"-[neE]+")


def placed(path: str, cwd: str) -> str:
    """Where a path of a command leads that is run in `cwd`: absolute, below `~`, or from where the session began."""
    if path.startswith("~") or (cwd.startswith("~") and not path.startswith(("/", UNKNOWN))):
        found = posixpath.normpath(path if path.startswith("~") else posixpath.join(cwd, path))
        return found if found.startswith("~") else "/home"
    whole = path if path.startswith(UNKNOWN) else posixpath.join(cwd, path)
    if UNKNOWN in whole and ".." in whole.split("/"):
        return UNKNOWN + "/"
    if whole.startswith(UNKNOWN):
        return whole
    found = posixpath.normpath(whole)
    return "/" + found.lstrip("/") if found.startswith("/") else found


def printed(call: Call) -> str | None:
    """What `echo` and `printf` print, where that can be told; None for any other program."""
    if call.program not in ("echo", "printf"):
        return None
    words = list(call.arguments)
    options = ""
    while call.program == "echo" and words and _ECHO_OPTION.fullmatch(words[0]):
        options += words.pop(0)
    text = " ".join(words)
    text = unescaped(text) if call.program == "printf" or "e" in options else text
    return text if call.program == "printf" or "n" in options else text + "\n"


def unescaped(text: str) -> str:
    r"""With `\n`, `\x72` and their like as what they stand for."""

    def meant(found: re.Match[str]) -> str:
        if found[3]:
            return _PLAIN_ESCAPES[found[3]]
        return chr(int(found[1], 16) if found[1] else int(found[2], 8) & 0xFF)

    return _ESCAPE.sub(meant, text)


@dataclass(slots=True)
class Memory:
    """Of one session, as far as its lines tell."""

    variables: dict[str, str] = field(default_factory=lambda: {"HOME": "~", "PWD": "."})
    cwd: str = START
    functions: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """Files that its lines have written out, by their places."""
    fetched: dict[str, Call] = field(default_factory=dict)
    """Files that came from elsewhere, with the call that brought them."""
    nested: int = 0
    """Characters of scripts within its lines that were read so far."""
    _before: str = START
    _stack: list[str] = field(default_factory=list)

    def moved(self, call: Call) -> None:
        """Follow the shell to where the call leads it."""
        words = [word for word in call.operands() if not re.fullmatch(r"[+-]\d+", word)]
        if call.program in ("cd", "pushd"):
            if call.program == "pushd":
                self._stack.append(self.cwd)
            word = words[0] if words else "~"
            self._enter(self._before if word == "-" else placed(word, self.cwd))
        elif call.program == "popd":
            self._enter(self._stack.pop() if self._stack else UNKNOWN)

    def made(self, call: Call) -> None:
        """Note the files that the call makes of others, or of a download."""
        words = call.operands()
        if call.program in ("cp", "mv") and len(words) == 2:  # noqa: PLR2004 - from, to
            self._copied(*(placed(word, call.cwd) for word in words))
        elif call.program in FETCHERS:
            self.fetched |= {placed(path, call.cwd): call for path in (*_downloads(call), *call.writes)}
        elif call.program == "tee":
            brought = [feeder for feeder in call.fed_by if feeder.program in FETCHERS]
            self.fetched |= {placed(path, call.cwd): brought[0] for path in words if brought}

    def wrote(self, call: Call, text: str, *, more: bool) -> None:
        """The call has written this text to its files, behind what they held with `more`."""
        for path in (*call.writes, *(call.operands() if call.program == "tee" else ())):
            place = placed(path, call.cwd)
            self.texts[place] = self.texts.get(place, "") + text if more else text
            self.fetched.pop(place, None)

    def _enter(self, place: str) -> None:
        self.cwd, self._before = place if len(place) <= LONGEST_PLACE else UNKNOWN, self.cwd

    def _copied(self, source: str, target: str) -> None:
        if source in self.texts:
            self.texts[target] = self.texts[source]
        if source in self.fetched:
            self.fetched[target] = self.fetched[source]


def _downloads(call: Call) -> list[str]:
    """The files that a download goes to, as far as its options or its address tell."""
    option = re.compile(r"-\w*o|--output" if call.program == "curl" else r"-\w*O|--output-document")
    named = [after for one, after in pairwise(call.arguments) if option.fullmatch(one) and after != "-"]
    joined = re.compile(
        r"--output(?:-document)?=(.+)|-[A-Za-z]*?" + ("o" if call.program == "curl" else "O") + r"([^-].*)"
    )
    named += [found[1] or found[2] for word in call.arguments if (found := joined.fullmatch(word))]
    is_named_by_address = call.program != "curl" or call.has_flag("O", "--remote-name")
    addresses = [word for word in call.operands() if "/" in word] if is_named_by_address and not named else []
    return named + [address.partition("?")[0].rpartition("/")[2] for address in addresses]
