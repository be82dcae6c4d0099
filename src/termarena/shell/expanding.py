"""Words as a shell hands them to programs: quotes removed, variables filled in, and whose output stands in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.shell.remembering import UNKNOWN, printed, unescaped
from termarena.shell.runners import LONGEST_COMMAND
from termarena.shell.tree import text_of
from termarena.shell.variables import FIRST, GIVEN, altered, every_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tree_sitter import Node

    from termarena.shell.calls import Call
    from termarena.shell.remembering import Memory
    from termarena.shell.variables import Value
    from termarena.shell.wrappers import Bare

__all__ = ["MOST_FILLED_EVER", "Budget", "Expanding", "Substituted", "Word", "parts_of", "sources_left", "sources_of"]

MOST_FILLED_EVER: Final = 20 * LONGEST_COMMAND
"""Characters that variables come to in a whole session."""
WORD_COST: Final = 16
"""Characters that take as long as one word more."""
_EXPANSIONS: Final = ("simple_expansion", "expansion")
_DEFAULTS: Final = (":-", "-", ":=", "=")
_SUBJECTS: Final = ("variable_name", "special_variable_name", "subscript")


class Word(NamedTuple):
    """One word of a command."""

    text: str
    sources: tuple[Call, ...] = ()
    """The calls whose output stands in it, by way of variables, too."""


class Substituted(NamedTuple):
    """What stands in a substitution."""

    found: list[Call]
    """Its own calls."""
    noted: list[Call]
    """Those and the ones within them."""


class Budget:
    """Of one command line, shared by the scripts within it."""

    def __init__(self) -> None:
        """Nothing spent."""
        self.filled_in = 0
        self.nested = 0
        self.is_whole = True
        """Whether everything was read so far."""
        self.is_overgrown = False
        """Whether its variables came to more than there is room for."""


class Expanding:
    """The words of one script."""

    def __init__(
        self,
        memory: Memory,
        budget: Budget,
        read: Callable[[Node], Substituted],
        inherited: tuple[Call, ...] = (),
    ) -> None:
        """`read` reads a substitution; `inherited` are the sources of what is unknown in the script's own text."""
        self._memory = memory
        self._budget = budget
        self._read = read
        self._inherited = inherited
        self._seen: list[tuple[Call, ...]] = []
        self._pinned: dict[str, str] = {}

    def words(self, node: Node) -> list[Word]:
        """One word, or those that an expansion falls into: at blanks without quotes, at its texts if it has several."""
        name = self._name_of_several(node) if self._memory.variables.has_many else None
        value = self._memory.variables.find(name) if name is not None and name not in self._pinned else None
        if name is None or value is None:
            return self._fallen(node)
        found: list[Word] = []
        for text in tuple(value.texts.values()):
            if not self._has_room(WORD_COST):
                break
            self._pinned[name] = text
            found += self.words(node)
        self._pinned.pop(name, None)
        return found

    def word(self, node: Node) -> Word:
        """The node as one word."""
        outer, self._seen = self._seen, []
        text = self._text(node)
        seen, self._seen = self._seen, outer
        return Word(text, every_source(*seen) if seen else ())

    def grown(self, value: str, sources: tuple[Call, ...] = ()) -> str:
        """The value, if there is room for it; `A=$A$A`, a few times over, is more than any memory holds."""
        return value if self._has_room(len(value) + len(sources)) else UNKNOWN

    def _has_room(self, size: int) -> bool:
        self._budget.filled_in += size
        self._memory.filled_in += size
        has_room = self._budget.filled_in <= LONGEST_COMMAND and self._memory.filled_in <= MOST_FILLED_EVER
        self._budget.is_whole &= has_room
        self._budget.is_overgrown |= not has_room
        return has_room

    def _fallen(self, node: Node) -> list[Word]:
        word = self.word(node)
        if node.type not in (*_EXPANSIONS, "command_substitution"):
            return [word]
        return [Word(text, word.sources) for text in word.text.split()]

    def _name_of_several(self, node: Node) -> str | None:
        """The first variable in a word that stands for several words."""
        if node.type in ("string", "concatenation", "command_name"):
            return next((name for child in node.named_children if (name := self._name_of_several(child))), None)
        subject = _subject(node) if node.type in _EXPANSIONS else None
        if subject is None or any(child.type in ("#", "!") for child in node.children):
            return None
        if subject.type == "subscript":
            return parts_of(subject)[0] if parts_of(subject)[1] == "@" else None
        name = text_of(subject)
        value = self._memory.variables.find(name)
        return name if name == "@" or (value is not None and value.is_loop and len(value.texts) > 1) else None

    def _text(self, node: Node) -> str:
        kind = node.type
        if kind in _EXPANSIONS:
            return self._variable(node)
        if kind in ("string", "concatenation", "translated_string", "command_name"):
            return "".join(self._text(child) for child in node.children if child.type not in ('"', "$"))
        if kind in ("command_substitution", "process_substitution", "arithmetic_expansion"):
            return self._substituted(node)
        if kind in ("raw_string", "ansi_c_string"):
            quoted = self._own(node)
            return unescaped(quoted[2:-1]) if quoted.startswith("$") else quoted[1:-1]
        return re.sub(r"\\(.)", r"\1", self._own(node), flags=re.DOTALL)

    def _own(self, node: Node) -> str:
        text = text_of(node)
        if self._inherited and UNKNOWN in text:
            self._seen.append(self._inherited)
        return text

    def _substituted(self, node: Node) -> str:
        """What a substitution comes to, where that can be told."""
        found, noted = self._read(node)
        self._seen.append(every_source(noted, *(call.made_of for call in noted)))
        if node.type != "command_substitution" or len(noted) != 1 or len(found) != 1:
            return UNKNOWN
        (call,) = found
        if call.program == "mktemp":
            return f"/tmp/{UNKNOWN}"  # noqa: S108 - where it makes them
        return call.cwd if call.program == "pwd" else self.grown((printed(call) or "").rstrip("\n") or UNKNOWN)

    def _variable(self, node: Node) -> str:
        subject = _subject(node)
        if subject is None:
            return UNKNOWN
        at = node.children.index(subject)
        before, sign = node.children[at - 1].type, node.children[at + 1].type if node.children[at + 1 :] else ""
        held = self._held(subject, is_indirect=before == "!")
        given = [self._text(child) for child in node.named_children if child != subject]
        if before == "#":
            return UNKNOWN
        if sign in _DEFAULTS:
            return self.grown(held if held or (held is not None and sign in ("-", "=")) else "".join(given))
        if sign in (":+", "+"):  # of what is not known, the worst
            return self.grown("".join(given) if held is None or held else "")
        value = held if held is None or sign in ("}", "") else altered(held, sign, given)
        return self.grown(UNKNOWN if value is None else value)

    def _held(self, subject: Node, *, is_indirect: bool) -> str | None:
        """What a variable, or one text of it, comes to here; None where nothing tells."""
        name, index = parts_of(subject)
        value = self._memory.variables.find(name)
        if is_indirect and value is not None:
            name = value.joined()
            value = self._memory.variables.find(name)
        if value is None:
            return None
        if value.sources:
            self._seen.append(value.sources)
            self.grown("", value.sources)
        return self._pinned.get(name) if name in self._pinned else _text_at(value, name, index)


