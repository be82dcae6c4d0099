"""Shell commands taken apart: which programs are called with which words, what feeds them, and where they write.

The syntax tree comes from tree-sitter, which stands errors; words are resolved as far as the recording itself tells:
quotes removed, variables that were set before filled in, wrappers such as `sudo` taken off, the scripts of `sh -c`,
`eval` and here-documents read as commands of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node, Parser

__all__ = ["SHELLS", "UNKNOWN", "Call", "Script", "ShellReader"]

UNKNOWN: Final = "…"
"""Stands in a word for what only running the command would tell."""
SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "ash"})
DEEPEST: Final = 4
LONGEST_COMMAND: Final = 100_000
_WRAPPERS: Final = frozenset(
    {"sudo", "doas", "env", "nohup", "time", "command", "builtin", "exec", "nice", "xargs", "stdbuf"}
)
_WRAPPER_VALUES: Final = {
    "sudo": "ugpCh",
    "nice": "n",
    "xargs": "InPLsdaE",
    "env": "uSC",
    "stdbuf": "ioe",
    "doas": "uC",
}
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
class Script:
    """What one command line calls, nested calls included; `is_whole` unless the shell's grammar does not cover it."""

    calls: tuple[Call, ...]
    is_whole: bool
    functions: tuple[str, ...] = ()
    """Functions that call themselves in the background."""


@cache
def _parser() -> Parser:
    try:
        import tree_sitter  # noqa: PLC0415 - an extra
        import tree_sitter_bash  # noqa: PLC0415 - as above
    except ImportError as error:
        raise MissingExtra("tree-sitter-bash", extra="forge", purpose="screening recordings") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


@dataclass(slots=True)
class ShellReader:
    """Reads the commands of one session in order, and remembers the variables that they set."""

    variables: dict[str, str] = field(default_factory=lambda: {"HOME": "~", "PWD": "."})

    def read(self, text: str) -> Script:
        """Take one command apart. Raises `MissingExtra`."""
        if len(text) > LONGEST_COMMAND:
            return Script((), is_whole=False)
        return _Reading(self.variables).script(text)


