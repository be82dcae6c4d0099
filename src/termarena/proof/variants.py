"""Equivalence variants: what a solution could be as well. A pure function of a script's text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.shell.statements import Script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.shell.statements import Statement

__all__ = ["Variant", "variants_of"]

MOST_SWAPS: Final = 3
SIMPLE: Final = frozenset(
    {"cp", "chmod", "mkdir", "touch", "echo", "printf", "cat", "sed", "mv", "rm", "ln", "install"}
)
"""Commands of which two can be told to be independent by their words."""
_HARMLESS: Final = """
mkdir -p "${TMPDIR:-/tmp}/scratch.d" && echo notes >"${TMPDIR:-/tmp}/scratch.d/notes.txt"
echo "notes" >"${HOME:-/root}/.notes-of-mine"
"""
_FIRST_LINE: Final = re.compile(r"\A#!.*\n")


@dataclass(frozen=True, slots=True)
class Variant:
    """A script that means the same."""

    name: str
    what: str
    script: str


def variants_of(text: str) -> tuple[Variant, ...]:
    """Every variant of a shell script; none of one that does not parse. Raises `MissingExtra` without a parser."""
    script = Script.parse(text)
    if script is None:
        return ()
    found: dict[str, Variant] = {}
    for one in (*_additions(text), *_swapped(script), *_rewritten(script)):
        if one.script != text and Script.parse(one.script) is not None:
            found.setdefault(one.script, one)
    return tuple(found.values())


def _additions(text: str) -> Iterator[Variant]:
    """The script, with something before it that changes nothing that counts."""
    first = _FIRST_LINE.match(text)
    at = first.end() if first else 0

    def begun_with(line: str) -> str:
        return text[:at] + line + text[at:]

    yield Variant("extra-files", "leaves notes in its home and among temporary files", begun_with(_HARMLESS.lstrip()))
    elsewhere = "mkdir -p /var/tmp/elsewhere; TMPDIR=/var/tmp/elsewhere; export TMPDIR\n"
    yield Variant("other-temporary-names", "keeps temporary files elsewhere", begun_with(elsewhere))
    yield Variant("other-umask", "writes files that its group may change", begun_with("umask 002\n"))


def _swapped(script: Script) -> Iterator[Variant]:
    """Neighbours that have nothing to do with each other, the other way round."""
    pairs = zip(script.top, script.top[1:], strict=False)
    swaps = [(one, other) for one, other in pairs if _is_simple(one) and _is_simple(other) and _are_apart(one, other)]
    for one, other in swaps[:MOST_SWAPS]:
        source = script.text.encode("utf-8", "surrogateescape")
        between = source[one.end : other.start]
        turned = other.text.encode("utf-8", "surrogateescape") + between + one.text.encode("utf-8", "surrogateescape")
        changed = (source[: one.start] + turned + source[other.end :]).decode("utf-8", "surrogateescape")
        yield Variant("reordered", f"lines {one.line} and {other.line} the other way round", changed)


def _is_simple(statement: Statement) -> bool:
    has_more = any(sign in statement.text for sign in ("|", "&", ";", "$(", "`", "<<", "\n"))
    return statement.name in SIMPLE and not has_more


def _are_apart(one: Statement, other: Statement) -> bool:
    """Whether no word of the one is a path of the other, nor above or below it; what a variable holds is not known."""
    ours, theirs = _paths(one), _paths(other)
    is_known = bool(ours) and bool(theirs) and not any("$" in path or ".." in path for path in ours | theirs)
    return is_known and not any(_touch(mine, its) for mine in ours for its in theirs)


def _paths(statement: Statement) -> set[str]:
    words = [word.text for word in statement.words] + list(statement.targets)
    return {word.strip("'\"").rstrip("/") for word in words if not word.startswith("-")}


def _touch(one: str, other: str) -> bool:
    if one.startswith("/") != other.startswith("/"):
        # Where a relative path leads depends on the folder: the same last name may be the same file.
        first, second = (path.rpartition("/")[2] for path in (one, other))
        return first == second or "." in (one, other) or "*" in one + other
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/") or "*" in one + other


# What follows must be names alone: after `--` a flag would be one too.
_NAMES: Final = r"(?P<rest>(?!-)(?:(?!\s-)[^|&;\n])+)(?=$|[|&;\n])"
# Long flags only that BusyBox has too.
_REWRITES: Final = (
    (re.compile(rf"chmod 0?755 {_NAMES}"), r"chmod u=rwx,go=rx \g<rest>", "chmod by letters"),
    (re.compile(rf"chmod a\+x {_NAMES}"), r"chmod ugo+x \g<rest>", "chmod by letters"),
    (re.compile(r"mkdir -p (?P<rest>[^|&;\n]+)"), r"mkdir --parents \g<rest>", "a long flag of mkdir"),
    (re.compile(rf"cp {_NAMES}"), r"cp -f -- \g<rest>", "cp with a flag that changes nothing"),
    (re.compile(rf"rm -rf {_NAMES}"), r"rm -r -f -- \g<rest>", "flags of rm apart"),
    (re.compile(r"sed -i (?P<rest>[^|&;\n]+)"), r"sed --in-place \g<rest>", "a long flag of sed"),
)


def _rewritten(script: Script) -> Iterator[Variant]:
    """Commands in other words of the same meaning."""
    for one in script.statements:
        if one.name not in SIMPLE or "<<" in one.text:
            continue
        for pattern, other, what in _REWRITES:
            if pattern.match(one.text):
                yield Variant("other-words", what, script.replaced(one, pattern.sub(other, one.text, count=1)))
