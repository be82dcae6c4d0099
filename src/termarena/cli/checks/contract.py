"""What a check is given and what it answers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from termarena.sandbox.namespace.probe import Fact

__all__ = ["Check", "Machine", "Status", "first_line_of"]

Status = Literal["ok", "limited", "missing"]

# Long enough for a cold disk or a busy engine, short enough to wait for.
PATIENCE_S = 5.0


@dataclass(frozen=True)
class Check:
    """One answer: `found` says what is there, `advice` what to do where that is not all one could wish for."""

    name: str
    status: Status
    found: str
    advice: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    """The same for programs: plain values only, never a secret."""


@dataclass(frozen=True)
class Machine:
    """The machine as the checks see it; tests point it at a machine of their own."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    """Where `/proc`, `/sys`, `/etc`, `/dev` and `/run` are looked for."""
    user_id: int = field(default_factory=os.geteuid)
    patience_s: float = PATIENCE_S

    def text(self, path: str) -> str | None:
        """A small file of the system, stripped; None where it cannot be read."""
        try:
            return (self.root / path.lstrip("/")).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    @cached_property
    def facts(self) -> Mapping[str, Fact]:
        """What the embedded sandbox's own probe found, by name; empty where there is no such sandbox."""
        if sys.platform != "linux":
            return {}
        from termarena.core.home import default_home
        from termarena.sandbox.namespace.probe import probe

        named = self.environment.get("TERMARENA_HOME")
        found = probe(Path(named) if named else default_home(self.environment))
        return {fact.name: fact for fact in found.facts}


def first_line_of(command: Sequence[str], *, patience_s: float) -> str | None:
    """The first line that a command prints; None when it is not there, fails, says nothing or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed names, no shell
            command, capture_output=True, timeout=patience_s, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[0].strip() if lines else None
