"""Here-documents of Dockerfiles: what a shell gets of them, and how their text is filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.sandbox.images.expansion import expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.images.recipe import Instruction

__all__ = ["expand_text", "script_of", "untabbed"]


def script_of(one: Instruction) -> str:
    """What the shell of a RUN gets: its line; with here-documents, those after it, or the only one as the script."""
    if not one.heredocs:
        return one.words[0]
    first = one.heredocs[0]
    if len(one.heredocs) == 1 and one.words[0].strip() in _openings(first.name):
        body = untabbed(first.content) if one.words[0].strip().startswith("<<-") else first.content
        return body.rstrip("\n") + "\n"
    return one.text.split(None, 1)[1] if not one.flags else _without_flags(one)


def _openings(name: str) -> set[str]:
    return {f"<<{dash}{quote}{name}{quote}" for dash in ("", "-") for quote in ("", "'", '"')}


def _without_flags(one: Instruction) -> str:
    return one.text[one.text.index(one.words[0]) :]


def untabbed(text: str) -> str:
    """The text of a here-document after `<<-`: tabs before its lines do not count."""
    return "".join(line.lstrip("\t") for line in text.splitlines(keepends=True))


def expand_text(text: str, values: Mapping[str, str]) -> str:
    """Variables in the text of a here-document; quotes mean themselves there."""
    masked = text.replace('"', "\x00").replace("'", "\x01")
    return expand(masked, values).replace("\x00", '"').replace("\x01", "'")
