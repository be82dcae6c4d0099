"""Conditions: what may differ from one machine to the next, and should make no difference to a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from termarena.sandbox.spec import Fetches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from termarena.sandbox import SandboxSpec

__all__ = ["CONDITIONS", "PLACE", "PLAIN", "Condition", "condition"]

PLACE: Final = "/opt/.termarena"
"""Where a sandbox has what a condition needs."""
LEAST_CPUS: Final = 0.25


@dataclass(frozen=True, slots=True)
class Condition:
    """One way in which a sandbox differs from the plain one."""

    name: str
    what: str
    """For people."""
    hostname: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cpu_share: float = 1.0
    """Of the processor time that the task would have."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What the sandbox needs for it, by names below `PLACE`: laid before the solution begins."""
    user: str | None = None
    """Who carries the solution out, the working folder being theirs; None is whoever the task says."""
    records: Path | None = None
    """A folder for what is fetched from outside meanwhile."""
    probe: Callable[[str], str | None] | None = None
    """Of what `date +%s` says under this condition: why it is not reached, or None."""

    def applied(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec under this condition. What the task sets itself stays as the task has it."""
        limits = spec.limits
        if self.cpu_share < 1.0:
            limits = limits.model_copy(update={"cpus": max((limits.cpus or 1.0) * self.cpu_share, LEAST_CPUS)})
        env = {**self.env, **spec.env}
        changed = {"env": env, "limits": limits, "hostname": self.hostname or spec.hostname}
        if self.records is not None:
            changed["fetches"] = Fetches(mode="record", folder=self.records)
        return spec.model_copy(update=changed)


PLAIN: Final = Condition("plain", "as in a run")
CONDITIONS: Final = (
    PLAIN,
    Condition(
        "elsewhere",
        "another host name, time zone, locale and hash seed",
        hostname="elsewhere-7",
        env={"TZ": "Pacific/Chatham", "LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "1"},
    ),
    Condition("slow", "half of the processor time", cpu_share=0.5),
    Condition(
        "utc-utf8",
        "UTC, a UTF-8 locale, another hash seed, another folder for temporary files",
        hostname="z",
        env={"TZ": "UTC", "LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "PYTHONHASHSEED": "4294967295", "TMPDIR": "/var/tmp"},  # noqa: S108 - inside
    ),
    PLAIN,
)
"""Those of the first five attempts; further ones begin again."""


def condition(attempt: int) -> Condition:
    """The condition of an attempt, from 0."""
    return CONDITIONS[attempt % len(CONDITIONS)]
