"""What prompts look like: their shapes, which of them belong to a shell, and where one ends on a line."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "PROMPT_ENDS",
    "SURE_PROMPT",
    "Prompts",
    "continuation_length",
    "ends_well",
    "is_continuation",
    "is_interpreter",
    "kin_of",
    "looks_open",
    "shape_of",
]

_WORD: Final = re.compile(r"[\w.~/@:+\-]+")
_WORD_PATTERN: Final = r"[\w.~/@:+\-]+"
PROMPT_ENDS: Final = (
    "$#%>\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}➜λ»▶⟩\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
)
_GROUP: Final = re.compile(r"\[[^\]\n]*\]|\([^)\n]*\)|\{[^}\n]*\}|\bon \S+ \S+|\bgit:\S+")
_NAMED: Final = re.compile(r"(?P<time>\b\d\d?:\d\d(?::\d\d)?\b)|(?P<user>[\w.-]+@[\w.-]+)")
_NAMES: Final = {"time": "T", "user": "U"}
_FIRST_GUESS: Final = re.compile(
    rf"^(?:[^\n]*\n)?(?:[^\n{PROMPT_ENDS}]{{0,120}}?[\])~\w/ ]?|)[{PROMPT_ENDS}]{{1,3}} (?=\S|$)"
)
_SIGN: Final = re.compile(rf"[{PROMPT_ENDS}](?= )")
# A prompt with one or two characters behind its sign: they were typed before the first silence.
_SOON_TYPED: Final = re.compile(r"([$#%>]) \S{1,2}$")
SURE_PROMPT: Final = re.compile(r"[\[(]?[\w.-]+@[\w.-]+[\])]?[: ].*[$#%>]|PS [A-Z]:\\.*>|\$")
_CONTINUATION: Final = re.compile(
    r"(?:(?:cmdsubst|quote|dquote|bquote|heredoc|for|while|until|if|then|else|elif|case|select|function|pipe|cmdand"
    r"|cmdor|cursh|subsh|braceparam|array|repeat|foreach|mathsubst|elif-then|errflag|always)\s?)*> ?"
)
_INTERPRETERS: Final = re.compile(
    r"(?:>>> ?|\.\.\. ?|In \[\d+\]: ?|(?:sqlite|mysql|mariadb|ghci|scala|jshell|julia|duckdb|test|php)(?: \[\w*\])?> ?"
    r"|MariaDB \[.*\]> ?|\w+[=\-*!(][#>] ?|irb\(.*\)[:\d]*[>*\"] ?|pry\(.*\)> ?|\[\d+\] pry.*> ?|iex\(\d+\)> ?"
    r"|(?:\d{1,3}\.){3}\d{1,3}:\d+(?:\[\d+\])?> ?|redis.*> ?|\(gdb\) ?|\(lldb\) ?|\(Pdb\) ?|ftp> ?|sftp> ?"
    r"|Prelude.*> ?|λ> ?|user=> ?|\s*-> ?|lftp.*> ?|telnet> ?|sqlcmd> ?)"
)
_OPENERS: Final = re.compile(r"(?:for|while|until|if|case|select|function|begin|switch)\b|\w[\w-]*\s*\(\)|[{(]")


def shape_of(prompt: str) -> str:
    """The prompt with every word replaced: the same for every directory, user and time."""
    return _WORD.sub("w", prompt.rstrip())


def ends_well(prompt: str) -> bool:
    """Whether it ends as prompts do: with one of their signs, or one of a font made for them."""
    last = prompt.rstrip()[-1:]
    return bool(last) and (last in PROMPT_ENDS or unicodedata.category(last) == "Co")


def kin_of(prompt: str) -> str:
    """What stays of a prompt that tells more at some times than at others: the state of a repository, an environment
    that is active, how the last command ended. Empty where nothing but words and a sign would stay."""
    bare = _GROUP.sub(" ", prompt.rstrip())
    plain = _NAMED.sub(lambda found: f" {_NAMES[found.lastgroup or '']} ", bare)
    parts = re.findall(rf"\w+|[{PROMPT_ENDS}]", plain)
    if named := [part for part in parts if part in _NAMES.values()]:
        return " ".join([*named, parts[-1]])
    kin = " ".join(part if part in PROMPT_ENDS else "w" for part in parts)
    return re.sub(r"w(?: w)+", "w", kin) if bare != prompt.rstrip() and "w" in kin else ""


def is_continuation(prompt: str) -> bool:
    """Whether a shell shows this before the second and later lines of a command."""
    return _CONTINUATION.fullmatch(prompt.strip() + " ") is not None


def continuation_length(line: str) -> int | None:
    """How long the prompt is with which a shell asks for more; None if the line does not begin with one."""
    found = _CONTINUATION.match(line)
    return found.end() if found else None


def is_interpreter(prompt: str) -> bool:
    """Whether something else than a shell shows this: Python, a database, a debugger."""
    return _INTERPRETERS.fullmatch(prompt.strip() + " ") is not None


def looks_open(text: str) -> bool:
    """Whether a shell would ask for more lines: an open quote, bracket, here-document or compound command."""
    last = text.rstrip(" ")
    if last.endswith(("\\", "|", "&&", "{", "(")) or "<<" in text:
        return True
    bare = re.sub(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", "", text)
    return "'" in bare or '"' in bare or "`" in bare or "$(" in bare or _OPENERS.match(text) is not None


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of one recording, most frequent shape first."""

    patterns: tuple[re.Pattern[str], ...]
    shapes: tuple[str, ...]
    first: str = ""
    """The shape of the first one, which is the shell's."""
    repeated: frozenset[str] = frozenset()
    """Shapes that were seen more than once, just so."""

    @classmethod
    def learn(cls, seen: Iterable[str]) -> Prompts:
        """Learn from prompts whose end is known."""
        prompts = [prompt.rstrip() for prompt in seen if prompt.strip()]
        found = [shape_of(_SOON_TYPED.sub(r"\1", prompt)) for prompt in prompts]
        shapes = tuple(shape for shape, _ in Counter(found).most_common())
        times = Counter(shape_of(prompt) for prompt in prompts if not _SOON_TYPED.search(prompt))
        repeated = frozenset(shape for shape, count in times.items() if count > 1)
        return cls(tuple(_pattern(shape) for shape in shapes), shapes, found[0] if found else "", repeated)

    def length(self, line: str) -> int | None:
        """How long the prompt at the beginning of `line` is; None where none is known by its look."""
        for pattern in (*self.patterns, _FIRST_GUESS):
            if found := pattern.match(line):
                return found.end()
        return None

    def cut(self, prompt: str) -> int | None:
        """Where a known or certain prompt ends inside of `prompt`: what follows there was typed very soon."""
        sign = self.shapes[0].rpartition(" ")[2] if self.shapes else ""
        for found in reversed(list(_SIGN.finditer(prompt))):
            shown = prompt[: found.end()]
            is_usual = bool(sign) and "w" not in sign and shown.endswith(sign)
            if is_usual or shape_of(shown) in self.shapes or SURE_PROMPT.fullmatch(shown):
                return found.end() + 1
        return None

    def is_foreign(self, prompt: str) -> bool:
        """Whether it ends like an interpreter's, names no place, and is not the prompt that the session began with."""
        ends = prompt.rstrip().endswith(">") and not any(sign in prompt for sign in "/~@\\")
        return ends and bool(self.shapes) and shape_of(prompt) != self.first

    def is_usual(self, prompt: str) -> bool:
        """Whether it was seen again, or ends with the sign of the most frequent one, whatever it tells before."""
        if not self.shapes or _SOON_TYPED.search(prompt.rstrip()):
            return False
        return (
            shape_of(prompt) in self.repeated
            or shape_of(prompt) == self.shapes[0]
            or (prompt.rstrip()[-1:] == self.shapes[0][-1:] and self.shapes[0][-1] != "w")
        )


def _pattern(shape: str) -> re.Pattern[str]:
    words = [re.escape(part) for part in shape.split("w")]
    return re.compile(_WORD_PATTERN.join(words) + r"(?: |$)")
