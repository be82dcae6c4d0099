"""A client of a2a-sdk 0.3, run by an interpreter that has it: `python old_client.py URL TEXT stream|send`.

Prints one JSON object: the states it saw, and every text and every table.
"""
# mypy: ignore-errors

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TextPart


async def main(url: str, text: str, manner: str) -> None:
    async with httpx.AsyncClient(timeout=120) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=manner == "stream")).create(card)
        message = Message(role=Role.user, parts=[Part(TextPart(text=text))], message_id=uuid.uuid4().hex)
        states, texts, tables = [], [], []
        async for event in client.send_message(message):
            if isinstance(event, Message):
                texts += [part.root.text for part in event.parts]
                continue
            task = event[0]
            states.append(task.status.state.value)
            for artifact in task.artifacts or []:
                tables = [part.root.data for part in artifact.parts if part.root.kind == "data"]
            if task.status.message:
                texts += [part.root.text for part in task.status.message.parts if part.root.kind == "text"]
    print(json.dumps({"states": states, "texts": texts, "tables": tables}))  # noqa: T201 - what it is for


asyncio.run(main(*sys.argv[1:4]))
