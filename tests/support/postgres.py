"""A PostgreSQL of its own for the tests: Debian's programs, an ordinary user, a socket in a folder, nothing durable."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 60
USER = "postgres"


def programs() -> Path | None:
    """Where `initdb` is; None where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


@contextmanager
def postgres() -> Iterator[str]:
    """A server; the address is that of its folder of sockets: `postgresql://postgres@/NAME?host=…`."""
    bin_ = programs()
    assert bin_ is not None
    # Below /tmp itself: pytest's own folders let no other user in, and PostgreSQL refuses to be root.
    folder = Path(tempfile.mkdtemp(prefix="termarena-postgres-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, USER)
        data = folder / "data"
        _run([str(bin_ / "initdb"), "-D", str(data), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8"])
        options = f"-c fsync=off -c listen_addresses='' -c unix_socket_directories={folder}"
        log = str(folder / "log")
        _run([str(bin_ / "pg_ctl"), "-D", str(data), "-w", "-t", str(PATIENCE_S), "-l", log, "-o", options, "start"])
        try:
            yield f"host={folder}"
        finally:
            _run([str(bin_ / "pg_ctl"), "-D", str(data), "-w", "-t", str(PATIENCE_S), "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(argv: list[str]) -> None:
    done = subprocess.run(  # noqa: S603 - Debian's own programs
        argv,
        user=USER if os.getuid() == 0 else None,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stdout
