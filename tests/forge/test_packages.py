"""Commands and their packages: the index, and the script that writes it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from termarena.forge.packages import package_index, packages_for

SCRIPT = Path(__file__).parents[2] / "scripts" / "command_packages.py"


def test_packages_of_commands_without_what_every_image_has() -> None:
    assert packages_for(["sqlite3", "jq", "gcc", "ls", "awk", "no-such-command"]) == (
        "gcc",
        "jq",
        "libc6-dev",
        "sqlite3",
    )
    assert packages_for(["python3"]) == ("python3",)


def test_the_index_is_made_from_contents_files(tmp_path: Path) -> None:
    listed, plain, out = tmp_path / "Contents-amd64.gz", tmp_path / "Contents-all", tmp_path / "index.gz"
    rows = ["usr/bin/jq utils/jq", "usr/bin/ag utils/silversearcher-ag,devel/ag", "usr/share/doc/x doc/x"]
    listed.write_bytes(gzip.compress("\n".join(rows).encode()))
    plain.write_text("bin/tar admin/tar\nusr/bin/yarn python/cmdtest\n")
    words = [sys.executable, *map(str, (SCRIPT, listed, plain)), "--out", str(out), "--origin", "two files"]
    subprocess.run(words, capture_output=True, check=True)  # noqa: S603 - our own
    lines = gzip.decompress(out.read_bytes()).decode().splitlines()
    assert lines[0].startswith("# package<TAB>commands; two files, 20")
    assert {"jq\tjq", "ag\tag", "tar\ttar"} <= set(lines)
    assert not {"x\tx", "cmdtest\tyarn"} & set(lines)


def test_the_index_is_a_whole_release_and_small() -> None:
    assert len(package_index()) > 40_000
    assert packages_for(["convert", "go", "crontab", "ping", "yarn"]) == (
        "cron",
        "golang-go",
        "imagemagick",
        "iputils-ping",
    )
    assert len((files("termarena.forge") / "command_packages.tsv.gz").read_bytes()) < 1 << 20