class _Reading:
    def __init__(self, variables: dict[str, str], depth: int = 0) -> None:
        self._variables = variables
        self._depth = depth
        self._calls: list[Call] = []
        self._functions: list[str] = []
        self._is_whole = True

    def script(self, text: str) -> Script:
        root = _parser().parse(text.encode("utf-8", "replace")).root_node
        self._is_whole &= not root.has_error
        self._visit(root)
        return Script(tuple(self._calls), self._is_whole, tuple(self._functions))

    def _visit(self, node: Node) -> list[Call]:
        """The calls that the node itself makes, in order; nested ones are only noted."""
        handler = getattr(self, f"_{node.type}", None)
        if handler is not None:
            found: list[Call] = handler(node)
            return found
        return [call for child in node.named_children for call in self._visit(child)]

    def _pipeline(self, node: Node) -> list[Call]:
        before: list[Call] = []
        for child in node.named_children:
            start = len(self._calls)
            found = self._visit(child)
            if before and found:
                fed = tuple(before)
                self._calls[start:] = [_fed(call, fed) if call in found else call for call in self._calls[start:]]
                found = [_fed(call, fed) for call in found]
            before += found
        return before

    def _redirected_statement(self, node: Node) -> list[Call]:
        body = node.child_by_field_name("body")
        start = len(self._calls)
        found = self._visit(body) if body is not None else []
        writes, script = [], ""
        for redirect in node.children_by_field_name("redirect"):
            writes += self._written(redirect)
            script += _heredoc(redirect)
        if found and writes:
            last = _writing(found[-1], tuple(writes))
            self._calls[start:] = [last if call == found[-1] else call for call in self._calls[start:]]
            found = [*found[:-1], last]
        elif writes:
            self._calls.append(Call((), _text(node), tuple(writes)))
        if script and found and found[-1].program in SHELLS:
            self._nested(script)
        return found

    def _written(self, redirect: Node) -> list[str]:
        if redirect.type != "file_redirect" or not any(
            child.type.startswith((">", "&>")) for child in redirect.children
        ):
            return []
        words = [child for child in redirect.named_children if child.type in _WORDS and child.type != "number"]
        return [self._word(word) for word in words[:1]]

    def _variable_assignment(self, node: Node) -> list[Call]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and name.type == "variable_name":
            self._variables[_text(name)] = self._word(value) if value is not None else ""
        return []

    def _for_statement(self, node: Node) -> list[Call]:
        name = node.child_by_field_name("variable")
        values = [self._word(child) for child in node.children_by_field_name("value")]
        if name is not None:
            self._variables[_text(name)] = " ".join(values) or UNKNOWN
        body = node.child_by_field_name("body")
        return self._visit(body) if body is not None else []

    def _function_definition(self, node: Node) -> list[Call]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        called = _text(name) if name is not None else ""
        text = _text(body) if body is not None else ""
        if called and re.search(rf"(?<![\w-]){re.escape(called)}\s*\|\s*{re.escape(called)}\s*&", text):
            self._functions.append(called)
            return []
        return self._visit(body) if body is not None else []

    def _heredoc_redirect(self, node: Node) -> list[Call]:
        return [
            call
            for child in node.named_children
            if child.type in ("pipeline", "command")
            for call in self._visit(child)
        ]

    def _comment(self, node: Node) -> list[Call]:
        del node
        return []

    def _command(self, node: Node) -> list[Call]:
        fed: list[Call] = []
        words: list[str] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._variable_assignment(child)
                continue
            shown = child.named_children[0] if child.type == "command_name" and child.named_children else child
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                continue
            start = len(self._calls)
            words += self._words(shown)
            fed += self._calls[start:]
        call = _unwrapped(Call(tuple(words), _text(node), tuple(self._direct_writes(node)), tuple(fed)))
        self._calls.append(call)
        self._read_inner(call)
        return [call]

    def _direct_writes(self, node: Node) -> Iterator[str]:
        for child in node.named_children:
            if child.type == "file_redirect":
                yield from self._written(child)

    def _read_inner(self, call: Call) -> None:
        """`sh -c TEXT` and `eval TEXT` are commands of their own."""
        if call.program in SHELLS and "-c" in call.arguments:
            at = call.arguments.index("-c")
            inner = call.arguments[at + 1 : at + 2]
        elif call.program == "eval":
            inner = (" ".join(call.arguments),)
        else:
            return
        for text in inner:
            self._nested(text)

    def _nested(self, text: str) -> None:
        if self._depth >= DEEPEST:
            self._is_whole = False
            return
        inner = _Reading(self._variables, self._depth + 1).script(text)
        self._calls += inner.calls
        self._functions += inner.functions

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
            return _text(node).removeprefix("$")[1:-1]
        return re.sub(r"\\(.)", r"\1", _text(node), flags=re.DOTALL)

    def _visit_all(self, node: Node) -> list[Call]:
        return [call for child in node.named_children for call in self._visit(child)]

    def _variable(self, node: Node) -> str:
        names = [child for child in node.named_children if child.type in ("variable_name", "special_variable_name")]
        for child in node.named_children:
            if child.type in ("command_substitution", "process_substitution"):
                self._visit_all(child)
        is_plain = node.type == "simple_expansion" or len(node.named_children) == 1
        return self._variables.get(_text(names[0]), UNKNOWN) if names and is_plain else UNKNOWN


def _text(node: Node) -> str:
    raw: Any = node.text
    return raw.decode("utf-8", "replace") if raw is not None else ""


def _heredoc(redirect: Node) -> str:
    if redirect.type != "heredoc_redirect":
        return ""
    return "".join(_text(child) for child in redirect.named_children if child.type == "heredoc_body")


def _fed(call: Call, by: tuple[Call, ...]) -> Call:
    return Call(call.words, call.text, call.writes, (*call.fed_by, *by), call.wrappers)


def _writing(call: Call, writes: tuple[str, ...]) -> Call:
    return Call(call.words, call.text, (*call.writes, *writes), call.fed_by, call.wrappers)


def _unwrapped(call: Call) -> Call:
    """Take `sudo -u x`, `env A=b`, `xargs -n1` and their like off, however many there are."""
    words, wrappers = list(call.words), []
    while words and words[0].rpartition("/")[2] in _WRAPPERS and len(words) > 1:
        wrapper = words.pop(0).rpartition("/")[2]
        wrappers.append(wrapper)
        words = _without_options(words, _WRAPPER_VALUES.get(wrapper, ""))
    return Call(tuple(words), call.text, call.writes, call.fed_by, tuple(wrappers))


def _without_options(words: Sequence[str], with_value: str) -> list[str]:
    rest = list(words)
    while rest and (rest[0].startswith("-") or re.match(r"\w+=", rest[0])):
        option = rest.pop(0)
        if re.fullmatch(r"-\w", option) and option[1] in with_value and rest:
            rest.pop(0)
    return rest
