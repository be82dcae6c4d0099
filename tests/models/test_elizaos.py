"""`--model elizaos:MODULE:NAME`: the model of a runtime, given as an object or made by a function."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.model_server import ModelServer, said
from support.own_venv import OwnVenv
from support.tasks import make_task
from termarena.core.errors import NotFound, UsageError
from termarena.models import Message, Request, RunModels, ToolSpec
from termarena.models.errors import ModelUnavailable, UnusableReply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
import asyncio
from types import SimpleNamespace


print("imported")


class Runtime:
    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def generate_text(self, input_text, options=None):
        print("asked")
        self.asked.append((input_text, options))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        if answer == "never":
            await asyncio.Event().wait()
        return answer if answer == 5 else SimpleNamespace(text=answer)


SOLVES = ("ACTION: EXECUTE\\nCOMMAND: echo 1 >/app/one.txt", "ACTION: TASK_COMPLETE")
ready = Runtime("hello")
made = []


async def make():
    made.append(Runtime(*SOLVES))
    return made[-1]


def nothing():
    return 5


def broken():
    raise OSError("no database")


failing, silent, wordless = Runtime(ValueError("no plugin")), Runtime("never"), Runtime(5)
number = 7
"""
ASKED = Request((Message("system", "Be brief."), Message("user", "Say hello.")))


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunModels]:
    (tmp_path / "my_runtimes.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield RunModels()
    sys.modules.pop("my_runtimes", None)


async def test_a_conversation_is_one_text_and_the_answer_another(models: RunModels) -> None:
    model = models.open("elizaos:my_runtimes:ready")
    answer = await model.complete(ASKED, timeout_s=60)
    assert (answer.message.content, answer.finish, answer.cost_usd) == ("hello", "stop", None)
    assert answer.usage.input_tokens is None, "a runtime does not tell its tokens"
    ((text, _),) = sys.modules["my_runtimes"].ready.asked
    assert text == "Instructions:\nBe brief.\n\nUser:\nSay hello.\n\nYou:\n"


async def test_a_function_makes_one_runtime_for_all_attempts(models: RunModels) -> None:
    opened = [models.open("elizaos:my_runtimes:make") for _ in range(3)]
    assert sys.modules["my_runtimes"].made == []
    await asyncio.gather(*(model.complete(ASKED, timeout_s=60) for model in opened))
    (made,) = sys.modules["my_runtimes"].made
    assert len(made.asked) == 3


@pytest.mark.parametrize(
    ("word", "error", "told"),
    [
        ("elizaos:my_runtimes", UsageError, "names no runtime"),
        ("elizaos:not_there:x", NotFound, "cannot import not_there"),
        ("elizaos:my_runtimes:absent", NotFound, "my_runtimes has no absent"),
        ("elizaos:my_runtimes:number", UsageError, "is int: no runtime"),
    ],
)
def test_a_word_that_names_no_runtime_is_told_before_anything_starts(
    models: RunModels, word: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        models.check(word)


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("nothing", UsageError, "made int, which has no generate_text"),
        ("broken", ModelUnavailable, "OSError: no database"),
        ("failing", ModelUnavailable, "ValueError: no plugin"),
        ("silent", ModelUnavailable, "no answer within 0 s"),
        ("wordless", UnusableReply, "answered int, which has no text"),
    ],
)
async def test_what_a_runtime_does_wrong_has_a_name(
    models: RunModels, name: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        await models.open(f"elizaos:my_runtimes:{name}").complete(ASKED, timeout_s=0.05 if name == "silent" else 60)


async def test_tools_are_refused(models: RunModels) -> None:
    request = Request(ASKED.messages, tools=(ToolSpec("EXECUTE", "", {}),))
    with pytest.raises(UsageError, match="takes no tools"):
        await models.open("elizaos:my_runtimes:ready").complete(request, timeout_s=60)


@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize(("agent", "status"), [("tools-text", 0), ("tools", 2)])
def test_a_runtime_solves_a_task(tmp_path: Path, agent: str, status: int) -> None:
    (tmp_path / "my_runtimes.py").write_text(MODULE)
    make_task(tmp_path / "one")
    words = ("--path", "one", "--agent", agent, "--model", "elizaos:my_runtimes:make", "--out", "run")
    done = termarena("run", *words, cwd=tmp_path, env={"TERMARENA_HOME": str(tmp_path / "home")})
    assert done.returncode == status, done.stderr
    assert not {"imported", "asked"} & set(done.stdout.split()), "results only are on stdout"
    told = ("1 solved" in done.stdout, "takes no tools" in done.stderr, (tmp_path / "run").exists())
    assert told == ((True, False, True) if status == 0 else (False, True, False))


REAL = """
from elizaos.runtime import AgentRuntime
from elizaos_plugin_openai import get_openai_plugin
from elizaos_terminal_bench import terminal_bench_plugin


async def make():
    runtime = AgentRuntime(plugins=[get_openai_plugin(), terminal_bench_plugin.as_elizaos()])
    await runtime.initialize()
    assert "EXECUTE" in {action.name for action in runtime.actions}
    return runtime
"""


@pytest.mark.soak
@pytest.mark.needs("user-namespaces")
def test_the_package_itself_with_its_own_plugin_for_openai(tmp_path: Path) -> None:
    """Installs both; the plugin asks a model server on loopback."""
    venv = OwnVenv(tmp_path, extras="models,elizaos", more=("elizaos-plugin-openai==2.0.0a5",))
    (tmp_path / "real_runtime.py").write_text(REAL)
    make_task(tmp_path / "one")
    words = ("--path", "one", "--agent", "tools-text", "--model", "elizaos:real_runtime:make", "--out", "run")
    with ModelServer(*map(said, ("ACTION: EXECUTE\nCOMMAND: echo 1 >/app/one.txt", "ACTION: TASK_COMPLETE"))) as server:
        done = venv.termarena("run", *words, env={"OPENAI_API_KEY": "sk-no-key", "OPENAI_BASE_URL": server.url})
    assert done.returncode == 0, done.stderr
    assert "1 solved" in done.stdout
    assert len(server.requests) == 2
    assert "Write 1 to /app/one.txt." in json.dumps(server.requests[0])
