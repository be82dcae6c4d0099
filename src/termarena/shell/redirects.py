"""What redirections say by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.shell.tree import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tree_sitter import Node

    from termarena.shell.calls import Call

__all__ = ["Inputs", "heredoc_of", "is_output", "read_by", "written_by"]

_PLAIN: Final = frozenset({"word", "string", "raw_string", "concatenation", "simple_expansion", "expansion"})
_WORDS: Final = _PLAIN | {
    "ansi_c_string", "command_substitution", "process_substitution", "arithmetic_expansion", "translated_string",
    "brace_expression",
}  # fmt: skip


class Inputs(NamedTuple):
    """What redirections put before a call, files aside."""

    calls: tuple[Call, ...]
    texts: list[str]


def is_output(redirect: Node) -> bool:
    """Whether it names a file that is written."""
    return redirect.type == "file_redirect" and any(child.type.startswith((">", "&>")) for child in redirect.children)


def written_by(redirect: Node) -> list[Node]:
    """The word that names the file which it writes."""
    return [child for child in redirect.named_children if child.type in _WORDS][:1] if is_output(redirect) else []


def read_by(redirects: Iterable[Node]) -> Iterator[Node]:
    """The words that name files at a call's input."""
    for redirect in redirects:
        if redirect.type == "file_redirect" and any(child.type == "<" for child in redirect.children):
            yield from (child for child in redirect.named_children if child.type in _PLAIN)


def heredoc_of(redirect: Node) -> str:
    """The text of a here-document; empty for any other."""
    if redirect.type != "heredoc_redirect":
        return ""
    return "".join(text_of(child) for child in redirect.named_children if child.type == "heredoc_body")
