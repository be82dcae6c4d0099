"""A command line as a syntax tree tells it: simple commands with their words, redirections, whether it parses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.shell.tree import parse, text_of, walk
from termarena.shell.wrappers import unwrapped

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Line", "Redirect", "Simple", "is_file", "parse_line"]

LONGEST_LINE: Final = 256 << 10
"""Beyond this a command line is not parsed: no person typed it."""
_SIMPLE: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_DYNAMIC: Final = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion", "process_substitution"}
)
_PIPED: Final = frozenset({"command", "pipeline", "redirected_statement"})
_COMPOUND: Final = frozenset(
    {
        "if_statement",
        "for_statement",
        "c_style_for_statement",
        "while_statement",
        "case_statement",
        "function_definition",
    }
)


@dataclass(frozen=True, slots=True)
class Simple:
    """One simple command: its words without quotes; a word that only a shell could fill in is kept as written."""

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    is_literal: bool = True
    """Whether no word holds an expansion or a substitution."""

    @property
    def name(self) -> str:
        """The program or builtin, without its folder; empty for bare assignments."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def bare(self) -> tuple[str, ...]:
        """The words without what only says how to run them: `sudo -E make` is `make`."""
        return unwrapped(self.words).words


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection to or from a file; `target` as a word, quotes taken off."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether a file is made or changed by it."""
        names_a_descriptor = "&" in self.operator and (not self.target or self.target.rstrip("-").isdecimal())
        return ">" in self.operator and not names_a_descriptor and is_file(self.target)


def is_file(target: str) -> bool:
    """Whether output that goes there stays: not for devices that pass it on or drop it."""
    return not target.startswith(("/dev/null", "/dev/std", "/dev/tty", "/dev/fd", "&"))


@dataclass(frozen=True, slots=True)
class Line:
    """A command line, taken apart."""

    text: str
    simples: tuple[Simple, ...]
    redirects: tuple[Redirect, ...] = ()
    is_sound: bool = True
    """Whether the grammar takes it as it stands."""
    is_compound: bool = False
    """Whether it holds a loop, a condition or a function."""
    has_heredoc: bool = False
    in_background: bool = False
    functions: tuple[str, ...] = ()
    """The functions that it defines."""
    is_pipeline: bool = False
    """Whether it is one simple command, or several joined by pipes alone, with their redirections."""

    @property
    def is_plain(self) -> bool:
        """Whether it is one simple command with literal words, and nothing else."""
        one = len(self.simples) == 1 and self.simples[0].is_literal and not self.simples[0].assignments
        return one and not (self.redirects or self.is_compound or self.has_heredoc or self.in_background)

    @property
    def written(self) -> tuple[str, ...]:
        """The files that its redirections write."""
        return tuple(redirect.target for redirect in self.redirects if redirect.writes)


def parse_line(text: str) -> Line:
    """Take a command line apart; whatever the text is, something comes of it. Raises `MissingExtra`."""
    if len(text) > LONGEST_LINE or "\0" in text:
        return Line(text, (), is_sound=False)
    root = parse(text.encode("utf-8", "replace") + b"\n")
    nodes = list(walk(root))
    return Line(
        text=text,
        simples=tuple(_simple(node) for node in nodes if node.type in _SIMPLE or _is_bare_assignment(node)),
        redirects=tuple(_redirect(node) for node in nodes if node.type == "file_redirect"),
        is_sound=not root.has_error,
        is_compound=any(node.type in _COMPOUND for node in nodes),
        has_heredoc=any(node.type == "heredoc_redirect" for node in nodes),
        in_background=any(node.type == "&" for node in nodes),
        functions=tuple(_function(node) for node in nodes if node.type == "function_definition"),
        is_pipeline=_is_pipeline(root),
    )


def _function(node: Node) -> str:
    name = node.child_by_field_name("name")
    return text_of(name) if name is not None else ""


def _is_pipeline(root: Node) -> bool:
    statements = [child for child in root.children if child.is_named and child.type != "comment"]
    inner = list(walk(root))
    joined = any(node.type in ("list", "subshell", "compound_statement", "command_substitution") for node in inner)
    return len(statements) == 1 and statements[0].type in _PIPED and not joined


def _is_bare_assignment(node: Node) -> bool:
    return node.type == "variable_assignment" and (node.parent is None or node.parent.type not in _SIMPLE)


def _simple(node: Node) -> Simple:
    if node.type == "variable_assignment":
        return Simple((), (text_of(node),), is_literal=not _is_dynamic(node))
    words, assignments = [], []
    for child in node.children:
        if child.type == "variable_assignment" and node.type == "command":
            assignments.append(text_of(child))
        elif child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
            words.append(_word(child))
    dynamic = any(_is_dynamic(child) for child in node.children)
    return Simple(tuple(words), tuple(assignments), is_literal=not dynamic)


def _redirect(node: Node) -> Redirect:
    target = node.child_by_field_name("destination")
    operator = "".join(text_of(child) for child in node.children if not child.is_named)
    return Redirect(operator, _word(target) if target is not None else "")


def _is_dynamic(node: Node) -> bool:
    return any(inner.type in _DYNAMIC for inner in walk(node))


def _word(node: Node) -> str:
    if node.type == "raw_string":
        return text_of(node)[1:-1]
    if node.type in ("string", "concatenation", "command_name") and not _is_dynamic(node):
        if node.type == "string":
            return _unescaped(text_of(node)[1:-1], '"\\$`')
        return "".join(_word(child) for child in node.children)
    raw = text_of(node)
    return raw if _is_dynamic(node) else _unescaped(raw, None)


def _unescaped(text: str, special: str | None) -> str:
    """Without the backslashes that quote: before any character, or inside double quotes before a special one."""
    out, at = [], 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and (special is None or text[at + 1] in special):
            at += 1
        out.append(text[at])
        at += 1
    return "".join(out)
