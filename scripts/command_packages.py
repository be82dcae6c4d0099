"""Write the forge's index of commands and Debian packages, from `Contents` files of the distribution.

    python scripts/command_packages.py --fetch               # from the mirror that this machine's apt is set up with
    python scripts/command_packages.py Contents-amd64.gz Contents-all.gz --origin 'Debian 12, main'

It goes to `src/termarena/forge/command_packages.tsv.gz`, or to `--out`. `--fetch` asks apt for the files into a folder
of its own, so that nothing of this machine changes; other sources of packages than Debian's own are left out. Where
several packages bring a command, the one that is called like it wins, then the shortest name.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INDEX: Final = Path(__file__).parents[1] / "src" / "termarena" / "forge" / "command_packages.tsv.gz"
FOLDERS: Final = ("usr/bin/", "bin/", "usr/sbin/", "sbin/", "usr/games/")
APT_HELPER: Final = "/usr/lib/apt/apt-helper"
SOURCES: Final = Path("/etc/apt/sources.list.d/debian.sources")
# Names that a package's own scripts make, so that no list of files has them, and those that mean another package.
ALTERNATIVES: Final = {
    "awk": "mawk",
    "c++": "g++",
    "cc": "gcc",
    "compare": "imagemagick",
    "composite": "imagemagick",
    "convert": "imagemagick",
    "editor": "nano",
    "ex": "vim",
    "figlet": "figlet",
    "ftp": "tnftp",
    "gnuplot": "gnuplot-nox",
    "go": "golang-go",
    "gofmt": "golang-go",
    "groovy": "groovy",
    "guile": "guile-3.0",
    "identify": "imagemagick",
    "iptables": "iptables",
    "java": "default-jre-headless",
    "javac": "default-jdk-headless",
    "lua": "lua5.4",
    "luac": "lua5.4",
    "mail": "mailutils",
    "mogrify": "imagemagick",
    "montage": "imagemagick",
    "mvn": "maven",
    "mysql": "default-mysql-client",
    "nc": "netcat-openbsd",
    "nodejs": "nodejs",
    "pager": "less",
    "php": "php-cli",
    "psql": "postgresql-client",
    "python": "python-is-python3",
    "python3": "python3",  # python3-minimal brings the name and little of the library
    "rename": "rename",
    "rsh": "openssh-client",
    "scala": "scala",
    "telnet": "inetutils-telnet",
    "traceroute": "traceroute",
    "vi": "vim-tiny",
    "view": "vim",
    "vim": "vim",
    "vimdiff": "vim",
}
# Debian has a program of this name, and whoever types it means another one.
OTHERS: Final = frozenset({"bat", "fd", "terraform", "yarn"})
_APT: Final = """
Dir::State::Lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{folder}/parts";
APT::Sandbox::User "";
Acquire::IndexTargets::deb::Contents-deb {{
  MetaKey "$(COMPONENT)/Contents-$(ARCHITECTURE)"; ShortDescription "Contents"; Description "Contents";
  KeepCompressed "true"; DefaultEnabled "true";
}};
"""


def main(arguments: list[str]) -> int:
    """Write the index; 1 where apt cannot fetch, 2 for a wrong call."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="command-packages-") as folder:
        files = [Path(name) for name in options.contents]
        if options.fetch:
            try:
                files = _fetched(Path(folder))
            except (OSError, subprocess.CalledProcessError) as error:
                sys.stderr.write(f"apt does not give the Contents files: {error}\n")
                return 1
        chosen = _chosen(pair for file in files for pair in _listed(file))
    lines = [f"# package<TAB>commands; {options.origin}, {datetime.now(UTC):%Y-%m-%d}, by scripts/command_packages.py"]
    lines += [f"{package}\t{' '.join(sorted(commands))}" for package, commands in sorted(chosen.items())]
    options.out.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0))
    sys.stderr.write(f"{options.out}: {len(chosen)} packages, {sum(map(len, chosen.values()))} commands\n")
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contents", nargs="*", help="Contents files, packed as apt and mirrors pack them, or plain")
    parser.add_argument("--fetch", action="store_true", help="ask apt for them")
    parser.add_argument(
        "--origin", default="Debian 12 (bookworm), main, amd64", help="what the files are, for the head"
    )
    parser.add_argument("--out", type=Path, default=INDEX)
    options = parser.parse_args(arguments)
    if options.fetch == bool(options.contents):
        parser.error("either --fetch or Contents files")
    return options


def _fetched(folder: Path) -> list[Path]:
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (folder / name).mkdir(parents=True)
    (folder / "parts" / SOURCES.name).write_bytes(SOURCES.read_bytes())
    settings = folder / "apt.conf"
    settings.write_text(_APT.format(folder=folder))
    command = ["/usr/bin/apt-get", "update", "-q", "-c", str(settings)]
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603 - fixed words
    return sorted((folder / "lists").glob("*_Contents-*"))


def _listed(path: Path) -> Iterator[tuple[str, str]]:
    """Command and package of each line of a Contents file: a path, white space, section/package names with commas."""
    if path.suffix == ".gz":
        text = gzip.decompress(path.read_bytes())
    elif path.suffix in (".lz4", ".xz", ".zst"):
        text = subprocess.run([APT_HELPER, "cat-file", str(path)], check=True, capture_output=True).stdout  # noqa: S603 - fixed
    else:
        text = path.read_bytes()
    for line in text.splitlines():
        if not line.startswith((b"usr/", b"bin/", b"sbin/")):
            continue
        name, _, packages = line.decode("utf-8", "replace").rpartition(" ")
        for package in packages.split(","):
            yield from _command(name.strip(), package.rpartition("/")[2])


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
        if command in OTHERS:
            continue
        index[min(packages, key=lambda package: (package != command, len(package), package))].add(command)
    return index


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
