"""Manifests of a repository: which packages a checkout asks for. Texts in, names out; nothing is run or resolved."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["MANIFESTS", "Needs", "needs_of"]

MOST_PACKAGES: Final = 200
_REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?(?:\s*[=<>~!]=?=?\s*[\w.*]+(?:\s*,\s*[<>=!~]+\s*[\w.*]+)*)?"
)
_NODE_VERSION: Final = re.compile(r"[\w.^~<>=| -]{1,40}")
_TOOLS: Final = {
    "Makefile": ("make",),
    "makefile": ("make",),
    "GNUmakefile": ("make",),
    "CMakeLists.txt": ("cmake", "make", "g++"),
    "meson.build": ("meson", "ninja-build", "gcc"),
    "configure.ac": ("autoconf", "automake", "make", "gcc"),
    "go.mod": ("golang-go",),
    "Cargo.toml": ("cargo",),
    "pom.xml": ("maven", "default-jdk-headless"),
    "build.gradle": ("gradle", "default-jdk-headless"),
    "Gemfile": ("ruby", "bundler"),
    "composer.json": ("composer", "php-cli"),
    "package.json": ("nodejs", "npm"),
    "requirements.txt": ("python3", "python3-pip"),
    "pyproject.toml": ("python3", "python3-pip"),
}
MANIFESTS: Final = frozenset(_TOOLS)
"""The files at a repository's root that say what it takes."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a checkout takes, by installer."""

    debian: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()


def needs_of(texts: Mapping[str, str]) -> Needs:
    """What the manifests ask for, by file name; a manifest that cannot be read asks for its tools only."""
    debian = {tool for name in texts for tool in _TOOLS.get(name, ())}
    return Needs(
        debian=tuple(sorted(debian)),
        python=_listed(texts, {"requirements.txt": _requirements, "pyproject.toml": _project}),
        node=_listed(texts, {"package.json": _node}),
    )


def _listed(texts: Mapping[str, str], readers: Mapping[str, Callable[[str], Iterable[str]]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name, reader in readers.items():
        try:
            found |= dict.fromkeys(reader(texts.get(name, "")))
        except (ValueError, RecursionError, AttributeError, TypeError):
            continue
    return tuple(sorted(found))[:MOST_PACKAGES]


def _requirements(text: str) -> Iterable[str]:
    """Lines that name a package from an index; options, addresses and paths are left out, and so are conditions."""
    lines = (re.split(r"\s#|;", line, maxsplit=1)[0].strip() for line in text.splitlines())
    return [re.sub(r"\s+", "", line) for line in lines if _REQUIREMENT.fullmatch(line)]


def _project(text: str) -> Iterable[str]:
    project: Any = tomllib.loads(text).get("project", {})
    return _requirements("\n".join(str(one) for one in project.get("dependencies", ())))


def _node(text: str) -> Iterable[str]:
    if not text:
        return []
    document: Any = json.loads(text)
    pairs = {**document.get("dependencies", {}), **document.get("devDependencies", {})}
    good = {name: version for name, version in pairs.items() if _NODE_VERSION.fullmatch(str(version))}
    return [f"{name}@{version}" for name, version in good.items() if re.fullmatch(r"(?:@[\w.-]+/)?[\w.-]+", name)]
