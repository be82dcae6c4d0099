"""Shell commands taken apart: which programs are called with which words, what feeds them, and where they write.

The syntax tree comes from tree-sitter, which stands errors; words are resolved as far as the recording itself tells:
quotes removed, variables that were set before filled in, wrappers such as `sudo` taken off, the scripts of `sh -c`,
`eval` and here-documents read as commands of their own.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Final

from termarena.shell.tree import parse, text_of
from termarena.shell.wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tree_sitter import Node

__all__ = ["SHELLS", "UNKNOWN", "Call", "Called", "ShellReader"]

UNKNOWN: Final = "…"
"""Stands in a word for what only running the command would tell."""
SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"})
_OTHERS_SHELLS: Final = frozenset({"su", "runuser"})
_COMMAND_OPTION: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*|--command")
DEEPEST: Final = 4
LONGEST_COMMAND: Final = 100_000
MOST_STARTS: Final = 3
_WORDS: Final = frozenset(
    {"word", "string", "raw_string", "concatenation", "simple_expansion", "expansion", "number", "ansi_c_string",
     "command_substitution", "process_substitution", "arithmetic_expansion", "translated_string", "brace_expression"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """One program called: its words with wrappers taken off, the files it writes to, and the calls that feed it."""

    words: tuple[str, ...]
    text: str
    writes: tuple[str, ...] = ()
    fed_by: tuple[Call, ...] = ()
    wrappers: tuple[str, ...] = ()

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
    functions: tuple[str, ...] = ()
    """Functions that call themselves in the background."""


@dataclass(slots=True)
class ShellReader:
    """Reads the commands of one session in order, and remembers the variables that they set."""

    variables: dict[str, str] = field(default_factory=lambda: {"HOME": "~", "PWD": "."})

    def read(self, text: str) -> Called:
        """Take one command apart. Raises `MissingExtra`."""
        if len(text) > LONGEST_COMMAND:
            return Called((), is_whole=False)
        try:
            return _Reading(self.variables).script(text)
        except RecursionError:
            return Called((), is_whole=False)


class _Reading:
    def __init__(self, variables: dict[str, str], depth: int = 0) -> None:
        self._variables = variables
        self._depth = depth
        self._calls: list[Call] = []
        self._functions: list[str] = []
        self._is_whole = True
        self._filled_in = 0
        self._handlers: dict[str, Callable[[Node], list[Call]]] = {
            "pipeline": self._pipeline,
            "redirected_statement": self._redirected_statement,
            "variable_assignment": self._variable_assignment,
            "for_statement": self._for_statement,
            "function_definition": self._function_definition,
            "comment": lambda _: [],
            "command": self._command,
        }

    def script(self, text: str) -> Called:
        root = parse(text.encode("utf-8", "replace"))
        self._is_whole &= not root.has_error
        self._visit(root)
        return Called(tuple(self._calls), self._is_whole, tuple(self._functions))

    def _visit(self, node: Node) -> list[Call]:
        """The calls that the node itself makes, in order; nested ones are only noted."""
        handler = self._handlers.get(node.type)
        return handler(node) if handler is not None else self._visit_all(node)

    def _pipeline(self, node: Node) -> list[Call]:
        before: list[Call] = []
        for child in node.named_children:
            start = len(self._calls)
            found = self._visit(child)
            if before and found:
                found = self._feed(found, tuple(before), start)
            before += found
        return before

    def _feed(self, found: list[Call], by: tuple[Call, ...], start: int) -> list[Call]:
        """Note who feeds the calls in `found`; what is printed into a shell is a script of its own."""
        self._calls[start:] = [_fed(call, by) if call in found else call for call in self._calls[start:]]
        if found[0].program in SHELLS and not found[0].operands() and by[-1].program in ("echo", "printf"):
            printed = " ".join(by[-1].arguments)
            self._nested(printed.replace("\\n", "\n") if by[-1].program == "printf" else printed)
        return [_fed(call, by) for call in found]

    def _redirected_statement(self, node: Node) -> list[Call]:
        body = node.child_by_field_name("body")
        start = len(self._calls)
        found = self._visit(body) if body is not None else []
        writes, script = [], ""
        redirects = node.children_by_field_name("redirect")
        for redirect in redirects:
            writes += self._written(redirect)
            script += _heredoc(redirect)
        if found and writes:
            last = _writing(found[-1], tuple(writes))
            self._calls[start:] = [last if call == found[-1] else call for call in self._calls[start:]]
            found = [*found[:-1], last]
        elif writes:
            self._calls.append(Call((), text_of(node), tuple(writes)))
        if script and found and found[-1].program in SHELLS:
            self._nested(script)
        for redirect in redirects:
            found = self._continued(redirect, found, script)
        return found

    def _continued(self, redirect: Node, found: list[Call], script: str) -> list[Call]:
        """What stands on the same line behind a here-document's word: `cat <<END | bash`."""
        if redirect.type != "heredoc_redirect":
            return found
        for child in redirect.named_children:
            start = len(self._calls)
            after = self._visit(child)
            if child.type == "pipeline" and found and after:
                if after[0].program in SHELLS:
                    self._nested(script)
                after = self._feed(after, tuple(found), start)
            found = [*found, *after]
        return found

    def _written(self, redirect: Node) -> list[str]:
        """The file that a redirection writes; what it reads may be made by calls of its own, which are noted."""
        if redirect.type != "file_redirect" or not any(
            child.type.startswith((">", "&>")) for child in redirect.children
        ):
            if redirect.type != "heredoc_redirect":
                self._visit_all(redirect)
            return []
        words = [child for child in redirect.named_children if child.type in _WORDS and child.type != "number"]
        return [self._word(word) for word in words[:1]]

    def _variable_assignment(self, node: Node) -> list[Call]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and name.type == "variable_name":
            self._variables[text_of(name)] = self._word(value) if value is not None else ""
        return []

    def _for_statement(self, node: Node) -> list[Call]:
        name = node.child_by_field_name("variable")
        values = [self._word(child) for child in node.children_by_field_name("value")]
        if name is not None:
            self._variables[text_of(name)] = " ".join(values) or UNKNOWN
        body = node.child_by_field_name("body")
        return self._visit(body) if body is not None else []

    def _function_definition(self, node: Node) -> list[Call]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        called = text_of(name) if name is not None else ""
        text = text_of(body) if body is not None else ""
        if called and re.search(rf"(?<![\w-]){re.escape(called)}\s*\|\s*{re.escape(called)}\s*&", text):
            self._functions.append(called)
            return []
        return self._visit(body) if body is not None else []

    def _command(self, node: Node) -> list[Call]:
        fed: list[Call] = []
        words: list[str] = []
        redirects: list[Node] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._variable_assignment(child)
                continue
            shown = child.named_children[0] if child.type == "command_name" and child.named_children else child
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                redirects.append(child)
                continue
            start = len(self._calls)
            words += self._words(shown)
            fed += self._calls[start:]
        writes = tuple(target for redirect in redirects for target in self._written(redirect))
        call = _bare(Call(tuple(words), text_of(node), writes, tuple(fed)))
        self._calls.append(call)
        self._read_inner(call)
        if call.program in SHELLS:
            for text in self._strings_fed(redirects):
                self._nested(text)
        return [call]

    def _strings_fed(self, redirects: list[Node]) -> Iterator[str]:
        for redirect in redirects:
            if redirect.type == "herestring_redirect":
                yield from (self._word(child) for child in redirect.named_children)

    def _read_inner(self, call: Call) -> None:
        """`sh -c TEXT`, `su bob -c TEXT`, `eval TEXT`, `trap TEXT EXIT`, `find -exec` hold commands of their own."""
        if call.program in SHELLS | _OTHERS_SHELLS:
            given = [at for at, word in enumerate(call.arguments, 1) if _COMMAND_OPTION.fullmatch(word)]
            inner = list(call.arguments[given[0] : given[0] + 1]) if given else []
            inner += [word.partition("=")[2] for word in call.arguments if word.startswith("--command=")]
        elif call.program in _RUNNERS:
            inner = _RUNNERS[call.program](call)
        elif call.program == "find":
            found = _run_by_find(call.arguments)
            self._is_whole &= found is not None
            inner = found or []
        else:
            return
        for text in inner:
            self._nested(text)

    def _nested(self, text: str) -> None:
        if self._depth >= DEEPEST or len(text) > LONGEST_COMMAND:
            self._is_whole = False
            return
        inner = _Reading(self._variables, self._depth + 1).script(text)
        self._calls += inner.calls
        self._functions += inner.functions
        self._is_whole &= inner.is_whole

    def _words(self, node: Node) -> list[str]:
        """One word, or those that a variable without quotes falls into."""
        word = self._word(node)
        if node.type in ("simple_expansion", "expansion") and " " in word:
            return word.split()
        return [word]

    def _word(self, node: Node) -> str:
        kind = node.type
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node)
        if kind in ("string", "concatenation", "translated_string", "command_name"):
            return "".join(self._word(child) for child in node.children if child.type not in ('"', "$"))
        if kind in ("command_substitution", "process_substitution", "arithmetic_expansion"):
            self._visit_all(node)
            return UNKNOWN
        if kind in ("raw_string", "ansi_c_string"):
            return text_of(node).removeprefix("$")[1:-1]
        return re.sub(r"\\(.)", r"\1", text_of(node), flags=re.DOTALL)

    def _visit_all(self, node: Node) -> list[Call]:
        return [call for child in node.named_children for call in self._visit(child)]

    def _variable(self, node: Node) -> str:
        names = [child for child in node.named_children if child.type in ("variable_name", "special_variable_name")]
        for child in node.named_children:
            if child.type in ("command_substitution", "process_substitution"):
                self._visit_all(child)
        is_plain = node.type == "simple_expansion" or len(node.named_children) == 1
        value = self._variables.get(text_of(names[0]), UNKNOWN) if names and is_plain else UNKNOWN
        self._filled_in += len(value)
        if self._filled_in > LONGEST_COMMAND:  # `A=$A$A`, a few times over, is more than any memory holds
            self._is_whole = False
            return UNKNOWN
        return value


