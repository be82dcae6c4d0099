"""What models cost, from a dated table (`prices.json`); what is not in it is unknown, never free."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from termarena.models.contract import TokenUsage

__all__ = ["Price", "PriceTable", "price_table"]

MILLION: Final = 1_000_000
# A snapshot costs what its model costs: gpt-5-2025-08-07, claude-haiku-4-5-20251001, gemini-2.5-flash-001.
_SNAPSHOT: Final = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{3})$")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class LongPrice(_Frozen):
    """What a request with a long prompt costs instead."""

    tokens: int
    """From so many in the prompt on."""
    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None


class Price(_Frozen):
    """US dollars for a million tokens, and what the model can read."""

    input: float
    output: float
    cached: float | None = None
    """Read from the cache; None: like any other input."""
    cache_write: float | None = None
    context_tokens: int | None = None
    above: LongPrice | None = None

    def cost_of(self, usage: TokenUsage) -> float | None:
        """In dollars; None where the provider did not count."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        rate = self.above if self.above is not None and usage.input_tokens >= self.above.tokens else self
        cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        cost = (usage.input_tokens - cached - written) * rate.input
        cost += cached * (rate.input if rate.cached is None else rate.cached)
        cost += written * (rate.input if rate.cache_write is None else rate.cache_write)
        cost += usage.output_tokens * rate.output
        return cost / MILLION


class PriceTable(_Frozen):
    """Prices by provider and model."""

    unit: str
    as_of: str
    """The day that the prices were looked up."""
    source: str
    providers: dict[str, dict[str, Price]]

    def find(self, provider: str, model: str) -> Price | None:
        """The price of a model or of a snapshot of it; None is unknown."""
        known = self.providers.get(provider, {})
        return known.get(model) or known.get(_SNAPSHOT.sub("", model))

    @property
    def digest(self) -> str:
        """Equal for equal tables."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


@functools.cache
def price_table() -> PriceTable:
    """The table that comes with this version."""
    return PriceTable.model_validate(json.loads(files("termarena.models").joinpath("prices.json").read_text()))
