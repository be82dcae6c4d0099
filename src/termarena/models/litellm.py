"""`litellm:MODEL`: a model by way of the litellm package, for providers that we do not speak to ourselves.

MODEL is a word of litellm's (`bedrock/…`, `azure/…`, `mistral/…`), which finds the key in variables of its own.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from termarena.core.errors import MissingExtra, NotFound
from termarena.models.contract import Completion, Exchange, Message
from termarena.models.errors import (
    ContextOverflow,
    KeyRefused,
    MissingKey,
    ModelRejected,
    ModelUnavailable,
    UnusableReply,
)
from termarena.models.http import OK, TryAgain, estimate_tokens, persist, retry_after_s
from termarena.models.openai import OpenAiWire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.models.contract import Request
    from termarena.models.http import Patience
    from termarena.models.lanes import Lane
    from termarena.models.names import ModelName

__all__ = ["LiteLlm", "LiteLlmModel", "load_litellm"]

# Read when it is imported; without it that waits for a download of prices, and warns where there is no network.
_OWN_PRICES: Final = "LITELLM_LOCAL_MODEL_COST_MAP"
_NO_KEY: Final = "no-key"
"""What an endpoint of one's own is sent where there is no key: litellm's clients insist on one."""
_PASSING: Final = (
    "RateLimitError",
    "Timeout",
    "APIConnectionError",
    "InternalServerError",
    "ServiceUnavailableError",
    "BadGatewayError",
)


class LiteLlm:
    """The package, and what it knows about a model without asking anybody."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 - an extra without types
        """`module` is litellm."""
        self.module = module

    def check(self, name: ModelName) -> None:
        """Raises `NotFound` for a provider that litellm does not know, `MissingKey` for one without its variables."""
        try:
            _, provider, _, _ = self.module.get_llm_provider(name.model)
        except self.module.exceptions.BadRequestError as error:
            hint = "write litellm:PROVIDER/MODEL, such as litellm:mistral/mistral-small-latest"
            raise NotFound(f"litellm knows no provider of the model {name.model}", hint=hint) from error
        missing = self.module.validate_environment(name.model)["missing_keys"]
        if missing and not name.has_own_url:
            raise MissingKey(f"litellm:{provider}", variables=tuple(missing))

    def facts(self, name: ModelName) -> Mapping[str, Any]:
        """What its table has on a model; empty where it does not know it, and for endpoints of one's own."""
        if name.has_own_url:
            return {}
        with suppress(Exception):  # it raises a bare one for a model that it does not know
            found: Mapping[str, Any] = self.module.get_model_info(name.model)
            return found
        return {}

    def has_price(self, name: ModelName) -> bool:
        """Whether answers will come with their cost."""
        return self.facts(name).get("input_cost_per_token") is not None

    @property
    def version(self) -> str:
        """Of the package."""
        return str(import_module("importlib.metadata").version("litellm"))

    async def aclose(self) -> None:
        """End the connections that it keeps."""
        close = getattr(self.module, "close_litellm_async_clients", None)
        if close is not None:
            await close()


def load_litellm() -> LiteLlm:
    """Import it, which takes seconds, and keep it from talking and from the network. Raises `MissingExtra`."""
    os.environ.setdefault(_OWN_PRICES, "True")
    try:
        module: Any = import_module("litellm")
    except ImportError as error:
        raise MissingExtra("litellm", extra="litellm", purpose="--model litellm:…") from error
    module.suppress_debug_info = True
    module.telemetry = False
    return LiteLlm(module)


