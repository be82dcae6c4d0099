"""What can go wrong with an installed agent before its time begins.

UsageError
└── AgentNotInstalled    its install script failed, or something that it needs is not there
"""

from __future__ import annotations

from termarena.core.errors import UsageError

__all__ = ["AgentNotInstalled"]


SHOWN_LINES = 3
SHOWN_CHARACTERS = 400


class AgentNotInstalled(UsageError):
    """An agent that cannot be had here; no trial of it is scored. `log_tail` is the end of what its script said."""

    def __init__(self, agent: str, problem: str, *, log_tail: str = "", hint: str | None = None) -> None:
        """`problem` is one sentence."""
        last = " / ".join(log_tail.strip().splitlines()[-SHOWN_LINES:])[-SHOWN_CHARACTERS:]
        super().__init__(f"the agent {agent} cannot be installed: {problem}", hint=hint or last or None)
        self.agent = agent
        self.problem = problem
        self.log_tail = log_tail
