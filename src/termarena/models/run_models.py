"""The models of one run: what they share, and what is known about them before anything starts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from termarena.core.errors import UsageError
from termarena.core.given_files import place_of
from termarena.core.scrub import Scrubber
from termarena.models.accounts import UNSAID_OUTPUT_TOKENS, Account
from termarena.models.budget import Amount, Budget, Meter
from termarena.models.elizaos import RuntimeModel, load_runtime
from termarena.models.embeddings import EmbeddingWire
from termarena.models.errors import UnusableReply
from termarena.models.http import HttpModel, Patience, Transport, estimate_tokens, require_httpx
from termarena.models.lanes import Lane
from termarena.models.litellm import LiteLlmModel, load_litellm
from termarena.models.names import PROVIDERS, key_for, parse_name
from termarena.models.prices import price_table
from termarena.models.recorded import RecordedModel, read_recordings
from termarena.models.scripted import ScriptedModel, read_script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from termarena.models.contract import Completion, Exchange, Model, Request
    from termarena.models.elizaos import RuntimeSource
    from termarena.models.litellm import LiteLlm
    from termarena.models.names import ModelName
    from termarena.models.prices import Price
    from termarena.models.recorded import Recordings
    from termarena.models.wire import Wire

__all__ = ["Brought", "Line", "MeteredModel", "ModelLimits", "RunModels"]


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


@dataclass(frozen=True, slots=True)
class Line:
    """An endpoint and everything that is needed to speak to it in its own words."""

    name: ModelName
    transport: Transport
    headers: Mapping[str, str] = field(repr=False)
    """The key is in them."""
    lane: Lane


@dataclass(frozen=True, slots=True)
class Brought:
    """What a run brings along into a later session, and to another machine that carries out trials of it."""

    spent: Amount = field(default_factory=Amount)
    """What it has used before."""
    places: Mapping[str, Path] = field(default_factory=dict)
    """Where the files lie here that the run's options name."""
    budget: Budget | None = None
    """The run's, which all such machines share."""


