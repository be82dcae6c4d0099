"""How a server of the arena is set up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from termarena.battles.addresses import AddressPolicy
    from termarena.battles.referee import Referee

__all__ = ["ArenaConfig", "BattleConfig", "Rate"]


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a second from one address, after a burst of so many."""

    per_s: float
    burst: int


@dataclass(frozen=True, slots=True)
class BattleConfig:
    """How battles are fought here."""

    policy: AddressPolicy
    """Which agents may be reached."""
    make_referee: Callable[[], Referee]
    """The server's own; called where an event loop runs."""
    at_once: int = 2
    lease_s: float = 20.0
    """How long after its last sign of life a server's battles are taken for abandoned."""
    poll_interval_s: float = 0.5
    """How often the queue is looked at."""
    liveness_interval_s: float = 30.0
    """How often cards of registered agents are fetched."""


@dataclass(frozen=True, slots=True)
class ArenaConfig:
    """Everything that a server is told."""

    db_url: str
    runs: Path
    """The folder of runs that is watched, and that takes what is sent."""
    host: str = "127.0.0.1"
    port: int = 8642
    is_private: bool = False
    """Whether reading needs a key too."""
    host_names: tuple[str, ...] = ()
    """Names under which the server may be asked for, beside `host` and loopback; `*` is any."""
    watch_interval_s: float = 2.0
    reads: Rate = Rate(per_s=100, burst=400)
    writes: Rate = Rate(per_s=20, burst=100)
    bad_keys: Rate = Rate(per_s=0.2, burst=10)
    """Requests with a key that is none."""
    upload_limit_bytes: int = 256 << 20
    """Of one archive as it is sent."""
    unpacked_limit_bytes: int = 1 << 30
    """Of what is in it."""
    tasks: Mapping[str, Any] = field(default_factory=dict)
    """By id: what handed-in runs are compared with, where they are about these."""
    proofs: Path | None = None
    """A folder of proofs, as `termarena prove` writes it; watched."""
    forge: Path | None = None
    """The folder of a forge's ledger."""
    url: str = ""
    """How agents reach it."""
    battles: BattleConfig | None = None
    """None: no battle is fought here, and no agent is registered."""
