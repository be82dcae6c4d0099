"""Commands and the Debian packages that bring them: the index that `scripts/command_packages.py` makes."""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["ESSENTIAL", "package_index", "packages_for"]

_ESSENTIAL: Final = """
base-files bash bsdutils coreutils dash debianutils diffutils dpkg findutils grep gzip hostname init-system-helpers
login mawk mount passwd perl-base sed sysvinit-utils tar util-linux
"""
ESSENTIAL: Final = frozenset(_ESSENTIAL.split())
"""What every Debian image has."""
_COMPANIONS: Final = {"gcc": "libc6-dev", "clang": "libc6-dev", "cmake": "make"}
"""What a package only recommends, and its commands cannot do without."""


@cache
def package_index() -> Mapping[str, str]:
    """The package of each command that Debian puts on the PATH, as far as one is meant by that name."""
    text = gzip.decompress(files("termarena.forge").joinpath("command_packages.tsv.gz").read_bytes()).decode()
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {command: package for package, commands in rows for command in commands.split()}


def packages_for(commands: Iterable[str]) -> tuple[str, ...]:
    """The packages to install for these commands on a slim image; a command that no package brings is left out."""
    index = package_index()
    found = {index[name] for name in commands if name in index}
    return tuple(sorted((found | {_COMPANIONS[name] for name in found if name in _COMPANIONS}) - ESSENTIAL))
