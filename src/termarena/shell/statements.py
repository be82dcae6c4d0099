"""Reading shell scripts: their statements, where each writes, which words and numbers it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.shell.tree import parse, text_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

__all__ = ["Script", "Span", "Statement"]

STATEMENTS: Final = frozenset(
    {"command", "pipeline", "list", "redirected_statement", "variable_assignment", "variable_assignments"}
    | {"declaration_command", "unset_command", "if_statement", "while_statement", "for_statement", "case_statement"}
    | {"c_style_for_statement", "function_definition", "compound_statement", "subshell", "negated_command"}
    | {"test_command"}
)
BODIES: Final = frozenset({"do_group", "compound_statement", "if_statement", "else_clause", "elif_clause", "case_item"})
"""Nodes whose children are statements of their own; the condition of an `if` is one too, and is left alone."""
WRITES: Final = frozenset({">", ">>", ">|", "&>", "&>>"})
NOWHERE: Final = ("/dev/", "&")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a script, in bytes of its UTF-8 form."""

    start: int
    end: int
    line: int
    """From 1."""
    text: str


@dataclass(frozen=True, slots=True)
class Statement(Span):
    """One statement; a pipeline or a list (`a && b`) is one, and so is each in a loop's body."""

    depth: int
    """0 at the top of the script."""
    targets: tuple[str, ...]
    """Where it sends its output, as written in the script."""
    words: tuple[Span, ...]
    """The arguments of its commands, in order, without their names."""
    name: str
    """Of its first command; empty where it has none."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script that parses as bash does."""

    text: str
    statements: tuple[Statement, ...]
    """In order of their beginnings: one that holds others comes before them."""
    numbers: tuple[Span, ...]
    """Whole numbers that stand as words of their own."""
    strings: tuple[Span, ...]
    """What stands in quotes, the quotes included."""
    documents: tuple[Span, ...]
    """The bodies of here-documents."""

    @classmethod
    def parse(cls, text: str) -> Script | None:
        """The script, or None where it does not parse or nests beyond reading.

        Raises `MissingExtra` without a parser.
        """
        source = text.encode("utf-8", "surrogateescape")
        root = parse(source)
        if root.has_error:
            return None
        try:
            nodes, statements = list(walk(root)), tuple(_statements(root))
        except RecursionError:
            return None
        return cls(
            text=text,
            statements=statements,
            numbers=tuple(_span(node) for node in nodes if node.type == "number"),
            strings=tuple(_span(node) for node in nodes if node.type in ("string", "raw_string")),
            documents=tuple(_span(node) for node in nodes if node.type == "heredoc_body"),
        )

    @property
    def top(self) -> tuple[Statement, ...]:
        """The statements that stand in no other."""
        return tuple(one for one in self.statements if one.depth == 0)

    def replaced(self, span: Span, text: str) -> str:
        """The script's text with another one in the span's place."""
        source = self.text.encode("utf-8", "surrogateescape")
        changed = source[: span.start] + text.encode("utf-8", "surrogateescape") + source[span.end :]
        return changed.decode("utf-8", "surrogateescape")

    def until(self, statement: Statement) -> str:
        """The script's text up to the end of a statement."""
        source = self.text.encode("utf-8", "surrogateescape")
        return source[: statement.end].decode("utf-8", "surrogateescape") + "\n"


def _span(node: Node) -> Span:
    return Span(node.start_byte, node.end_byte, node.start_point[0] + 1, text_of(node))


def _statements(node: Node, depth: int = 0) -> Iterator[Statement]:
    is_condition = node.type in ("if_statement", "elif_clause")
    for child in node.children:
        if child.type == "then":
            is_condition = False
        if is_condition:
            continue
        if child.type in STATEMENTS:
            yield _statement(child, depth)
        for body in _bodies(child):
            yield from _statements(body, depth + 1)


def _bodies(node: Node) -> Iterator[Node]:
    if node.type in BODIES:
        yield node
    elif node.type in (
        "while_statement",
        "for_statement",
        "c_style_for_statement",
        "function_definition",
        "case_statement",
    ):
        for child in node.children:
            yield from _bodies(child)
    elif node.type == "redirected_statement" and node.children:
        yield from _bodies(node.children[0])


def _statement(node: Node, depth: int) -> Statement:
    whole = _span(node)
    commands = [one for one in (node, *_own(node)) if one.type == "command"]
    name = next((child for one in commands for child in one.children if child.type == "command_name"), None)
    return Statement(
        start=whole.start,
        end=whole.end,
        line=whole.line,
        text=whole.text,
        depth=depth,
        targets=tuple(dict.fromkeys(_targets(node))),
        words=tuple(
            _span(child)
            for one in commands
            for child in one.named_children
            if child.type not in ("command_name", "variable_assignment", "file_redirect", "heredoc_redirect")
        ),
        name=text_of(name) if name is not None else "",
    )


def _own(node: Node) -> Iterator[Node]:
    """The nodes of a statement that belong to no other statement in it."""
    for child in node.children:
        if child.type not in BODIES and child.type != "command_substitution":
            yield child
            yield from _own(child)


def _targets(node: Node) -> Iterator[str]:
    for one in _own(node):
        if one.type == "file_redirect" and any(child.type in WRITES for child in one.children):
            # `2>` sends errors away, which are no output.
            has_number = one.children[0].type == "file_descriptor" and text_of(one.children[0]) != "1"
            target = text_of(one.children[-1])
            if not has_number and not target.startswith(NOWHERE):
                yield target
