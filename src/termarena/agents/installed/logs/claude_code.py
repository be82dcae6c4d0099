"""The stream of JSON that Claude Code prints, and Qwen Code after it: `--output-format stream-json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from termarena.agents.contract import Usage
from termarena.agents.installed.logs.contract import ToldLog
from termarena.agents.installed.logs.drafting import Draft, Drafts, count, dollars, lines_of, table
from termarena.core.trajectory import StepMetrics

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["parse"]


def parse(text: str) -> ToldLog:
    """Its steps, its last words and what it says that it used."""
    reader = _Reader()
    for row in lines_of(text, reader.drafts):
        reader.take(row)
    return ToldLog(reader.drafts.steps(), reader.last_words, reader.usage, reader.drafts.unknown_lines)


class _Reader:
    def __init__(self) -> None:
        self.drafts = Drafts()
        self.last_words = ""
        self.usage = Usage()
        self._of_message: dict[str, Draft] = {}

    def take(self, row: dict[str, Any]) -> None:
        kind = row.get("type")
        if kind == "assistant":
            self._said(table(row, "message"))
        elif kind == "user":
            self._told(table(row, "message"))
        elif kind == "result":
            self._ended(row)
        elif kind != "system":
            self.drafts.keep(json.dumps(row))

    def _said(self, message: Mapping[str, Any]) -> None:
        """One answer of the model may come in several lines, which share its id."""
        identity = str(message.get("id"))
        draft = self._of_message.get(identity)
        if draft is None:
            draft = self._of_message[identity] = self.drafts.begin(model=message.get("model"))
        usage = table(message, "usage")
        if usage:
            draft.metrics = _metrics(usage)
        for block in _blocks(message):
            if block.get("type") == "text":
                draft.message += str(block.get("text", ""))
            elif block.get("type") == "thinking":
                draft.reasoning += str(block.get("thinking", ""))
            elif block.get("type") == "tool_use":
                self.drafts.call(draft, str(block.get("id")), str(block.get("name", "")), block.get("input"))

    def _told(self, message: Mapping[str, Any]) -> None:
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                failed = True if block.get("is_error") else None
                self.drafts.result(str(block.get("tool_use_id")), _text(block.get("content")), is_error=failed)

    def _ended(self, row: dict[str, Any]) -> None:
        self.last_words = _text(row.get("result")) or str(row.get("subtype", ""))
        usage = table(row, "usage")
        metrics = _metrics(usage)
        self.usage = Usage(
            metrics.prompt_tokens,
            metrics.completion_tokens,
            metrics.cached_tokens,
            dollars(row.get("total_cost_usd")),
        )


def _metrics(usage: Mapping[str, Any]) -> StepMetrics:
    read, fresh = count(usage.get("cache_read_input_tokens")), count(usage.get("input_tokens"))
    written = count(usage.get("cache_creation_input_tokens")) or 0
    return StepMetrics(
        prompt_tokens=None if fresh is None else fresh + (read or 0) + written,
        completion_tokens=count(usage.get("output_tokens")),
        cached_tokens=read,
    )


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content if isinstance(part, dict))
    return "" if content is None else json.dumps(content)
