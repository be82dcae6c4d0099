"""Which examples are similar, by the embeddings of a model behind real HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from running import termarena
from support.model_server import ModelServer, Turn, declined
from support.tasks import make_task
from termarena.agents.examples import builtin_examples
from termarena.core.errors import UsageError
from termarena.core.run_folder import RunFolder
from termarena.models import ModelLimits, RunModels
from termarena.models.embeddings import Embeddings
from termarena.models.errors import BudgetSpent, ModelRejected, UnusableReply
from termarena.models.http import Patience

if TYPE_CHECKING:
    from pathlib import Path

QUICK = Patience(attempts=3, first_wait_s=0.001, stall_s=60, answer_s=60, connect_s=30)
AXES = ("cat", "dog")


def vectors(*rows: Any, **more: Any) -> Turn:  # noqa: ANN401 - whatever JSON holds
    data = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
    return Turn({"data": data, "usage": {"prompt_tokens": 7}, **more})


class Server(ModelServer):
    """Knows of each text how often it says cat, and dog; answers in the wrong order, as the interface allows."""

    def __init__(self, *before: Turn) -> None:
        super().__init__()
        self.before = before
        self.on_request = self.answer

    def answer(self, number: int) -> Turn:
        if number <= len(self.before):
            return self.before[number - 1]
        rows = [[text.count(axis) + 0.1 for axis in AXES] for text in self.requests[-1]["input"]]
        turn = vectors(*rows)
        turn.body["data"].reverse()
        return turn

    @property
    def word(self) -> str:
        return f"openai:toy@{self.url}"


async def likeness(server: Server, *texts: str, limits: ModelLimits | None = None) -> list[float]:
    models = RunModels(limits, patience=QUICK, environ={})
    try:
        return await Embeddings(models, server.word).likeness("the cat", texts)
    finally:
        await models.aclose()


async def test_what_points_the_same_way_is_most_alike() -> None:
    with Server() as server:
        dog, cat, both = await likeness(server, "a dog", "cat, cat and cat", "cat or dog")
    assert cat > both > dog > 0
    assert cat == pytest.approx(1, abs=0.01)
    assert [head.split()[1] for head in server.heads] == ["/v1/embeddings"]


async def test_each_text_is_sent_once() -> None:
    with Server() as server:
        models = RunModels(patience=QUICK, environ={})
        embeddings = Embeddings(models, server.word)
        texts = [f"cat {number}" for number in range(100)]
        first = await embeddings.likeness("dog", texts)
        assert await embeddings.likeness("dog", texts) == first
        await embeddings.likeness("cat", texts)
        await models.aclose()
    sent = [text for request in server.requests for text in request["input"]]
    assert sorted(sent) == sorted({*texts, "dog", "cat"})
    assert [len(request["input"]) for request in server.requests] == [64, 37, 1]


async def test_what_passes_is_tried_again() -> None:
    with Server(declined(500, "not now"), declined(429, "too many")) as server:
        assert len(await likeness(server, "a dog")) == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("turn", "error", "told"),
    [
        (vectors([1, 0]), UnusableReply, "not as many vectors"),
        (vectors([1, 0], [1, 0, 0]), UnusableReply, "differ in length"),
        (vectors([1, 0], [0, 0]), UnusableReply, "no direction"),
        (vectors([1, 0], []), UnusableReply, "no direction"),
        (vectors([1, 0], ["x"]), UnusableReply, "not what the interface promises"),
        (declined(400, "this model has no embeddings"), ModelRejected, "has no embeddings"),
    ],
)
async def test_an_answer_that_is_none_has_a_name(turn: Turn, error: type[Exception], told: str) -> None:
    with Server(turn) as server, pytest.raises(error, match=told):
        await likeness(server, "a dog")


async def test_embeddings_count_against_the_runs_budget() -> None:
    with Server() as server:
        models = RunModels(ModelLimits(run_tokens=1100), patience=QUICK, environ={})
        embeddings = Embeddings(models, server.word)
        await embeddings.likeness("cat", ["dog"])
        assert models.budget.spent_tokens == 7
        with pytest.raises(BudgetSpent):
            await embeddings.likeness("cat " * 1000, ["dog"])
        await models.aclose()


@pytest.mark.parametrize("word", ["anthropic:claude-sonnet-4-5", "google:gemini-2.5-pro"])
def test_a_provider_without_them_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="embeddings are had from openai, openrouter"):
        Embeddings(RunModels(environ={"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}), word)


@pytest.mark.needs("user-namespaces")
def test_a_run_chooses_its_examples_by_them(tmp_path: Path) -> None:
    make_task(tmp_path / "one")
    script = {"replies": [{"content": "ACTION: TASK_COMPLETE"}]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    wanted = builtin_examples()[-1]
    with Server() as server:
        server.on_request = lambda _: vectors(
            *[
                [1, 0.1] if text.strip() in ("Write 1 to /app/one.txt.", wanted.instruction.strip()) else [0.1, 1]
                for text in server.requests[-1]["input"]
            ]
        )
        words = ["--agent", "tools-text", "--model", "scripted:script.json", "--examples", "builtin"]
        done = termarena(
            *("run", "--path", "one", *words, "--example-embeddings", server.word, "--out", "run"),
            cwd=tmp_path,
            env={"TERMARENA_HOME": str(tmp_path / "home")},
        )
    assert done.returncode == 0, done.stderr
    steps = json.loads(RunFolder(tmp_path / "run").attempt("one", 1).trajectory.read_text())["steps"]
    (told,) = [step["extra"] for step in steps if "examples" in (step.get("extra") or {})]
    assert [example["task_id"] for example in told["examples"]] == [wanted.task_id]
    assert told["by"] == server.word


def test_embeddings_without_examples_are_refused(tmp_path: Path) -> None:
    done = termarena("run", "--agent", "tools", "--model", "openai:x", "--example-embeddings", "openai:y", cwd=tmp_path)
    assert done.returncode == 2
    assert "--example-embeddings chooses among examples" in done.stderr
