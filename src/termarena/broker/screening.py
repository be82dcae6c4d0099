"""What an agent may not ask a provider for: tools that the provider would use itself, and anything at an address.

A sandbox without a network has none through its model either: a provider that searches the web, opens an address or
calls a server for the agent would be a way out. Tools are kept by a list of kinds that the agent itself carries out;
every other kind is taken out and told. What stands at an address cannot be taken out without changing what was asked,
and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from termarena.broker.contract import Refusal

__all__ = ["at_usual_price", "handed_on", "refuse_addresses", "refuse_depth", "refuse_fields", "without_kinds"]

DEEPEST: Final = 64
"""How deep a message may be nested."""
DEEPEST_BODY: Final = 128
"""The same of a whole request: what is nested deeper could be answered, and not be recorded."""
# What a tool was called with, and what a tool is: text of the agent's own, whatever it looks like.
_OWN_WORDS: Final = frozenset({"arguments", "args", "input_schema", "parameters"})
# In these, `response` is what a function of the agent's returned.
_RESULTS: Final = frozenset({"functionResponse", "function_response"})
_HEADERS: Final = ("anthropic-version", "openai-beta")
_BETAS: Final = "anthropic-beta"
# Betas of Anthropic that open what is taken out of the body, and its faster, dearer answers.
_PROVIDERS_BETAS: Final = (
    *("mcp-client-", "web-fetch-", "web-search-", "code-execution-", "files-api-", "skills-", "message-batches-"),
    "fast-mode-",
)
# A faster answer at another price than the one that the budget counts with.
_TIERS: Final = frozenset({"auto", "default", "standard", "standard_only"})
_USUAL: Final = {
    "service_tier": _TIERS,
    "serviceTier": _TIERS,
    "speed": frozenset({"standard"}),
}
_MEDIA: Final = ("image_url", "video_url", "audio_url", "file_data")
_BY_ADDRESS: Final = frozenset({"file_url", "file_uri", "fileUri"})
_BY_NAME: Final = frozenset({"file_id"})


def without_kinds(
    tools: Iterable[Any], kept: frozenset[str], *, prefixes: tuple[str, ...] = (), plain: str | None = None
) -> tuple[list[Any], list[str]]:
    """The tools whose `type` is kept, and the types of those that are not; one without a type is `plain`."""
    allowed: list[Any] = []
    stripped: list[str] = []
    for tool in tools:
        kind = tool.get("type", plain) if isinstance(tool, Mapping) else None
        if isinstance(kind, str) and (kind in kept or kind.startswith(prefixes or ("\0",))):
            allowed.append(tool)
        else:
            stripped.append(str(kind))
    return allowed, stripped


def handed_on(headers: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Those of the agent's headers that a provider gets, and the betas that it does not get to see."""
    own = {name: headers[name] for name in _HEADERS if name in headers}
    wanted = [beta.strip() for beta in headers.get(_BETAS, "").split(",") if beta.strip()]
    kept = [beta for beta in wanted if not beta.startswith(_PROVIDERS_BETAS)]
    if kept:
        own[_BETAS] = ",".join(kept)
    return own, [beta for beta in wanted if beta not in kept]


def at_usual_price(body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The body without a wish for dearer or cheaper answers, and what it lacks now."""
    dropped = [
        name
        for name, usual in _USUAL.items()
        if body.get(name) is not None and (not isinstance(body[name], str) or body[name].lower() not in usual)
    ]
    return {name: value for name, value in body.items() if name not in dropped}, dropped


def refuse_fields(body: Mapping[str, Any], **why: str) -> None:
    """Raises `Refusal` where the body has one of these fields and something in it."""
    for name, what in why.items():
        if body.get(name):
            raise Refusal(400, f"{what} (`{name}`) cannot be used here")


def refuse_addresses(value: Any, *, depth: int = 0) -> None:  # noqa: ANN401 - whatever JSON holds
    """Raises `Refusal` for an image, a file or a document that the provider would have to fetch."""
    if depth > DEEPEST:
        raise Refusal(400, f"the messages are nested more than {DEEPEST} deep")
    if isinstance(value, list):
        for item in value:
            refuse_addresses(item, depth=depth + 1)
    elif isinstance(value, dict):
        _refuse_in(value)
        for name, item in value.items():
            if name in _RESULTS and isinstance(item, dict):
                refuse_addresses({key: part for key, part in item.items() if key != "response"}, depth=depth + 1)
            elif name not in _OWN_WORDS and not (name == "input" and value.get("type") == "tool_use"):
                refuse_addresses(item, depth=depth + 1)


def refuse_depth(body: Mapping[str, Any]) -> None:
    """Raises `Refusal` for a body that is nested deeper than the record can hold."""
    level: list[Any] = [body]
    for _ in range(DEEPEST_BODY):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise Refusal(400, f"the request is nested more than {DEEPEST_BODY} deep")


def _leads_away(name: str, address: str) -> bool:
    """The content of a file may come without the words of a URL around it."""
    return "://" in address[:32] if name == "file_data" else not address.startswith("data:")


def _refuse_in(part: dict[str, Any]) -> None:
    for name, value in part.items():
        if name in _BY_ADDRESS or (name in _BY_NAME and value):
            raise Refusal(400, f"a file that is not in the request (`{name}`) cannot be used here")
    for name in _MEDIA:
        media = part.get(name)
        address = media.get("url") if isinstance(media, dict) else media
        if isinstance(address, str) and _leads_away(name, address):
            raise Refusal(400, f"an address (`{name}`) cannot be used here: send the content as a data: URL")
    source = part.get("source")
    if isinstance(source, dict) and source.get("type") in ("url", "file"):
        raise Refusal(400, f"a source of the type {source['type']} cannot be used here: send its content")
