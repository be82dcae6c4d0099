"""One program called by a shell: its words, what feeds it, where it writes, and which program it is given to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from termarena.shell.remembering import START, UNKNOWN, printed
from termarena.shell.runners import SHELLS

__all__ = ["LANGUAGES", "SHELLS", "SOURCES", "UNKNOWN", "Call", "Called", "run_file", "substituted", "takes_program"]

LANGUAGES: Final = re.compile(r"(?:python|perl|ruby|node|php|lua)[\d.]*")
SOURCES: Final = frozenset({"source", "."})
_DATABASES: Final = frozenset({"sqlite3", "psql", "mysql", "mariadb", "gdb", "ed", "ex"})
"""They take commands for a shell among their own."""


@dataclass(frozen=True, slots=True)
class Call:
    """One program called: its words with wrappers taken off, the files it writes to, and the calls that feed it."""

    words: tuple[str, ...]
    text: str
    writes: tuple[str, ...] = ()
    fed_by: tuple[Call, ...] = ()
    """Whose output it takes, through a pipe or in its words."""
    wrappers: tuple[str, ...] = ()
    cwd: str = START
    """Where it runs, as far as the session tells."""
    scripts: tuple[str, ...] = ()
    """Texts in another language that it is given as its program."""
    brought_by: Call | None = None
    """Who fetched the file that it runs."""

    @property
    def program(self) -> str:
        """Its name without the path; empty where it cannot be known."""
        return self.words[0].rpartition("/")[2] if self.words and UNKNOWN not in self.words[0] else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words behind the name."""
        return self.words[1:]

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


def substituted(call: Call) -> list[str]:
    """What `<(echo TEXT)` among a shell's words gives it."""
    is_file = call.program in SHELLS | SOURCES and call.operands() == [UNKNOWN]
    return [text for feeder in call.fed_by if is_file and (text := printed(feeder)) is not None]
