"""The trajectory that mini-SWE-agent writes: one JSON document, of version 1 (text) or 2 (tool calls)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from termarena.agents.contract import Usage
from termarena.agents.installed.exchanges import loaded
from termarena.agents.installed.logs.contract import ToldLog
from termarena.agents.installed.logs.drafting import Draft, Drafts, count, dollars, table
from termarena.core.trajectory import StepMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["parse"]


def parse(text: str) -> ToldLog:
    """Its steps, its last words and what it says that it used; a text that is no such document is one unknown step."""
    drafts = Drafts()
    try:
        document = loaded(text)
    except ValueError:
        document = None
    messages = document.get("messages") if isinstance(document, dict) else None
    if not isinstance(messages, list):
        drafts.keep(text)
        return ToldLog(drafts.steps(), unknown_lines=1)
    for message in messages:
        if isinstance(message, dict):
            _take(drafts, message)
        else:
            drafts.keep(json.dumps(message))
    return ToldLog(drafts.steps(), _last_words(document), _usage(document), drafts.unknown_lines)


def _take(drafts: Drafts, message: Mapping[str, Any]) -> None:
    role = message.get("role")
    if role == "assistant":
        _said(drafts, message, message)
    elif role == "user" and (refused := _refused(message)) is not None:
        # An answer that it could not use stands only in what it tells its model about that.
        _said(drafts, refused, message).extra["refused"] = _text(message.get("content"))
    elif role == "tool":
        status = table(message, "extra").get("returncode")
        drafts.result(str(message.get("tool_call_id")), _text(message.get("content")), exit_status=status)
    elif role == "exit":
        drafts.begin(_text(message.get("content")), extra={"exit": table(message, "extra").get("exit_status")})
    elif role == "user" and drafts.steps():
        # Version 1 has no calls: what a command gave comes back as the user's next message.
        draft = drafts.last
        identity = f"command-{len(drafts.steps())}"
        drafts.call(draft, identity, "bash", {"command": draft.message})
        drafts.result(identity, _text(message.get("content")))
    elif role not in ("system", "user"):
        drafts.keep(json.dumps(message))


def _said(drafts: Drafts, said: Mapping[str, Any], message: Mapping[str, Any]) -> Draft:
    draft = drafts.begin(_text(said.get("content")))
    usage = table(message, "extra", "response", "usage")
    if usage:
        draft.metrics = StepMetrics(
            prompt_tokens=count(usage.get("prompt_tokens")), completion_tokens=count(usage.get("completion_tokens"))
        )
    calls = said.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = table(call, "function")
        identity = call.get("id") if isinstance(call, dict) else None
        drafts.call(draft, str(identity), str(function.get("name", "")), function.get("arguments"))
    return draft


def _refused(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The model's own message within one of the agent's about it."""
    choices = table(message, "extra", "response").get("choices")
    found = table(choices[0], "message") if isinstance(choices, list) and choices else {}
    return found or None


def _usage(document: Mapping[str, Any]) -> Usage:
    cost = table(document, "info", "model_stats").get("instance_cost")
    return Usage(cost_usd=dollars(cost))


def _last_words(document: Mapping[str, Any]) -> str:
    told = table(document, "info")
    return str(told.get("submission") or told.get("exit_status") or "")


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
