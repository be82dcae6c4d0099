"""The words of `--model`: `PROVIDER:MODEL`, with `@URL` behind it for an endpoint of one's own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from termarena.core.errors import NotFound, UsageError
from termarena.models.errors import MissingKey

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROVIDERS", "Key", "ModelName", "Provider", "key_for", "parse_name"]

_ADDRESS: Final = re.compile(r"^(?P<model>.*?)@(?P<url>https?://.*)$", re.DOTALL)
_HOW: Final = "--model PROVIDER:MODEL, such as openai:gpt-5-mini or ollama:qwen3; docs/models.md has them all"


class Provider(NamedTuple):
    """Who serves models, and how they are spoken to."""

    name: str
    wire: str
    """`module:Class` of its interface; empty for what needs no network."""
    url: str = ""
    variables: tuple[str, ...] = ()
    """Where its key is looked for."""
    needs_key: bool = True
    """Whether its usual address wants one; one of your own is sent the key where there is one."""
    serves_any_name: bool = False
    """Whether the word behind the colon may be anything: the server has one model."""
    takes_address: bool = False
    """Whether an endpoint may be named though it has no usual one."""

    @property
    def has_embeddings(self) -> bool:
        """Whether it is asked for embeddings, too: over OpenAI's interface."""
        return self.wire == _OPENAI


_OPENAI: Final = "termarena.models.openai:OpenAiWire"
PROVIDERS: Final = {
    provider.name: provider
    for provider in (
        Provider("openai", _OPENAI, "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
        Provider(
            "anthropic",
            "termarena.models.anthropic:AnthropicWire",
            "https://api.anthropic.com/v1",
            ("ANTHROPIC_API_KEY",),
        ),
        Provider(
            "google",
            "termarena.models.google:GoogleWire",
            "https://generativelanguage.googleapis.com/v1beta",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ),
        Provider("openrouter", _OPENAI, "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
        Provider("groq", _OPENAI, "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
        Provider("vllm", _OPENAI, "http://127.0.0.1:8000/v1", ("VLLM_API_KEY",), needs_key=False),
        Provider("ollama", _OPENAI, "http://127.0.0.1:11434/v1", ("OLLAMA_API_KEY",), needs_key=False),
        Provider(
            "llamacpp",
            _OPENAI,
            "http://127.0.0.1:8080/v1",
            ("LLAMA_API_KEY",),
            needs_key=False,
            serves_any_name=True,
        ),
        Provider("litellm", "", takes_address=True),
        Provider("elizaos", ""),
        Provider("scripted", ""),
        Provider("recorded", ""),
    )
}


@dataclass(frozen=True, slots=True)
class ModelName:
    """A word of `--model`, taken apart."""

    word: str
    provider: Provider
    model: str
    url: str
    """Without a slash at its end; empty where nothing is reached over a network."""
    has_own_url: bool

    @property
    def where(self) -> str:
        """The endpoint, for people."""
        return self.url or self.word


def parse_name(word: str) -> ModelName:
    """Raises `NotFound` for a provider that there is not, `UsageError` for a word without a model or a bad address."""
    name, colon, rest = word.partition(":")
    provider = PROVIDERS.get(name)
    if provider is None:
        raise NotFound(f"no provider of models is called {name!r}", known=tuple(PROVIDERS), hint=f"write {_HOW}")
    if not colon or not rest:
        raise UsageError(f"{word!r} names no model", hint=f"write {_HOW}")
    found = _ADDRESS.match(rest) if provider.url or provider.takes_address else None
    if found is None:
        return ModelName(word, provider, rest, provider.url, has_own_url=False)
    if not found["model"]:
        raise UsageError(f"{word!r} names no model before the @", hint=f"write {_HOW}")
    return ModelName(word, provider, found["model"], _address(word, found["url"]), has_own_url=True)


def _address(word: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        parts, is_address = urlsplit(""), False
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"the address in --model {word.partition('@')[0]}@… holds a user or a password",
            hint="keys come by the name of a variable: see docs/models.md",
        )
    if not is_address:
        raise UsageError(f"{url!r} is no address", hint=f"write {_HOW}")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class Key:
    """A key and the variable that it came from; None where there is none."""

    value: str | None = field(default=None, repr=False)
    variable: str | None = None


def key_for(name: ModelName, environ: Mapping[str, str]) -> Key:
    """Raises `MissingKey` where the provider wants one."""
    for variable in name.provider.variables:
        if environ.get(variable):
            return Key(environ[variable], variable)
    if name.provider.needs_key and name.provider.variables and not name.has_own_url:
        raise MissingKey(name.provider.name, variables=name.provider.variables)
    return Key()
