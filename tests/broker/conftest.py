"""Brokers over scripted models and over real servers on loopback."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.model_bench import QUICK
from termarena.broker import Broker, Exchanged, Seat
from termarena.models import ModelLimits, RunModels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from termarena.models.http import Patience

KEY = "sk-the-real-key-of-the-provider-0001"


@dataclass
class Desk:
    """A broker with one seat, and a client that holds its token."""

    broker: Broker
    seat: Seat
    client: httpx.AsyncClient
    kept: list[Exchanged] = field(default_factory=list)

    async def post(self, path: str, body: Any, *, token: str | None = None) -> httpx.Response:  # noqa: ANN401 - JSON
        key = self.seat.token if token is None else token
        return await self.client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})


@asynccontextmanager
async def a_desk(
    word: str, *, limits: ModelLimits | None = None, key: str = KEY, patience: Patience = QUICK
) -> AsyncIterator[Desk]:
    variables = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    models = RunModels(limits, patience=patience, environ=dict.fromkeys(variables, key))
    kept: list[Exchanged] = []
    try:
        async with Broker(models) as broker:
            seat = broker.seat(word, kept.append)
            async with httpx.AsyncClient(base_url=f"http://{broker.address}", timeout=60) as client:
                yield Desk(broker, seat, client, kept)
    finally:
        await models.aclose()


@pytest.fixture
def scripted(tmp_path: Path) -> str:
    """A model that calls a tool and then says that it is done."""
    path = tmp_path / "script.json"
    replies = [
        {
            "content": "I look.",
            "tool_calls": [{"name": "shell", "arguments": {"command": "ls"}}],
            "input_tokens": 100,
            "output_tokens": 10,
            "cached_tokens": 40,
        },
        {"content": "Done.", "input_tokens": 200, "output_tokens": 5},
    ]
    path.write_text(json.dumps({"by_turn": True, "replies": replies}))
    return f"scripted:{path}"
