"""Pulls in processes of their own, to be killed or to be run at the same time."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PULL = """
import sys
from pathlib import Path
from termarena.tasks.pull import PullError, pull
try:
    show = lambda step: print(step.bytes_done, step.files_done, flush=True)
    print(pull(sys.argv[1], home=Path(sys.argv[2]), progress=show).path)
except PullError as error:
    sys.exit(f"{error.reason}: {error.message}")
"""


def start(source: str, home: Path, *before: str) -> subprocess.Popen[str]:
    """Start a pull: its steps and then its path go to stdout. `before` goes before the command, as `unshare` does."""
    command = [*before, sys.executable, "-c", PULL, source, str(home)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
