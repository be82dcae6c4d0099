"""What a session installed itself, and in which versions: part of the image, not of the solution.

A version is known where the session names it or where the installer says what it brought. npm can be told a date; for
anything else nothing here knows what was the newest version then, and that is told, not guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from termarena.shell.effects import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from termarena.forge.steps import Step

__all__ = ["Installed", "installed_by"]

_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_PYTHON: Final = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w,-]+\])?(?P<version>(?:[=<>~!]=?=?[\w.*,<>=!~]+)?)")
_NODE: Final = re.compile(r"(?P<name>(?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*)(?P<version>(?:@[\w.^~-]+)?)")
_PIP_BROUGHT: Final = re.compile(r"^Successfully installed (.+)$", re.MULTILINE)
_PIP_HAD: Final = re.compile(
    r"^Requirement already satisfied: ([\w.-]+)\S* in \S+ (?:\(from .*\) )?\(([\w.]+)\)", re.MULTILINE
)
_NPM_BROUGHT: Final = re.compile(r"^(?:\+ |[├└]─+ )((?:@[\w.-]+/)?[\w.-]+)@(\d[\w.-]*)$", re.MULTILINE)
_DEBIAN_TOOLS: Final = ("apt", "apt-get", "aptitude")


@dataclass(frozen=True, slots=True)
class Installed:
    """Packages by their installer, each as that installer takes it."""

    debian: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    """On the PATH (`npm install -g`)."""
    node_here: tuple[str, ...] = ()
    """In the working folder."""
    undated: tuple[str, ...] = ()
    """Those whose version at the time of the recording is not known: an image gets the newest."""


@dataclass(slots=True)
class _Found:
    debian: set[str] = field(default_factory=set)
    python: dict[str, str] = field(default_factory=dict)
    node: dict[str, str] = field(default_factory=dict)
    node_here: dict[str, str] = field(default_factory=dict)


def installed_by(
    steps: Iterable[Step], recorded_at: str | None = None, dated: Mapping[str, str] | None = None
) -> Installed:
    """What `apt-get install`, `pip install` and `npm install` of a session brought; `recorded_at` in ISO 8601.

    `dated` are versions of Python packages on that day, where they are known.
    """
    found = _Found()
    for step in steps:
        if step.effect is Effect.REACHES and not step.exit_status:
            for simple in step.line.simples:
                _take(found, simple.bare, step.output)
    for name, version in (dated or {}).items():
        if found.python.get(name) == "":
            found.python[name] = f"=={version}"
    # npm takes the newest of a day by itself; Debian's packages are those of the base's release, or of an archive.
    undated = [name for name, version in found.python.items() if not version]
    undated += [name for name, version in (found.node | found.node_here).items() if not version and not recorded_at]
    return Installed(
        debian=tuple(sorted(found.debian)),
        python=_joined(found.python),
        node=_joined(found.node),
        node_here=_joined(found.node_here),
        undated=tuple(sorted(undated)),
    )


def _joined(packages: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(f"{name}{version}" for name, version in packages.items()))


def _take(found: _Found, words: tuple[str, ...], output: str) -> None:
    name, rest = (words[0] if words else ""), words[1:]
    wanted = rest[1:]
    if name in _DEBIAN_TOOLS and "install" in rest:
        found.debian.update(word for word in rest if word != "install" and _NAME.fullmatch(word))
    elif name in ("pip", "pip3") and rest[:1] == ("install",):
        found.python |= dict(_versioned(_wanted(wanted), _PYTHON, _brought_by_pip(output), "=="))
    elif name == "npm" and rest[:1] and rest[0] in ("install", "i", "add"):
        place = found.node if {"-g", "--global"} & set(wanted) else found.node_here
        place |= dict(_versioned(_wanted(wanted), _NODE, dict(_NPM_BROUGHT.findall(output)), "@"))


_WITH_VALUE: Final = frozenset({"-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "-t", "--target"})
_WITH_VALUE_TOO: Final = frozenset({"-e", "--editable", "--extra-index-url", "--prefix", "--registry", "--find-links"})


def _wanted(words: tuple[str, ...]) -> Iterator[str]:
    """The operands that name a package: no option, no path, no address."""
    before = ""
    for word in words:
        is_value = before in _WITH_VALUE or before in _WITH_VALUE_TOO
        if not is_value and not word.startswith(("-", ".", "/")):
            yield word
        before = word


def _versioned(
    words: Iterable[str], pattern: re.Pattern[str], brought: Mapping[str, str], sign: str
) -> Iterator[tuple[str, str]]:
    known = {_plain(name): version for name, version in brought.items()}
    for word in words:
        parts = pattern.fullmatch(word)
        if parts is not None:
            shown = known.get(_plain(parts["name"]))
            yield word.removesuffix(parts["version"]), parts["version"] or (f"{sign}{shown}" if shown else "")


def _brought_by_pip(output: str) -> dict[str, str]:
    """The versions that pip says it installed or had; it lists `name-version`, and names may hold a minus too."""
    found = dict(_PIP_HAD.findall(output))
    for line in _PIP_BROUGHT.findall(output):
        pairs = (one.rpartition("-") for one in line.split())
        found |= {name: version for name, _, version in pairs if name}
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
