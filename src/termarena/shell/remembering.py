"""What a shell knows from one line to the next: its variables, where it is, which files its lines have made."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.shell.variables import Variables, every_source

if TYPE_CHECKING:
    from termarena.shell.calls import Call

__all__ = ["FETCHERS", "START", "UNKNOWN", "Memory", "hides", "is_bringer", "placed", "printed", "unescaped"]

UNKNOWN: Final = "…"
"""Stands in a word for what only running the command would tell."""
START: Final = "."
"""Where a session began, if nothing tells."""
LONGEST_PLACE: Final = 4096
"""As the kernel has it for a path."""
FETCHERS: Final = frozenset({"curl", "wget", "fetch", "aria2c", "lwp-request"})
MOST_WRITTEN: Final = 4_000_000
"""Characters of files that a session's lines have written which are remembered."""
_HIDING: Final = frozenset(
    {"base64", "base32", "basenc", "xxd", "uudecode", "openssl", "gpg", "rev", "gunzip", "zcat", "bzcat", "xzcat"}
)
_MAKING_VALUES: Final = frozenset({"rand", "prime", "passwd", "dgst", "version"})
"""Of openssl's commands, those that decode nothing."""
_READERS: Final = frozenset({"read", "mapfile", "readarray"})
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
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
    """What `echo`, `printf` and `cat` print, where that can be told; None for any other program."""
    if call.passed_on is not None:
        return call.passed_on
    if call.program not in ("echo", "printf") or call.arguments[:1] == ("-v",):
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


def hides(call: Call) -> bool:
    """Whether it makes something else of a text, so that nobody can tell by that what it is."""
    return call.program in _HIDING and not (call.program == "openssl" and _MAKING_VALUES.issuperset(call.arguments[:1]))


def is_bringer(call: Call) -> bool:
    """Whether what it gives cannot be read here: it comes from elsewhere, or was hidden."""
    return call.program in FETCHERS or hides(call)


class _Written(NamedTuple):
    """A text behind what stood there before: as long as nobody asks, nothing is copied."""

    text: str
    before: _Written | None

    def whole(self) -> str:
        parts: list[str] = []
        one: _Written | None = self
        while one is not None:
            parts.append(one.text)
            one = one.before
        return "".join(reversed(parts))


