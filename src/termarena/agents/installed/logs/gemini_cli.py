"""The stream of JSON that Gemini CLI prints: `--output-format stream-json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from termarena.agents.contract import Usage
from termarena.agents.installed.logs.contract import ToldLog
from termarena.agents.installed.logs.drafting import Drafts, count, lines_of, table

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
        self._is_speaking = False

    def take(self, row: dict[str, Any]) -> None:
        kind = row.get("type")
        if kind == "message" and row.get("role") == "assistant":
            self._said(str(row.get("content", "")))
            return
        self._is_speaking = False
        if kind == "tool_use":
            identity = str(row.get("tool_id"))
            self.drafts.call(self.drafts.last, identity, str(row.get("tool_name", "")), row.get("parameters"))
        elif kind == "tool_result":
            failed = True if row.get("status") == "error" else None
            output = row.get("output", table(row, "error").get("message", ""))
            self.drafts.result(str(row.get("tool_id")), str(output), is_error=failed)
        elif kind == "result":
            self._ended(row)
        elif kind == "error":
            self.drafts.begin(str(row.get("message", "")), extra={"failed": True})
        elif kind not in ("init", "message"):
            self.drafts.keep(json.dumps(row))

    def _said(self, text: str) -> None:
        """One message comes in several pieces."""
        if self._is_speaking:
            self.drafts.last.message += text
            self.last_words += text
        else:
            self.drafts.begin(text)
            self.last_words = text
        self._is_speaking = True

    def _ended(self, row: Mapping[str, Any]) -> None:
        stats = table(row, "stats")
        self.usage = Usage(
            count(stats.get("input_tokens")), count(stats.get("output_tokens")), count(stats.get("cached"))
        )
        problem = table(row, "error").get("message")
        self.last_words = str(problem) if problem else self.last_words