def _text_at(value: Value, name: str, index: str) -> str | None:
    if index in GIVEN or value.is_loop or name in GIVEN:
        return value.joined()
    if index.lstrip("-").isdigit() and index.startswith("-"):
        return next(iter(list(value.texts.values())[int(index) :]), None)
    return value.texts.get(index)


def _subject(node: Node) -> Node | None:
    """The variable that an expansion is about."""
    return next((child for child in node.named_children if child.type in _SUBJECTS), None)


def parts_of(subject: Node) -> tuple[str, str]:
    """The name of a variable, and which of its texts is meant."""
    if subject.type != "subscript":
        return text_of(subject), FIRST
    name, index = subject.child_by_field_name("name"), subject.child_by_field_name("index")
    return text_of(name) if name is not None else "", text_of(index).strip("\"'") if index is not None else ""


def sources_of(words: Iterable[Word]) -> tuple[Call, ...]:
    """Of all of them."""
    return every_source(*(word.sources for word in words))


def sources_left(words: Sequence[Word], bare: Bare) -> tuple[tuple[Call, ...], ...]:
    """Of each word that is left without wrappers, where any has some; where those made other words, of all for each."""
    if not any(word.sources for word in words):
        return ()
    left = words[len(words) - len(bare.words) :]
    if tuple(word.text for word in left) == bare.words:
        return tuple(word.sources for word in left)
    return (sources_of(words),) * len(bare.words)