@dataclass(slots=True)
class Memory:
    """Of one session, as far as its lines tell."""

    variables: Variables = field(default_factory=Variables)
    cwd: str = START
    functions: dict[str, str] = field(default_factory=dict)
    fetched: dict[str, Call] = field(default_factory=dict)
    """Files that came from elsewhere or were decoded, with the call that brought them."""
    nested: int = 0
    """Characters of scripts within its lines that were read so far."""
    filled_in: int = 0
    """Characters that its variables came to so far."""
    _written: int = 0
    _texts: dict[str, _Written | None] = field(default_factory=dict)
    """Files that its lines have written out, by their places; None for one that is too long."""
    _before: str = START
    _stack: list[str] = field(default_factory=list)

    def text_at(self, place: str) -> str | None:
        """What its lines have written to a file; None where they have not, or more than is remembered."""
        written = self._texts.get(place)
        return written.whole() if written is not None else None

    def is_lost(self, place: str) -> bool:
        """Whether more was written to a file than is remembered."""
        return place in self._texts and self._texts[place] is None

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
        """Note the files that the call makes of others, or of a download, and the variables that it fills."""
        words = call.operands()
        if call.program in ("cp", "mv", "ln", "install") and len(words) > 1:
            self._copied(words[:-1], words[-1], call.cwd)
        elif call.program in _READERS and call.fed_by:
            self._filled(call, UNKNOWN)
        elif call.program == "printf" and call.arguments[:1] == ("-v",):
            self.variables.put("".join(words[:1]), unescaped(" ".join(words[1:])), call.made_of)
        elif call.program == "set" and "--" in call.arguments:
            self.variables.give(call.arguments[call.arguments.index("--") + 1 :], call.made_of)
        self._brought(call, (*_downloads(call), *call.writes, *(words if call.program == "tee" else ())))

    def read_in(self, call: Call, text: str) -> None:
        """The call has read this text into its variables."""
        self._filled(call, text.strip())

    def wrote(self, call: Call, text: str, *, more: bool) -> None:
        """The call has written this text to its files, behind what they held with `more`."""
        for path in (*call.writes, *(call.operands() if call.program == "tee" else ())):
            place = placed(path, call.cwd)
            self._written += len(text)
            is_kept = self._written <= MOST_WRITTEN and not (more and self.is_lost(place))
            self._texts[place] = _Written(text, self._texts.get(place) if more else None) if is_kept else None
            if not more and not _bringers(call):
                self.fetched.pop(place, None)

    def _enter(self, place: str) -> None:
        self.cwd, self._before = place if len(place) <= LONGEST_PLACE else UNKNOWN, self.cwd

    def _filled(self, call: Call, text: str) -> None:
        sources = every_source(call.fed_by, *(feeder.made_of for feeder in call.fed_by))
        for name in filter(_NAME.fullmatch, call.operands()):
            self.variables.put(name, text, sources)

    def _brought(self, call: Call, paths: tuple[str, ...]) -> None:
        bringers = _bringers(call) if paths else []
        for path in paths if bringers else ():
            self.fetched[placed(path, call.cwd)] = bringers[0]

    def _copied(self, sources: list[str], target: str, cwd: str) -> None:
        for source in sources:
            place = placed(source, cwd)
            within = posixpath.join(target, posixpath.basename(source))
            for path in (target, within) if len(sources) == 1 else (within,):
                if place in self._texts:
                    self._texts[placed(path, cwd)] = self._texts[place]
                if place in self.fetched:
                    self.fetched[placed(path, cwd)] = self.fetched[place]


def _bringers(call: Call) -> list[Call]:
    """Whose output, of what cannot be read here, goes into what the call writes."""
    within = (source for one in (call, *call.fed_by) for source in one.made_of)
    return [one for one in (call, *call.fed_by, *within) if is_bringer(one)]


class _Saving(NamedTuple):
    """The options of a program that say where a download goes: a letter and a name each."""

    file: tuple[str, str]
    folder: tuple[str, str]


_SAVING: Final = {
    "curl": _Saving(("o", "--output"), ("", "--output-dir")),
    "wget": _Saving(("O", "--output-document"), ("P", "--directory-prefix")),
    "aria2c": _Saving(("o", "--out"), ("d", "--dir")),
    "fetch": _Saving(("o", "--output"), ("", "")),
}


def _downloads(call: Call) -> list[str]:
    """The files that a download goes to, as far as its options or its address tell."""
    saving = _SAVING.get(call.program)
    if saving is None:
        return []
    folders = _values(call.arguments, *saving.folder)
    named = [path for path in _values(call.arguments, *saving.file) if path != "-"]
    is_named_by_address = call.program != "curl" or call.has_flag("O", "--remote-name", "--remote-name-all")
    addresses = [word for word in call.operands() if "/" in word and word not in folders]
    if not named and is_named_by_address:
        named = [address.partition("?")[0].rpartition("/")[2] or "index.html" for address in addresses]
    elif call.program == "wget":  # its folder is for files that an address names
        return named
    return [posixpath.join(folders[-1], path) for path in named] if folders else named


def _values(arguments: tuple[str, ...], letter: str, name: str) -> list[str]:
    """The values of an option, in the next word or in its own."""
    if not name:
        return []
    short = (rf"|-\w*{letter}", rf"|-[A-Za-z]*?{letter}([^-].*)") if letter else ("", "|(?!)(x)")
    behind, joined = re.compile(name + short[0]), re.compile(rf"{name}=(.+){short[1]}")
    found = [after for one, after in pairwise(arguments) if behind.fullmatch(one)]
    return found + [one[1] or one[2] for word in arguments if (one := joined.fullmatch(word))]
