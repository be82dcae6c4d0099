"""`terminus` on real terminals: what is typed, what is seen, and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.model_bench import ModelBench
from support.model_server import ModelServer, Turn, declined, said
from termarena.agents.terminus_reply import Keys, read_reply

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("user-namespaces")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def bench(tmp_path: Path, home: Path) -> ModelBench:
    return ModelBench(tmp_path, home, agent="terminus")


def types(*keys: str, done: bool = False, wait_s: float = 5) -> Turn:
    commands = [{"keystrokes": each, "duration": wait_s} for each in keys]
    return said(json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": done}))


def shown(server: ModelServer, number: int) -> str:
    """What the model was told last, in its request of this number."""
    return str(server.requests[number - 1]["messages"][-1]["content"])


async def test_it_types_sees_what_came_and_is_asked_once_more_before_the_end(bench: ModelBench) -> None:
    turns = [
        types("cd /app && seq 100\n", "echo 1 > one.txt; pwd\n"),
        types("cat\n", "hello\n", "C-c", wait_s=0.3),
        types(done=True),
        types(done=True),
    ]
    with ModelServer(*turns) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        assert len(server.requests) == 4
        assert "The terminal shows:" in shown(server, 1)
        assert "\n1\n2\n" in shown(server, 2)
        assert "\n/app\n" in shown(server, 2)
        assert "hello\nhello\n^C" in shown(server, 3)
        assert "Once it is handed in" in shown(server, 4)
    assert (result.outcome, result.agent_end, result.agent.input_tokens) == ("solved", "submitted", 400)
    assert bench.attempt.cast().is_file()


async def test_a_shell_that_ended_is_replaced_and_a_doubt_is_no_end(bench: ModelBench) -> None:
    turns = [types("exit\n"), types(done=True), types("echo 1 >/app/one.txt\n"), types(done=True), types(done=True)]
    with ModelServer(*turns) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        assert "The shell has ended; this is a new one." in shown(server, 2)
        assert len(server.requests) == 5
    assert (result.outcome, result.agent_end) == ("solved", "submitted")


async def test_a_full_window_is_summed_up_and_the_work_goes_on(bench: ModelBench) -> None:
    def answer(number: int) -> Turn:
        last = shown(server, number)
        if "about to be cut" in last:
            return said("I had got as far as seq.")
        if "I had got as far as seq." in last:
            return types("echo 1 >/app/one.txt\n", done=True)
        if "Once it is handed in" in last:
            return types(done=True)
        if sum(len(str(message["content"])) for message in server.requests[-1]["messages"]) > 40_000:
            return declined(400, "maximum context length is 9000 tokens")
        return types(f"echo {number}; seq 2000\n")

    with ModelServer() as server:
        server.on_request = answer
        result = await bench.run(f"openai:toy@{server.url}")
        last = server.requests[-1]["messages"]
    assert (result.outcome, result.agent_end) == ("solved", "submitted")
    assert len(last) < 8
    assert "Write 1 to /app/one.txt." in last[1]["content"]


@pytest.mark.parametrize(
    ("turn", "end"),
    [
        (said("I'm sorry, but I cannot help with that."), "refused"),
        (said("ls -la"), "parse_error"),
        (said(""), "parse_error"),
        (said('{"commands": [{"keys": "ls"}]}'), "parse_error"),
        (said('{"commands": [{"keystrokes": "rm', finish="length"), "parse_error"),
        (types("true\n"), "resource_limit"),
    ],
    ids=["refusal", "talk", "empty", "wrong-field", "cut-off", "the-same-again"],
)
async def test_what_does_not_work_ends_typed_and_is_graded(bench: ModelBench, turn: Turn, end: str) -> None:
    with ModelServer(turn) as server:
        result = await bench.run(f"openai:toy@{server.url}", max_steps=12)
    assert (result.outcome, result.agent_end, result.fault) == ("unsolved", end, None)


LS = (Keys("ls\n", 1.0),)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"analysis": "", "plan": "", "commands": [{"keystrokes": "ls\\n"}]}', LS),
        ('Well:\n```json\n{"commands": [{"keystrokes": "ls\\n"}]}\n```\nSo.', LS),
        ('{"commands": [{"keystrokes": "ls\\n"}]', LS),
        ('{"commands": [{"keystrokes": "ls\n"}]}', LS),
        ('{"x": {}} {"commands": [{"keystrokes": "ls\\n", "duration": "soon"}]}', LS),
        ('{"commands": [{"keystrokes": "ls\\n", "duration": 1e9}]}', (Keys("ls\n", 60.0),)),
        ('{"commands": []}', ()),
    ],
)
def test_a_reply_is_read_whatever_stands_around_it(text: str, keys: tuple[Keys, ...]) -> None:
    assert (read_reply(text).keys, read_reply(text).problem) == (keys, None)


HALF = '{"commands": [{"keystrokes": "\\ud83d"}]}'


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"commands": "ls"}', '{"commands": [5]}', "{" * 3000, HALF])
def test_a_reply_that_asks_for_nothing_says_why(text: str) -> None:
    found: Any = read_reply(text)
    assert found.problem
    assert found.keys == ()
