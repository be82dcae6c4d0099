"""What `opencode run --format json` prints: parts of messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from termarena.agents.contract import Usage
from termarena.agents.installed.logs.contract import ToldLog
from termarena.agents.installed.logs.drafting import Drafts, count, dollars, lines_of, table
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
        self.usage = Usage(0, 0, 0, 0.0)

    def take(self, row: dict[str, Any]) -> None:
        kind, part = row.get("type"), table(row, "part")
        if kind == "step_start":
            self.drafts.begin()
        elif kind == "text":
            self.last_words = str(part.get("text", ""))
            self.drafts.last.message += self.last_words
        elif kind == "reasoning":
            self.drafts.last.reasoning += str(part.get("text", ""))
        elif kind == "tool_use":
            self._tool(part)
        elif kind == "step_finish":
            self._finished(part)
        elif kind == "error":
            self.last_words = str(table(row, "error", "data").get("message") or json.dumps(row.get("error")))
            self.drafts.begin(self.last_words, extra={"failed": True})
        else:
            self.drafts.keep(json.dumps(row))

    def _tool(self, part: Mapping[str, Any]) -> None:
        identity, state = str(part.get("callID")), table(part, "state")
        self.drafts.call(self.drafts.last, identity, str(part.get("tool", "")), state.get("input"))
        output = state.get("output", state.get("error"))
        exit_status = table(state, "metadata").get("exit")
        failed = True if state.get("status") == "error" else None
        self.drafts.result(identity, "" if output is None else str(output), exit_status=exit_status, is_error=failed)

    def _finished(self, part: Mapping[str, Any]) -> None:
        tokens, cost = table(part, "tokens"), part.get("cost")
        read, fresh = count(table(tokens, "cache").get("read")), count(tokens.get("input"))
        metrics = StepMetrics(
            prompt_tokens=None if fresh is None else fresh + (read or 0),
            completion_tokens=count(tokens.get("output")),
            cached_tokens=read,
        )
        self.drafts.last.metrics = metrics
        used = Usage(metrics.prompt_tokens, metrics.completion_tokens, metrics.cached_tokens, dollars(cost))
        self.usage = self.usage.plus(used)
