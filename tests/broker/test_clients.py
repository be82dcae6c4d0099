"""The providers' own clients against a real broker. They are installed for these tests alone, which takes a while."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from broker.conftest import a_desk
from broker.test_broker import _streamed
from support.model_server import ModelServer, declined, said
from termarena.models import ModelLimits

if TYPE_CHECKING:
    from pathlib import Path

    from broker.conftest import Desk

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
OPENAI = """
import json, os
from openai import APIStatusError, OpenAI
client = OpenAI()
hello = [{"role": "user", "content": "hello"}]
def guarded(ask):
    try: return ask()
    except APIStatusError as error: return [error.status_code, str(error.message)]
def streamed():
    chunks = list(client.chat.completions.create(
        model="m", messages=hello, stream=True, stream_options={"include_usage": True}))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return [said, chunks[-1].usage.prompt_tokens]
def whole():
    answer = client.chat.completions.create(model="m", messages=hello)
    return [answer.choices[0].message.content, answer.usage.prompt_tokens]
def responses():
    answer = client.responses.create(model="m", input="hello")
    return [answer.output_text, answer.usage.input_tokens]
def counted(): return client.responses.input_tokens.count(model="m", input="hello").input_tokens
def listed(): return [model.id for model in client.models.list()] + [client.models.retrieve("x").id]
print(json.dumps([guarded(globals()[name]) for name in os.environ["WANTED"].split()]))
"""
ANTHROPIC = """
import json, os
from anthropic import Anthropic
client = Anthropic()
hello = [{"role": "user", "content": "hello"}]
answer = client.messages.create(model="m", max_tokens=50, messages=hello)
with client.messages.stream(model="m", max_tokens=50, messages=hello) as stream:
    said = "".join(stream.text_stream)
    usage = stream.get_final_message().usage
tokens = client.messages.count_tokens(model="m", messages=hello).input_tokens
names = [model.id for model in client.models.list()]
print(json.dumps([answer.content[0].text, said, usage.input_tokens + usage.cache_read_input_tokens, tokens > 0, names]))
"""
GOOGLE = """
import json, os
from google import genai
client = genai.Client(http_options={"base_url": os.environ["BASE"]})
answer = client.models.generate_content(model="m", contents="hello")
said = "".join(part.text or "" for part in client.models.generate_content_stream(model="m", contents="hello"))
tokens = client.models.count_tokens(model="m", contents="hello").total_tokens
names = [model.name for model in client.models.list()]
print(json.dumps([answer.text, said, answer.usage_metadata.prompt_token_count, tokens > 0, names]))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has the clients of all three providers."""
    folder = tmp_path_factory.mktemp("clients")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)  # noqa: S603 - our own interpreter
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "openai", "anthropic", "google-genai"]
    subprocess.run(pip, check=True)  # noqa: S603 - the one that was just made
    return folder / "bin/python"


async def _told(python: Path, program: str, desk: Desk, **more: str) -> Any:  # noqa: ANN401 - JSON
    base = f"http://{desk.broker.address}"
    env = {
        "OPENAI_BASE_URL": f"{base}/v1",
        "ANTHROPIC_BASE_URL": base,
        "BASE": base,
        **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), desk.seat.token),
        **more,
    }
    process = await asyncio.create_subprocess_exec(
        python, "-c", program, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, problem = await process.communicate()
    assert process.returncode == 0, problem.decode()
    return json.loads(out)


async def test_openais_client_asks_streams_counts_and_lists(python: Path, scripted: str) -> None:
    async with a_desk(scripted) as desk:
        wanted = "whole streamed responses counted listed"
        whole, streamed, responses, counted, listed = await _told(python, OPENAI, desk, WANTED=wanted)
    assert (whole, streamed, responses) == (["I look.", 100], ["I look.", 100], ["I look.", 100])
    assert counted > 0
    assert len(set(listed)) == 1


async def test_openais_client_gets_a_stream_of_the_endpoint_with_its_usage(python: Path) -> None:
    with ModelServer(_streamed("chat")) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            [[said_, tokens]] = await _told(python, OPENAI, desk, WANTED="streamed")
            assert said_
            assert tokens == desk.seat.model.meter.input_tokens


async def test_openais_client_waits_as_the_endpoint_tells_it_and_asks_again(python: Path) -> None:
    busy = declined(429, "slow down", headers={"Retry-After-Ms": "20"})
    with ModelServer(busy, said("well then")) as server:
        async with a_desk(f"openai:toy@{server.url}") as desk:
            assert await _told(python, OPENAI, desk, WANTED="whole") == [["well then", 100]]
            assert len(server.requests) == 2


async def test_openais_client_does_not_ask_again_without_a_budget(python: Path, scripted: str) -> None:
    async with a_desk(scripted, limits=ModelLimits(trial_tokens=1)) as desk:
        [[status, message]] = await _told(python, OPENAI, desk, WANTED="whole")
        assert (status, len(desk.kept)) == (403, 1)
        assert "is spent" in message


async def test_anthropics_client_asks_streams_counts_and_lists(python: Path, scripted: str) -> None:
    async with a_desk(scripted) as desk:
        told = await _told(python, ANTHROPIC, desk)
        assert told == ["I look.", "I look.", 100, True, [desk.seat.model.name]]


async def test_googles_client_asks_streams_counts_and_lists(python: Path, scripted: str) -> None:
    async with a_desk(scripted) as desk:
        told = await _told(python, GOOGLE, desk)
        assert told == ["I look.", "I look.", 100, True, [f"models/{desk.seat.model.name}"]]