def _run_by_trap(call: Call) -> list[str]:
    """The text that it keeps for later; `trap - EXIT` forgets one."""
    return [word for word in call.operands()[:1] if word != "-"]


def _run_by_script(arguments: tuple[str, ...]) -> list[str]:
    behind = [after for one, after in pairwise(arguments) if re.fullmatch(r"-\w*c|--command", one)]
    return behind + [word.partition("=")[2] for word in arguments if word.startswith("--command=")]


def _run_behind_options(call: Call) -> list[str]:
    """What may be the program: that the first words are values of options, only a table of options could say."""
    starts = [at for at, word in enumerate(call.arguments) if not word.startswith("-")][:MOST_STARTS]
    return [_joined(call.arguments[at:]) for at in starts]


def _joined(words: tuple[str, ...]) -> str:
    """One word with blanks in it is a command line; several are the words of one."""
    return words[0] if len(words) == 1 else shlex.join(words)


_RUNNERS: Final[Mapping[str, Callable[[Call], list[str]]]] = {
    "eval": lambda call: [" ".join(call.arguments)],
    "trap": _run_by_trap,
    "script": lambda call: _run_by_script(call.arguments),
    **dict.fromkeys(("busybox", "toybox", "watch", "parallel", "strace", "flock", "chroot"), _run_behind_options),
    **dict.fromkeys(
        ("unshare", "nsenter", "setpriv", "unbuffer", "systemd-run", "fakeroot", "entr"), _run_behind_options
    ),
}
"""Programs that run what their words say."""


