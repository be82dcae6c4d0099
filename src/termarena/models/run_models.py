"""The models of one run: what they share, and what is known about them before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.core.errors import UsageError
from termarena.core.scrub import Scrubber
from termarena.models.budget import Amount, Budget, Meter
from termarena.models.elizaos import RuntimeModel, load_runtime
from termarena.models.embeddings import EmbeddingWire
from termarena.models.errors import UnusableReply
from termarena.models.http import HttpModel, Patience, Transport, estimate_tokens, require_httpx
from termarena.models.lanes import Lane
from termarena.models.names import PROVIDERS, key_for, parse_name
from termarena.models.prices import price_table
from termarena.models.recorded import RecordedModel, read_recordings
from termarena.models.scripted import ScriptedModel, read_script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.models.contract import Completion, Exchange, Model, Request
    from termarena.models.elizaos import RuntimeSource
    from termarena.models.names import ModelName
    from termarena.models.prices import Price
    from termarena.models.recorded import Recordings
    from termarena.models.wire import Wire

__all__ = ["MeteredModel", "ModelLimits", "RunModels"]

UNSAID_OUTPUT_TOKENS = 1000
"""How much of an answer is reserved where nobody set its length: what a step of an agent usually takes."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What a run allows; None is no limit."""

    trial_usd: float | None = None
    run_usd: float | None = None
    trial_tokens: int | None = None
    run_tokens: int | None = None
    requests_at_once: int | None = None
    """To one endpoint with one key."""
    tokens_per_minute: int | None = None

    @property
    def counts_money(self) -> bool:
        """Whether a price must be known."""
        return self.trial_usd is not None or self.run_usd is not None


