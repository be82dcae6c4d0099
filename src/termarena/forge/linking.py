"""The repository that a recording lies in, or whose address stands beside it: whether the session worked in it."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from termarena.forge.repositories import Clone
from termarena.forge.steps import Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from termarena.forge.steps import Step

__all__ = ["linked_to", "works_in"]

_MADE_HERE: Final = ("init", "clone")
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
    for step in steps:
        if step.role is Role.DROPPED and not step.line.is_sound:
            continue
        if any(words[0] not in _NEEDS_NONE for words in _git(step)):
            return True
        for simple in step.line.simples:
            called = simple.words[:1] if simple.words and simple.words[0].startswith(("./", "../")) else ()
            given = [word for word in (*called, *simple.words[1:]) if word and not word.startswith("-")]
            is_named = any(_inside(word, step.cwd, workdir) in there for word in given)
            if is_named or any(name in names for name in _BY_MANIFEST.get(simple.name, ())):
                return True
    return False


def _git(step: Step) -> list[list[str]]:
    """The words of its calls of git behind options that stand before the name of what git is to do."""
    found = [simple.words[1:] for simple in step.line.simples if simple.name == "git"]
    plain = [[word for word in words if not word.startswith("-")] for words in found]
    return [words for words in plain if words]


def _inside(word: str, cwd: str, workdir: str) -> str:
    return posixpath.relpath(posixpath.join(cwd, word), workdir)


def _folders(name: str) -> Iterable[str]:
    parts = name.split("/")[:-1]
    return ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
