"""The command line as a user meets it: a process of its own, with its own streams."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATIENCE_S = 120


def termarena(
    *arguments: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    patience_s: float = PATIENCE_S,
) -> subprocess.CompletedProcess[str]:
    """Run `termarena` to its end; `env` is added to the environment of the tests. The caller looks at the status."""
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "termarena", *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
