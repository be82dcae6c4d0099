"""A task's MCP servers in the words of the programs that are to use them: each has a form of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from termarena.agents.installed.description import McpForm
    from termarena.tasks.model import McpServer

__all__ = ["ToldServers", "tell_servers"]

START_S: Final = 60
"""For a server to begin. Programs wait for five to thirty seconds by themselves, which a busy machine may take."""


class ToldServers(NamedTuple):
    """What is written for the agent, and which servers it cannot use."""

    content: str
    left_out: tuple[str, ...]


def tell_servers(form: McpForm, servers: Iterable[McpServer]) -> ToldServers:
    """The file at `$MCP_FILE`; without servers, one that names none. An agent without a form gets none of them."""
    told: dict[str, Any] = {}
    left_out: list[str] = []
    for server in servers:
        row = None if form == "none" else _ROWS[form](server)
        if row is None:
            left_out.append(server.name)
        else:
            told[server.name] = row
    return ToldServers("" if form == "none" else _WHOLE[form](told), tuple(left_out))


def _claude(server: McpServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"type": "stdio", "command": server.command, "args": list(server.args)}
    return {"type": "http" if server.transport == "streamable-http" else "sse", "url": server.url}


def _codex(server: McpServer) -> dict[str, Any] | None:
    # One that is not required is not waited for: the model would not find its tools in the first turn.
    patience = {"startup_timeout_sec": START_S, "required": True}
    if server.transport == "stdio":
        return {"command": server.command, "args": list(server.args), **patience}
    return {"url": server.url, **patience} if server.transport == "streamable-http" else None


def _gemini(server: McpServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"command": server.command, "args": list(server.args), "trust": True}
    return {"httpUrl" if server.transport == "streamable-http" else "url": server.url, "trust": True}


def _opencode(server: McpServer) -> dict[str, Any]:
    about = {"enabled": True, "timeout": START_S * 1000}
    if server.transport == "stdio":
        return {"type": "local", "command": [server.command, *server.args], **about}
    return {"type": "remote", "url": server.url, **about}


def _goose(server: McpServer) -> dict[str, Any] | None:
    about = {"name": server.name, "description": "", "enabled": True, "timeout": 300}
    if server.transport == "stdio":
        return {**about, "type": "stdio", "cmd": server.command, "args": list(server.args)}
    return {**about, "type": "streamable_http", "uri": server.url} if server.transport == "streamable-http" else None


def _as_toml(told: dict[str, Any]) -> str:
    """Names, strings and lists of strings are written alike in JSON and TOML."""
    lines: list[str] = []
    for name, row in told.items():
        lines.append(f"[mcp_servers.{_json(name)}]")
        lines.extend(f"{key} = {_json(value)}" for key, value in row.items())
    return "\n".join(lines) + "\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


_ROWS: Final[dict[McpForm, Callable[[McpServer], dict[str, Any] | None]]] = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini-cli": _gemini,
    "opencode": _opencode,
    "goose": _goose,
}
_WHOLE: Final[dict[McpForm, Callable[[dict[str, Any]], str]]] = {
    "claude-code": lambda told: _json({"mcpServers": told}),
    "codex": _as_toml,
    "gemini-cli": _json,
    "opencode": _json,
    "goose": lambda told: _json({"extensions": told}),
}