class RunModels:
    """Opens the models of a run; connections, lanes and the run's budget are shared and end with `aclose`."""

    def __init__(
        self,
        limits: ModelLimits | None = None,
        *,
        patience: Patience | None = None,
        environ: Mapping[str, str] | None = None,
        spent: Amount | None = None,
    ) -> None:
        """`spent` is what the run has used before, when it goes on."""
        self.limits = limits or ModelLimits()
        self._patience = patience or Patience()
        self._environ = os.environ if environ is None else environ
        self._transport: Transport | None = None
        self._lanes: dict[tuple[str, str | None], Lane] = {}
        self._recordings: dict[str, Recordings] = {}
        self._runtimes: dict[str, RuntimeSource] = {}
        before = spent or Amount()
        self.budget = Budget(
            "run",
            usd=self.limits.run_usd,
            tokens=self.limits.run_tokens,
            spent_usd=before.usd,
            spent_tokens=before.tokens,
        )

    def check(self, word: str) -> ModelName:
        """Everything that can be known without asking anybody.

        Raises `NotFound` for a provider, a script or a runtime that there is not, `MissingKey`, `MissingExtra`,
        `BudgetSpent`, and `UsageError` for a word that is none or a budget in money for a model without a price.
        """
        name = parse_name(word)
        if name.provider.wire:
            key_for(name, self._environ)
            require_httpx()
        else:
            self._from_here(name)
        if self.limits.counts_money and not self._tells_costs(name) and self.price_of(name) is None:
            raise UsageError(
                f"what {word} costs is not known, so a budget in money cannot be held",
                hint="limit its tokens instead: --trial-budget-tokens, --run-budget-tokens",
            )
        self.budget.check()
        return name

    def _tells_costs(self, name: ModelName) -> bool:
        """Whether its answers come with their cost. Raises `NotFound` and `UsageError` for a file that is none."""
        if name.provider.name == "scripted":
            return read_script(Path(name.model)).tells_costs
        return name.provider.name == "openrouter"

    async def probe(self, word: str) -> None:
        """Look whether the endpoint is there and takes the key; nothing is asked of the model.

        Raises what `check` raises, and `ModelUnavailable`, `KeyRefused` or `ModelRejected`.
        """
        name = self.check(word)
        if name.provider.wire:
            await self._over_http(name).probe()

    def open(self, word: str) -> MeteredModel:
        """A model for one attempt, with the budget of a trial. Raises what `check` raises."""
        name = self.check(word)
        price = self.price_of(name)
        inner: Model = self._over_http(name) if name.provider.wire else self._from_here(name)
        budget = Budget("trial", usd=self.limits.trial_usd, tokens=self.limits.trial_tokens, parent=self.budget)
        return MeteredModel(inner, price, budget)

    def check_embeddings(self, word: str) -> ModelName:
        """As `check`; raises UsageError for a provider that is not asked for embeddings here."""
        name = self.check(word)
        if not name.provider.has_embeddings:
            known = ", ".join(provider.name for provider in PROVIDERS.values() if provider.has_embeddings)
            raise UsageError(f"{word}: embeddings are had from {known} only", hint="BM25 needs no model at all")
        return name

    def open_embeddings(self, word: str) -> MeteredModel:
        """A model whose answers are vectors: see `Embeddings`. What it uses counts against the run's budget."""
        name = self.check_embeddings(word)
        return MeteredModel(self._over_http(name, EmbeddingWire()), self.price_of(name), self.budget)

    def price_of(self, name: ModelName) -> Price | None:
        """From the table; None is unknown."""
        return None if name.has_own_url else price_table().find(name.provider.name, name.model)

    def _from_here(self, name: ModelName) -> Model:
        """A model that is a file or an object of Python's. Raises `NotFound` and `UsageError`."""
        if name.provider.name == "elizaos":
            if name.word not in self._runtimes:
                self._runtimes[name.word] = load_runtime(name.word, name.model)
            return RuntimeModel(name.word, self._runtimes[name.word])
        if name.provider.name == "scripted":
            return ScriptedModel(name.word, read_script(Path(name.model)))
        if name.model not in self._recordings:
            self._recordings[name.model] = read_recordings(Path(name.model))
        scrubber = Scrubber.from_environment(self._environ)
        return RecordedModel(name.word, self._recordings[name.model], scrubber)

    def _over_http(self, name: ModelName, wire: Wire | None = None) -> HttpModel:
        if self._transport is None:
            self._transport = Transport.open(self._patience)
        key = key_for(name, self._environ)
        lane = self._lanes.setdefault(
            (name.url, key.variable),
            Lane(at_once=self.limits.requests_at_once, tokens_per_minute=self.limits.tokens_per_minute),
        )
        module, _, kind = name.provider.wire.partition(":")
        wire = wire or getattr(import_module(module), kind)()
        return HttpModel(name, wire, self._transport, key=key, lane=lane)

    async def aclose(self) -> None:
        """End every connection."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.client.aclose()


class MeteredModel:
    """See `Model`: one with a price, a budget, and the sums of what it used (`meter`)."""

    def __init__(self, inner: Model, price: Price | None, budget: Budget) -> None:
        """`budget` is the trial's."""
        self._inner = inner
        self._price = price
        self.budget = budget
        self.meter = Meter()

    @property
    def name(self) -> str:
        """As in `--model`."""
        return self._inner.name

    @property
    def context_tokens(self) -> int | None:
        """As the table has it, where the model does not say."""
        return self._inner.context_tokens or (self._price.context_tokens if self._price else None)

    async def complete(
        self, request: Request, *, timeout_s: float, observe: Callable[[Exchange], None] | None = None
    ) -> Completion:
        """See the contract."""
        estimate = self._estimate(request)
        with self.budget.reserve(estimate):
            try:
                answer = await self._inner.complete(request, timeout_s=timeout_s, observe=observe)
            except UnusableReply:
                self.meter.lose()
                self.budget.spend(estimate)
                raise
        if answer.cost_usd is None and self._price is not None:
            answer = _priced(answer, self._price)
        self.meter.add(answer)
        self.budget.spend(_amount(answer, estimate))
        return answer

    def _estimate(self, request: Request) -> Amount:
        asked = estimate_tokens(request)
        answered = request.sampling.max_tokens or UNSAID_OUTPUT_TOKENS
        usd = (asked * self._price.input + answered * self._price.output) / 1_000_000 if self._price else 0.0
        return Amount(usd, asked + answered)


def _priced(answer: Completion, price: Price) -> Completion:
    """With what it costs by the table, and which table that is."""
    cost = price.cost_of(answer.usage)
    if cost is None:
        return answer
    table = price_table()
    return replace(
        answer,
        cost_usd=cost,
        cost_source="table",
        extra={**answer.extra, "prices": f"{table.as_of} {table.digest}"},
    )


def _amount(answer: Completion, estimate: Amount) -> Amount:
    """What counts against the budget: what was told, else what was expected."""
    usage = answer.usage
    told = usage.input_tokens is not None and usage.output_tokens is not None
    tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0) if told else estimate.tokens
    return Amount(estimate.usd if answer.cost_usd is None else answer.cost_usd, tokens)
