"""One program called by a shell: its words, what feeds it, where it writes, and which program it is given to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.shell.remembering import START, UNKNOWN, printed
from termarena.shell.runners import COMMAND_OPTION, SHELLS
from termarena.shell.variables import every_source

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "LANGUAGES",
    "SHELLS",
    "SOURCES",
    "UNKNOWN",
    "Call",
    "Called",
    "program_sources",
    "run_file",
    "substituted",
    "takes_program",
]

LANGUAGES: Final = re.compile(r"(?:python|perl|ruby|node|php|lua)[\d.]*")
SOURCES: Final = frozenset({"source", "."})
_DATABASES: Final = frozenset({"sqlite3", "psql", "mysql", "mariadb", "gdb", "ed", "ex"})
"""They take commands for a shell among their own."""
_BY_OPTION: Final = SHELLS | {"su", "runuser", "script"}
_INLINE: Final = re.compile(r"-\w*[ceEr]|--eval|--execute")


@dataclass(frozen=True, slots=True)
class Call:
    """One program called: its words with wrappers taken off, the files it writes to, and the calls that feed it."""

    words: tuple[str, ...]
    text: str
    writes: tuple[str, ...] = ()
    fed_by: tuple[Call, ...] = ()
    """Whose output it takes at its input."""
    wrappers: tuple[str, ...] = ()
    cwd: str = START
    """Where it runs, as far as the session tells."""
    scripts: tuple[str, ...] = ()
    """Texts in another language that it is given as its program."""
    brought_by: Call | None = None
    """Who fetched or decoded the file that it runs."""
    sources: tuple[tuple[Call, ...], ...] = ()
    """For each of its words, the calls whose output stands in it, by way of variables, too; empty if there are none."""
    passed_on: str | None = None
    """The text at its input that it only passes on."""
    is_unread: bool = False
    """Whether it runs a file of which more was written than is remembered."""

    @property
    def program(self) -> str:
        """Its name without the path; empty where it cannot be known."""
        return self.words[0].rpartition("/")[2] if self.words and UNKNOWN not in self.words[0] else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words behind the name."""
        return self.words[1:]

    @property
    def made_of(self) -> tuple[Call, ...]:
        """The calls whose output stands in its words."""
        return every_source(*self.sources) if self.sources else ()

    def has_flag(self, letters: str, *names: str) -> bool:
        """Whether one of the short `letters` is given, alone or among others, or one of the long `names`."""
        for word in self.arguments:
            if word in names or (re.fullmatch(r"-[A-Za-z]+", word) and set(letters) & set(word[1:])):
                return True
        return False

    def operands(self) -> list[str]:
        """The arguments that are no options."""
        found = list(self.arguments)
        if "--" in found:
            at = found.index("--")
            return [word for word in found[:at] if not word.startswith("-")] + found[at + 1 :]
        return [word for word in found if not word.startswith("-") or word == "-"]


@dataclass(frozen=True, slots=True)
class Called:
    """What one command line calls, nested calls included; `is_whole` unless the shell's grammar does not cover it."""

    calls: tuple[Call, ...]
    is_whole: bool
    bombs: tuple[str, ...] = ()
    """Functions that call themselves in the background, and loops without end that wait for nothing they start."""
    is_overgrown: bool = False
    """Whether its variables come to more than is read: then nobody can say what its words are."""


def takes_program(call: Call) -> bool:
    """Whether what stands at its input is a program."""
    if call.program in _DATABASES:
        return True
    is_inline = any(re.match(r"-\w*[cemr]", word) for word in call.arguments)
    return bool(LANGUAGES.fullmatch(call.program)) and not is_inline and not set(call.operands()) - {"-"}


def run_file(call: Call) -> str | None:
    """The file that the call runs, if its words name one."""
    is_interpreter = call.program in SHELLS | SOURCES or LANGUAGES.fullmatch(call.program) is not None
    if not is_interpreter:
        return call.words[0] if call.words and "/" in call.words[0] else None
    is_inline = any(re.fullmatch(r"-\w*c|-e|-m", word) for word in call.arguments)
    return next((word for word in call.operands() if word != "-"), None) if not is_inline else None


def program_sources(call: Call) -> tuple[Call, ...]:
    """The calls whose output stands in those words that are a program: for `bash FILE WORD` in the file's alone."""
    return every_source(*(call.sources[at] for at in set(_program_places(call)))) if call.sources else ()


def _program_places(call: Call) -> Iterator[int]:
    words = call.words
    if UNKNOWN in words[0]:
        yield 0
    if call.program == "eval":
        yield from range(1, len(words))
        return
    is_language = LANGUAGES.fullmatch(call.program) is not None
    option = COMMAND_OPTION if call.program in _BY_OPTION else _INLINE if is_language else None
    inline = [at for at, word in enumerate(words[1:], 1) if option is not None and option.match(word)]
    for at in inline:
        yield from (at, at + 1)[: len(words) - at]
    if call.program in SOURCES | {"trap"} or (not inline and (is_language or call.program in SHELLS)):
        yield from [at for at, word in enumerate(words[1:], 1) if not word.startswith("-")][:1]


def substituted(call: Call) -> list[str]:
    """What `<(echo TEXT)` among a shell's words gives it."""
    is_file = call.program in SHELLS | SOURCES and call.operands() == [UNKNOWN]
    return [text for one in call.made_of if is_file and (text := printed(one)) is not None]
