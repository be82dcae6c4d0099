"""What can go wrong with a model; the three branches are those of `termarena.core.errors`.

UsageError
├── MissingKey           the variable that holds a provider's key is not set
└── BudgetSpent          the trial's or the run's money or tokens are used up
SandboxError
└── ModelUnavailable     no answer was to be had (also an OSError)
    ├── ModelRejected    the provider does not take the request; asking again is in vain
    └── KeyRefused       the provider does not take the key
AgentError
├── ContextOverflow      the conversation is longer than the model can read
└── UnusableReply        an answer that is none: too large, or not what the interface promises
"""

from __future__ import annotations

from typing import ClassVar, Literal

from termarena.core.errors import AgentError, SandboxError, UsageError

__all__ = [
    "BudgetSpent",
    "ContextOverflow",
    "KeyRefused",
    "MissingKey",
    "ModelRejected",
    "ModelUnavailable",
    "UnusableReply",
]

LONGEST_DETAIL = 300


class MissingKey(UsageError):
    """The variable that holds a provider's key is not set; `variable` names it."""

    def __init__(self, provider: str, *, variables: tuple[str, ...]) -> None:
        """`variables` are those that are looked at, the usual one first."""
        names = " or ".join(variables)
        super().__init__(
            f"models of {provider} need a key, and {names} is not set",
            hint=f"export {variables[0]}=…; it is read from the environment only, and never written down",
        )
        self.provider = provider
        self.variable = variables[0]


class BudgetSpent(UsageError):
    """A budget is used up: nothing was asked."""

    def __init__(self, scope: Literal["trial", "run"], *, unit: Literal["usd", "tokens"], limit: float) -> None:
        """`limit` is the budget's size."""
        amount = f"${limit:g}" if unit == "usd" else f"{limit:.0f} tokens"
        super().__init__(
            f"the {scope}'s budget of {amount} is spent",
            hint=f"what has an outcome keeps it; a new run can be given more with --{scope}-budget-{unit}",
        )
        self.scope = scope
        self.unit = unit
        self.limit = limit


class ModelUnavailable(SandboxError, OSError):
    """No answer was to be had: the endpoint is down, overloaded, too slow, or no model server. Nobody is measured."""

    verb: ClassVar[str] = "does not answer"

    def __init__(self, where: str, problem: str, *, attempts: int = 1, hint: str | None = None) -> None:
        """`where` is the address without any credential; `attempts` is how often it was asked."""
        tried = f" (asked {attempts} times)" if attempts > 1 else ""
        super().__init__(f"the model at {where} {self.verb}: {_short(problem)}{tried}", hint=hint)
        self.where = where
        self.problem = problem
        self.attempts = attempts


class ModelRejected(ModelUnavailable):
    """The provider does not take the request: an unknown model, a parameter that it does not know."""

    verb = "declines"

    def __init__(self, where: str, problem: str, *, status: int) -> None:
        """`problem` is what the provider said."""
        super().__init__(where, f"status {status}: {problem}", hint="check the word of --model, and its options")
        self.status = status


class KeyRefused(ModelUnavailable):
    """The provider does not take the key."""

    verb = "declines"

    def __init__(self, where: str, problem: str, *, variable: str | None) -> None:
        """`variable` is where the key came from; None where none was sent."""
        hint = f"check what {variable} holds" if variable else "this endpoint wants a key: see docs/models.md"
        super().__init__(where, f"the key was refused: {problem}", hint=hint)
        self.variable = variable


class ContextOverflow(AgentError):
    """The conversation is longer than the model can read."""

    def __init__(self, problem: str) -> None:
        """`problem` is what the provider said."""
        super().__init__(f"the conversation does not fit: {_short(problem)}")


class UnusableReply(AgentError):
    """An answer that is none."""

    def __init__(self, problem: str) -> None:
        """`problem` is one sentence."""
        super().__init__(_short(problem))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_DETAIL else f"{line[:LONGEST_DETAIL]}…"
