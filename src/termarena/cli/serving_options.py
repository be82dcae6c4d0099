"""Options that the serving commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from termarena.cli.extras import require

__all__ = [
    "AllowNetworkOption",
    "BackendOption",
    "CardOption",
    "CardUrlOption",
    "HostOption",
    "KeyFileOption",
    "SentKeyFileOption",
    "require_packages",
]

HostOption = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; others need a key.")]
CardUrlOption = Annotated[
    str | None, typer.Option("--card-url", metavar="URL", help="How others reach it, for the agent card.")
]
CardOption = Annotated[
    Path | None, typer.Option("--card", metavar="FILE", help="A TOML file with name, description and skills.")
]
KeyFileOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="FILE", help="Callers must send this file's content as bearer key.")
]
SentKeyFileOption = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="Its content is sent as bearer key."),
]
AllowNetworkOption = Annotated[
    list[str] | None,
    typer.Option("--allow-network", metavar="NETWORK", help="A private network that may be reached: 10.1.0.0/16."),
]
BackendOption = Annotated[
    str | None, typer.Option("--backend", metavar="URL", help="An AgentBeats backend to register with.")
]


def require_packages(command: str) -> None:
    """Raises `MissingExtra` where what this command is made of is not installed."""
    require("battles", "a2a", "httpx", "mcp", "starlette", "uvicorn", purpose=f"termarena {command}")