def _run_by_find(arguments: tuple[str, ...]) -> list[str] | None:
    """The commands of its `-exec` and the like; what it found stands in them as the place where it looked. None where
    they come to more than any command line holds."""
    found: list[str] = []
    room = LONGEST_COMMAND
    places = list(takewhile(lambda word: not word.startswith(("-", "(", "!")), arguments)) or ["."]
    for at, word in enumerate(arguments):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            words = list(takewhile(lambda one: one not in (";", "+"), arguments[at + 1 :]))
            room -= sum(map(len, words)) + words.count("{}") * sum(len(place) + 1 for place in places)
            if room < 0:
                return None
            found.append(shlex.join(place for one in words for place in (places if one == "{}" else (one,))))
    return found


def _heredoc(redirect: Node) -> str:
    if redirect.type != "heredoc_redirect":
        return ""
    return "".join(text_of(child) for child in redirect.named_children if child.type == "heredoc_body")


def _fed(call: Call, by: tuple[Call, ...]) -> Call:
    return Call(call.words, call.text, call.writes, (*call.fed_by, *by), call.wrappers)


def _writing(call: Call, writes: tuple[str, ...]) -> Call:
    return Call(call.words, call.text, (*call.writes, *writes), call.fed_by, call.wrappers)


def _bare(call: Call) -> Call:
    words, wrappers = unwrapped(call.words, through_xargs=True)
    return Call(words, call.text, call.writes, call.fed_by, wrappers)