class LiteLlmModel:
    """See `Model`; without budget. The exchanges that are observed are in OpenAI's form, as litellm takes and gives."""

    def __init__(self, name: ModelName, litellm: LiteLlm, *, patience: Patience, lane: Lane) -> None:
        """`lane` is shared with whoever uses the same model."""
        self.name = name.word
        self.context_tokens: int | None = litellm.facts(name).get("max_input_tokens")
        self._named = name
        self._litellm = litellm
        self._patience = patience
        self._lane = lane
        self._wire = OpenAiWire()

    async def probe(self) -> None:
        """Look whether somebody is at an address of one's own. Raises `ModelUnavailable`."""
        if not self._named.has_own_url:
            return
        parts = urlsplit(self._named.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(self._patience.connect_s):
                _, writer = await asyncio.open_connection(parts.hostname, port)
        except OSError as error:
            hint = "look whether the server runs and the address is right"
            raise ModelUnavailable(self._named.url, f"no connection ({error})", hint=hint) from error
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    async def complete(
        self, request: Request, *, timeout_s: float, observe: Callable[[Exchange], None] | None = None
    ) -> Completion:
        """See the contract. litellm's own retries are off."""
        return await persist(
            lambda: self._ask(request, observe), patience=self._patience, timeout_s=timeout_s, where=self._where
        )

    @property
    def _where(self) -> str:
        return self._named.url or self._named.word

    async def _ask(self, request: Request, observe: Callable[[Exchange], None] | None) -> Completion:
        body = self._wire.body(self._named.model, request)
        estimate = estimate_tokens(request)
        async with self._lane.place(estimate):
            began = time.monotonic()
            seen = Exchange(f"litellm://{self._named.model}/chat/completions", body, None, None, 0.0)
            try:
                answer = await self._send(body)
                seen = replace(seen, status=OK, response=answer.model_dump(mode="json"))
            except Exception as error:  # noqa: BLE001 - whatever the package raises gets a name
                seen = replace(seen, response=f"[{type(error).__name__}: {error}]")
                return self._declined(error)
            finally:
                if observe is not None:
                    observe(replace(seen, duration_s=time.monotonic() - began))
        completion = self._understood(answer, seen.response)
        used = completion.usage
        total = None if used.input_tokens is None else used.input_tokens + (used.output_tokens or 0)
        self._lane.settle(estimated=estimate, used=total)
        return completion

    async def _send(self, body: Mapping[str, Any]) -> Any:  # noqa: ANN401 - litellm's
        own = {"api_base": self._named.url} if self._named.has_own_url else {}
        if own and self._litellm.module.validate_environment(self._named.model)["missing_keys"]:
            own["api_key"] = _NO_KEY
        async with asyncio.timeout(self._patience.answer_s):
            return await self._litellm.module.acompletion(
                **body, **own, timeout=self._patience.answer_s, num_retries=0, max_retries=0
            )

    def _understood(self, answer: Any, document: Any) -> Completion:  # noqa: ANN401 - litellm's
        if not isinstance(document, dict):
            raise UnusableReply(f"litellm answered {type(document).__name__}")
        completion = self._wire.completion(document)
        written = (document.get("usage") or {}).get("cache_creation_input_tokens")
        usage = replace(completion.usage, cache_write_tokens=written if isinstance(written, int) else None)
        cost = None if self._named.has_own_url else getattr(answer, "_hidden_params", {}).get("response_cost")
        if not isinstance(cost, float | int):
            return replace(completion, usage=usage, cost_usd=None, cost_source=None)
        told = {**completion.extra, "prices": f"litellm {self._litellm.version}"}
        return replace(completion, usage=usage, cost_usd=float(cost), cost_source="table", extra=told)

    def _declined(self, error: Exception) -> Completion:
        """What an error of litellm's means; returns only where the provider refused to speak."""
        kinds = self._litellm.module.exceptions
        status = getattr(error, "status_code", None)
        status = status if isinstance(status, int) else 0
        if isinstance(error, kinds.ContextWindowExceededError):
            raise ContextOverflow(str(error)) from error
        if isinstance(error, kinds.ContentPolicyViolationError):
            return Completion(Message("assistant", str(error)), "refused")
        if isinstance(error, kinds.AuthenticationError | kinds.PermissionDeniedError):
            raise KeyRefused(self._where, str(error), variable=self._key_words()) from error
        passing = tuple(getattr(kinds, name) for name in _PASSING if hasattr(kinds, name))
        if isinstance(error, (*passing, TimeoutError)) or status >= 500:  # noqa: PLR2004 - HTTP's
            raise TryAgain(f"{type(error).__name__}: {error}", after_s=self._pause_s(error)) from error
        if status:
            raise ModelRejected(self._where, str(error), status=status) from error
        raise ModelUnavailable(self._where, f"{type(error).__name__}: {error}") from error

    def _key_words(self) -> str | None:
        """Where the key came from, as far as that can be told; None where none was sent."""
        if self._litellm.module.validate_environment(self._named.model)["missing_keys"]:
            return None
        return f"litellm's variable for {self._named.model}"

    def _pause_s(self, error: Exception) -> float | None:
        """How long the provider asks to be left alone."""
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        pause_s = retry_after_s(headers.get("retry-after"))
        if pause_s is not None:
            self._lane.close_for(pause_s)
        return pause_s
