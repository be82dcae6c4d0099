"""TermArena in an environment of its own, with extras that the tests' own does not have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


class OwnVenv:
    """Installed below `place` when it is made, from the package index."""

    def __init__(self, place: Path, *, extras: str, more: tuple[str, ...] = ()) -> None:
        self.place = place
        self._python = place / "venv" / "bin" / "python"
        self._done(sys.executable, "-m", "venv", str(place / "venv"))
        self._done(str(self._python), "-m", "pip", "install", "--quiet", "-e", f"{ROOT}[{extras}]", *more)

    def _done(self, *words: str) -> None:
        subprocess.run(words, check=True)  # noqa: S603 - pip, for these tests

    def termarena(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run it in `place`, with nothing of the tests' environment."""
        own = {"PATH": "/usr/bin:/bin", "HOME": str(self.place), "TERMARENA_HOME": str(self.place / "home")}
        return subprocess.run(  # noqa: S603 - our own program
            [str(self._python), "-m", "termarena", *words],
            cwd=self.place,
            env={**own, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
