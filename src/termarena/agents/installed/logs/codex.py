"""What `codex exec --json` prints: items of turns; before version 0.44, messages of its own protocol."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from termarena.agents.contract import Usage
from termarena.agents.installed.logs.contract import ToldLog
from termarena.agents.installed.logs.drafting import Drafts, count, lines_of, table

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["parse"]

_SILENT: Final = frozenset({"thread.started", "turn.started", "item.started", "item.updated"})
_OLD_SILENT: Final = frozenset(
    {
        "task_started",
        "exec_command_output_delta",
        "agent_message_delta",
        "agent_reasoning_delta",
        "agent_reasoning_section_break",
        "session_configured",
        "turn_diff",
    }
)


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

    def take(self, row: dict[str, Any]) -> None:
        kind = row.get("type")
        if kind == "item.completed":
            self._item(table(row, "item"))
        elif kind == "turn.completed":
            self._used(table(row, "usage"))
        elif kind in ("turn.failed", "error"):
            self.last_words = str(table(row, "error").get("message") or row.get("message") or "it failed")
            self.drafts.begin(self.last_words, extra={"failed": True})
        elif isinstance(row.get("msg"), dict):
            self._old(row, row["msg"])
        elif str(kind) not in _SILENT and not _is_preamble(row):
            self.drafts.keep(json.dumps(row))

    def _item(self, item: Mapping[str, Any]) -> None:
        kind, identity = item.get("type"), str(item.get("id"))
        if kind == "agent_message":
            self.last_words = str(item.get("text", ""))
            self.drafts.begin(self.last_words)
        elif kind == "reasoning":
            self.drafts.begin().reasoning = str(item.get("text", ""))
        elif kind == "command_execution":
            self.drafts.call(self.drafts.last, identity, "shell", {"command": item.get("command")})
            self.drafts.result(identity, str(item.get("aggregated_output", "")), exit_status=item.get("exit_code"))
        elif kind == "mcp_tool_call":
            self._asked_server(identity, item)
        elif kind == "error":
            self.drafts.begin(str(item.get("message", "")), extra={"failed": True})
        else:
            rest = {name: value for name, value in item.items() if name not in ("id", "type")}
            self.drafts.call(self.drafts.last, identity, str(kind), rest)

    def _asked_server(self, identity: str, item: Mapping[str, Any]) -> None:
        name = f"mcp__{item.get('server')}__{item.get('tool')}"
        self.drafts.call(self.drafts.last, identity, name, item.get("arguments"))
        content = table(item, "result").get("content")
        parts = content if isinstance(content, list) else []
        said = "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts if isinstance(part, dict))
        problem = table(item, "error").get("message")
        failed = True if item.get("status") == "failed" or problem else None
        self.drafts.result(identity, said or str(problem or ""), is_error=failed)

    def _used(self, usage: Mapping[str, Any]) -> None:
        self.usage = Usage(
            count(usage.get("input_tokens")),
            count(usage.get("output_tokens")),
            count(usage.get("cached_input_tokens")),
        )

    def _old(self, row: dict[str, Any], told: Mapping[str, Any]) -> None:
        kind = told.get("type")
        if kind == "agent_message":
            self.last_words = str(told.get("message", ""))
            self.drafts.begin(self.last_words)
        elif kind == "agent_reasoning":
            self.drafts.begin().reasoning = str(told.get("text", ""))
        elif kind == "exec_command_begin":
            command = told.get("command")
            words = shlex.join(map(str, command)) if isinstance(command, list) else command
            self.drafts.call(self.drafts.last, str(told.get("call_id")), "shell", {"command": words})
        elif kind == "exec_command_end":
            output = told.get("aggregated_output") or f"{told.get('stdout', '')}{told.get('stderr', '')}"
            self.drafts.result(str(told.get("call_id")), str(output), exit_status=told.get("exit_code"))
        elif kind == "token_count":
            self._used(table(told, "info", "total_token_usage") or told)
        elif kind == "task_complete":
            self.last_words = str(told.get("last_agent_message") or self.last_words)
        elif str(kind) not in _OLD_SILENT:
            self.drafts.keep(json.dumps(row))


def _is_preamble(row: Mapping[str, Any]) -> bool:
    """Older versions begin with their settings and the prompt."""
    return "type" not in row and ("prompt" in row or "provider" in row or "model" in row)
