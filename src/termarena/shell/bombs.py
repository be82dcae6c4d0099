"""Functions that start themselves over and over, and wait for none of what they start."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from termarena.shell.runners import SHELLS
from termarena.shell.tree import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

__all__ = ["starts_itself"]

_MAY_CALL: Final = SHELLS | {"eval", "time"}


def starts_itself(called: str, body: Node) -> bool:
    """Whether a function with this name and body calls itself in the background."""
    return any(_calls_function(command, called) for command in _in_background(body))


def _in_background(body: Node) -> Iterator[Node]:
    """The commands of a function that it does not wait for."""
    waiting = [(body, False)]
    while waiting:
        node, is_behind = waiting.pop()
        if is_behind and node.type == "command":
            yield node
        for child, after in pairwise([*node.children, None]):
            if child is not None:
                waiting.append((child, is_behind or (after is not None and after.type == "&")))


def _calls_function(command: Node, called: str) -> bool:
    """Whether a command is a function of this name, or a shell that may know it."""
    name = command.child_by_field_name("name")
    program = text_of(name) if name is not None else ""
    if program.rpartition("/")[2] in _MAY_CALL:
        return re.search(rf"(?<![\w./-]){re.escape(called)}(?![\w.-])", text_of(command)) is not None
    return program == called
