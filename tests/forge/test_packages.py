"""Commands and their packages: the index, and the script that writes it."""

from __future__ import annotations

import gzip
import subprocess
import sys
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
    assert len(package_index()) > 500


def test_the_index_is_made_from_a_contents_file(tmp_path: Path) -> None:
    listed = tmp_path / "Contents-amd64.gz"
    rows = [
        "usr/bin/jq utils/jq",
        "usr/bin/ag utils/silversearcher-ag,devel/ag",
        "usr/share/doc/x doc/x",
        "bin/tar admin/tar",
    ]
    listed.write_bytes(gzip.compress("\n".join(rows).encode()))
    made = subprocess.run([sys.executable, SCRIPT, listed], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    lines = made.stdout.splitlines()
    assert lines[0].startswith("# ")
    assert {"jq\tjq", "ag\tag", "tar\ttar"} <= set(lines)
    assert "x\tx" not in lines
