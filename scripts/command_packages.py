"""Write the forge's index of commands and Debian packages, from a `Contents` file of the distribution.

    python scripts/command_packages.py Contents-amd64.gz > src/termarena/forge/command_packages.tsv
    python scripts/command_packages.py --installed > src/termarena/forge/command_packages.tsv

`apt-file update` or a mirror's `dists/<release>/main/` has the file. `--installed` takes what dpkg knows on this
machine instead: exact, and only as wide as what is installed. Where several packages bring a command, the one that is
called like it wins, then the shortest name.
"""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDERS: Final = ("usr/bin/", "bin/", "usr/sbin/", "sbin/", "usr/games/")
# Names that a package's own scripts make, so that no list of files has them.
ALTERNATIVES: Final = {
    "awk": "mawk",
    "c++": "g++",
    "cc": "gcc",
    "editor": "nano",
    "java": "default-jre-headless",
    "javac": "default-jdk-headless",
    "nc": "netcat-openbsd",
    "nodejs": "nodejs",
    "pager": "less",
    "python": "python-is-python3",
    "python3": "python3",  # python3-minimal brings the name and little of the library
    "rsh": "openssh-client",
    "vi": "vim-tiny",
    "vim": "vim",
}
INFO: Final = Path("/var/lib/dpkg/info")


def main(arguments: list[str]) -> int:
    """Print the index; 2 for a wrong call."""
    if len(arguments) != 1:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    pairs = _installed() if arguments == ["--installed"] else _listed(Path(arguments[0]))
    origin = "dpkg on this machine" if arguments == ["--installed"] else Path(arguments[0]).name
    sys.stdout.write(f"# package<TAB>commands; made by scripts/command_packages.py from {origin}\n")
    for package, commands in sorted(_chosen(pairs).items()):
        sys.stdout.write(f"{package}\t{' '.join(sorted(commands))}\n")
    return 0


def _listed(path: Path) -> Iterator[tuple[str, str]]:
    """Command and package of each line of a Contents file: a path, white space, section/package names with commas."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            name, _, packages = line.rstrip("\n").rpartition(" ")
            for package in packages.split(","):
                yield from _command(name.strip(), package.rpartition("/")[2])


def _installed() -> Iterator[tuple[str, str]]:
    for path in sorted(INFO.glob("*.list")):
        package = path.stem.partition(":")[0]
        for line in path.read_text("utf-8", errors="replace").splitlines():
            yield from _command(line.lstrip("/"), package)


def _command(path: str, package: str) -> Iterator[tuple[str, str]]:
    folder = next((folder for folder in FOLDERS if path.startswith(folder)), None)
    name = path[len(folder) :] if folder else ""
    if name and "/" not in name and " " not in name:
        yield name, package


def _chosen(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    offers: defaultdict[str, set[str]] = defaultdict(set)
    for command, package in pairs:
        offers[command].add(package)
    offers.update({command: {package} for command, package in ALTERNATIVES.items()})
    index: defaultdict[str, set[str]] = defaultdict(set)
    for command, packages in offers.items():
        index[min(packages, key=lambda package: (package != command, len(package), package))].add(command)
    return index


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
