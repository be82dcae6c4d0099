"""What `goose run --output-format stream-json` prints: messages, each in as many lines as it came in pieces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from termarena.agents.contract import Usage
from termarena.agents.installed.logs.contract import ToldLog
from termarena.agents.installed.logs.drafting import Draft, Drafts, count, lines_of, table

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
        kind, message = row.get("type"), table(row, "message")
        if kind == "message" and message.get("role") in ("assistant", "user"):
            for block in _blocks(message.get("content")):
                self._block(message, block)
        elif kind == "error":
            self.last_words = str(row.get("error", "it failed"))
            self.drafts.begin(self.last_words, extra={"failed": True})
        elif kind == "complete":
            # Up to version 1.29 only the sum is told.
            self.usage = Usage(
                count(row.get("input_tokens")),
                count(row.get("output_tokens")),
                count(row.get("cache_read_input_tokens")),
            )
        elif kind != "notification":  # what a tool says while it works comes again with its result
            self.drafts.keep(json.dumps(row))

    def _block(self, message: Mapping[str, Any], block: Mapping[str, Any]) -> None:
        kind = block.get("type")
        if kind == "toolResponse":
            self._result(block)
        elif message.get("role") == "user":
            return  # the instruction, or a word of goose to its own model
        elif kind == "text":
            draft = self._draft(message)
            draft.message += str(block.get("text", ""))
            self.last_words = draft.message
        elif kind in ("thinking", "reasoning"):
            self._draft(message).reasoning += str(block.get("thinking") or block.get("text") or "")
        elif kind == "toolRequest":
            call = table(block, "toolCall", "value")
            self.drafts.call(
                self._draft(message), str(block.get("id")), str(call.get("name", "")), call.get("arguments")
            )
        else:
            self.drafts.keep(json.dumps(block))

    def _draft(self, message: Mapping[str, Any]) -> Draft:
        """Pieces of one answer share its id."""
        identity = str(message.get("id"))
        if identity not in self._of_message or message.get("id") is None:
            model = table(message, "metadata", "inference").get("requestedModel")
            self._of_message[identity] = self.drafts.begin(model=model if isinstance(model, str) else None)
        return self._of_message[identity]

    def _result(self, block: Mapping[str, Any]) -> None:
        told = table(block, "toolResult")
        value = told.get("value")
        content = value.get("content") if isinstance(value, dict) else value
        said = "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in _blocks(content))
        failed = True if told.get("status") == "error" or table(told, "value").get("isError") else None
        status = count(table(told, "value", "structuredContent").get("exit_code"))
        self.drafts.result(
            str(block.get("id")), said or str(told.get("error") or ""), exit_status=status, is_error=failed
        )


def _blocks(content: object) -> list[dict[str, Any]]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
