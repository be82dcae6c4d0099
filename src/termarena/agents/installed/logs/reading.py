"""Which parser reads which log; each is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from termarena.agents.installed.logs.contract import ToldLog

if TYPE_CHECKING:
    from termarena.agents.installed.description import Parser

__all__ = ["read_log"]

LONGEST_CHARACTERS: Final = 64 << 20
_ROOM: Final = "termarena.agents.installed.logs"
_PARSERS: Final[dict[str, str]] = {
    "claude-code": f"{_ROOM}.claude_code",
    "codex": f"{_ROOM}.codex",
    "opencode": f"{_ROOM}.opencode",
    "gemini-cli": f"{_ROOM}.gemini_cli",
    "goose": f"{_ROOM}.goose",
    "mini-swe-agent": f"{_ROOM}.mini_swe_agent",
}


def read_log(parser: Parser, text: str) -> ToldLog:
    """What a log tells; of one that is too long, its beginning. Nothing that an agent writes makes this fail."""
    if parser == "none" or not text.strip():
        return ToldLog()
    told: ToldLog = import_module(_PARSERS[parser]).parse(text[:LONGEST_CHARACTERS])
    return told