class RunModels:
    """Opens the models of a run; connections, lanes and the run's budget are shared and end with `aclose`."""

    def __init__(
        self,
        limits: ModelLimits | None = None,
        *,
        patience: Patience | None = None,
        environ: Mapping[str, str] | None = None,
        brought: Brought | None = None,
    ) -> None:
        """`brought` is there where the run goes on, or goes on elsewhere, too."""
        self.limits = limits or ModelLimits()
        self._patience = patience or Patience()
        self._environ = os.environ if environ is None else environ
        self._transport: Transport | None = None
        self._lanes: dict[tuple[str, str | None], Lane] = {}
        self._recordings: dict[str, Recordings] = {}
        self._runtimes: dict[str, RuntimeSource] = {}
        self._litellm: LiteLlm | None = None
        brought = brought or Brought()
        self._places = brought.places
        self.budget = brought.budget or Budget(
            "run",
            usd=self.limits.run_usd,
            tokens=self.limits.run_tokens,
            spent_usd=brought.spent.usd,
            spent_tokens=brought.spent.tokens,
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
                hint="limit its tokens instead: --trial-budget-tokens, --run-budget-tokens (a broker: --budget-tokens)",
            )
        self.budget.check()
        return name

    def _tells_costs(self, name: ModelName) -> bool:
        """Whether its answers come with their cost. Raises `NotFound` and `UsageError` for a file that is none."""
        if name.provider.name == "scripted":
            return read_script(place_of(name.model, self._places)).tells_costs
        if name.provider.name == "litellm":
            self._litellm = self._litellm or load_litellm()
            return self._litellm.has_price(name)
        return name.provider.name == "openrouter"

    async def probe(self, word: str) -> None:
        """Look whether the endpoint is there and takes the key; nothing is asked of the model.

        Raises what `check` raises, and `ModelUnavailable`, `KeyRefused` or `ModelRejected`.
        """
        name = self.check(word)
        if name.provider.wire:
            await self._over_http(name).probe()
        elif name.provider.name == "litellm":
            await self._by_litellm(name).probe()

    def open(self, word: str) -> MeteredModel:
        """A model for one attempt, with the budget of a trial. Raises what `check` raises."""
        name = self.check(word)
        price = self.price_of(name)
        inner: Model = self._over_http(name) if name.provider.wire else self._from_here(name)
        budget = Budget("trial", usd=self.limits.trial_usd, tokens=self.limits.trial_tokens, parent=self.budget)
        return MeteredModel(inner, price, budget)

    def line(self, word: str) -> Line | None:
        """The way to a model's endpoint, for whoever speaks its interface himself; None where there is no endpoint.

        Raises what `check` raises.
        """
        name = self.check(word)
        if not name.provider.wire:
            return None
        model = self._over_http(name)
        return Line(name, self._shared_transport(), model.headers, model.lane)

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
        if name.provider.name == "litellm":
            return self._by_litellm(name)
        if name.provider.name == "scripted":
            return ScriptedModel(name.word, read_script(place_of(name.model, self._places)))
        if name.model not in self._recordings:
            self._recordings[name.model] = read_recordings(place_of(name.model, self._places))
        scrubber = Scrubber.from_environment(self._environ)
        return RecordedModel(name.word, self._recordings[name.model], scrubber)

    def _by_litellm(self, name: ModelName) -> LiteLlmModel:
        self._litellm = self._litellm or load_litellm()
        self._litellm.check(name)
        lane = self._lanes.setdefault((name.word, None), self._new_lane())
        return LiteLlmModel(name, self._litellm, patience=self._patience, lane=lane)

    def _new_lane(self) -> Lane:
        return Lane(at_once=self.limits.requests_at_once, tokens_per_minute=self.limits.tokens_per_minute)

    def _over_http(self, name: ModelName, wire: Wire | None = None) -> HttpModel:
        key = key_for(name, self._environ)
        lane = self._lanes.setdefault((name.url, key.variable), self._new_lane())
        module, _, kind = name.provider.wire.partition(":")
        wire = wire or getattr(import_module(module), kind)()
        return HttpModel(name, wire, self._shared_transport(), key=key, lane=lane)

    def _shared_transport(self) -> Transport:
        if self._transport is None:
            self._transport = Transport.open(self._patience)
        return self._transport

    async def aclose(self) -> None:
        """End every connection."""
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.client.aclose()
        if self._litellm is not None:
            await self._litellm.aclose()


class MeteredModel:
    """See `Model`: one with an account, whose sums are its `meter`."""

    def __init__(self, inner: Model, price: Price | None, budget: Budget) -> None:
        """`budget` is the trial's."""
        self.inner = inner
        self.account = Account(price, budget)

    @property
    def budget(self) -> Budget:
        """Of the trial."""
        return self.account.budget

    @property
    def meter(self) -> Meter:
        """The sums of what was used."""
        return self.account.meter

    @property
    def name(self) -> str:
        """As in `--model`."""
        return self.inner.name

    @property
    def context_tokens(self) -> int | None:
        """As the table has it, where the model does not say."""
        price = self.account.price
        return self.inner.context_tokens or (price.context_tokens if price else None)

    async def complete(
        self, request: Request, *, timeout_s: float, observe: Callable[[Exchange], None] | None = None
    ) -> Completion:
        """See the contract."""
        expected = self.account.expect(
            asked_tokens=estimate_tokens(request),
            answered_tokens=request.sampling.max_tokens or UNSAID_OUTPUT_TOKENS,
        )
        with self.account.reserve(expected):
            try:
                answer = await self.inner.complete(request, timeout_s=timeout_s, observe=observe)
            except UnusableReply:
                self.account.lose(expected)
                raise
            # Before it is given back: on a cluster others ask the same purse in between.
            return self.account.settle(answer, expected)
