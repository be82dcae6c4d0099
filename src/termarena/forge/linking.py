"""The repository that a recording lies in, or whose address stands beside it: whether the session worked in it."""

from __future__ import annotations

import fnmatch
import posixpath
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from termarena.forge.repositories import Clone
from termarena.forge.steps import Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from termarena.forge.steps import Step
    from termarena.shell.lines import Line

__all__ = ["linked_to", "works_in"]

MOST_PATTERNS: Final = 50
_MADE_HERE: Final = ("init", "clone")
_WITH_VALUE: Final = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})
_NEEDS_NONE: Final = ("init", "clone", "config", "help", "version")
_BY_MANIFEST: Final = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "cmake": ("CMakeLists.txt",),
    "npm": ("package.json",),
    "cargo": ("Cargo.toml",),
    "go": ("go.mod",),
}


def linked_to(address: str | None, steps: Sequence[Step], workdir: str) -> Clone | None:
    """The repository as if it had been cloned to where the session began; None where the session makes its own."""
    if address is None or not address.startswith(("https://", "http://")):
        return None
    if any(words[0] in _MADE_HERE for step in steps for words in _git(step)):
        return None
    return Clone(address, workdir)


def works_in(steps: Iterable[Step], names: Collection[str], workdir: str) -> bool:
    """Whether the session names a file or folder of it, asks git about it, or builds it; `names` are all its files."""
    there = {*names, *(folder for name in names for folder in _folders(name))}
    kept = [step for step in steps if step.role is not Role.DROPPED or step.line.is_sound]
    if any(words[0] not in _NEEDS_NONE for step in kept for words in _git(step)):
        return True
    manifests = {name for step in kept for simple in step.line.simples for name in _BY_MANIFEST.get(simple.name, ())}
    given = {_inside(word, step.cwd, workdir) for step in kept for word in _given(step.line)}
    # `*` alone matches in every folder that there is.
    patterns = sorted(path for path in given if {"*", "?"} & {*path} and any(map(str.isalnum, path)))[:MOST_PATTERNS]
    return bool(manifests & {*names} or given & there or any(fnmatch.filter(there, pattern) for pattern in patterns))


def _given(line: Line) -> Iterator[str]:
    """The words that may name a file: no options, and of programs only those that are called by a path."""
    for simple in line.simples:
        called = simple.words[:1] if simple.words and simple.words[0].startswith(("./", "../")) else ()
        yield from (word for word in (*called, *simple.words[1:]) if word and not word.startswith("-"))
    yield from (redirect.target for redirect in line.redirects if redirect.target)


def _git(step: Step) -> list[list[str]]:
    """The words of its calls of git behind options that stand before the name of what git is to do."""
    found = [simple.words for simple in step.line.simples if simple.name == "git"]
    plain = [
        [word for before, word in pairwise(words) if not word.startswith("-") and before not in _WITH_VALUE]
        for words in found
    ]
    return [words for words in plain if words]


def _inside(word: str, cwd: str, workdir: str) -> str:
    return posixpath.relpath(posixpath.join(cwd, word), workdir)


def _folders(name: str) -> Iterable[str]:
    parts = name.split("/")[:-1]
    return ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
