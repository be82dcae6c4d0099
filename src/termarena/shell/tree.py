"""The syntax tree of shell text, from tree-sitter's bash grammar, which stands errors."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from termarena.core.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser

__all__ = ["parse", "text_of", "walk"]


@cache
def _parser() -> Parser:
    try:
        import tree_sitter  # noqa: PLC0415 - an extra
        import tree_sitter_bash  # noqa: PLC0415 - as above
    except ImportError as error:
        raise MissingExtra("tree-sitter-bash", extra="forge", purpose="reading shell commands") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(source: bytes) -> Node:
    """The root of the text's tree; `has_error` where the grammar does not cover it. Raises `MissingExtra`."""
    return _parser().parse(source).root_node


def walk(root: Node) -> Iterator[Node]:
    """Every node in the order of the text, without recursion: text from outside may nest as deep as it likes."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def text_of(node: Node) -> str:
    """What stands there; bytes that are no UTF-8 come out as the same bytes with `surrogateescape`."""
    return (node.text or b"").decode("utf-8", "surrogateescape")
