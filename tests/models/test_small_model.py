"""A real language model, end to end: what it used, what it did and how that was graded; never how it put it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.tasks import LOOKS_FOR_ONE, Made, make_task
from termarena.core.run_folder import RunFolder
from termarena.core.trajectory import read_trajectory
from termarena.models import Message, Request, RunModels, Sampling
from termarena.models.embeddings import Embeddings
from termarena.models.errors import ContextOverflow
from termarena.runs.recording import read_result

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.needs("small-model", "user-namespaces"), pytest.mark.slow]

ASKED = Request((Message("user", "Say hello to the team."),), sampling=Sampling(temperature=0, max_tokens=8))
GREETING = "Create the file `/srv/motd.txt` with the text `Good morning, team.` on a line of its own.\n"


def url() -> str:
    return os.environ["TERMARENA_SMALL_MODEL"]


@pytest.mark.parametrize("provider", ["llamacpp", "openai", "anthropic"])
async def test_both_interfaces_of_a_real_server_are_understood(provider: str) -> None:
    models = RunModels(environ={})
    model = models.open(f"{provider}:smollm2@{url()}")
    answers = [await model.complete(ASKED, timeout_s=60) for _ in range(2)]
    await models.aclose()
    assert answers[0].message.content
    assert answers[0].message.content == answers[1].message.content
    assert answers[0].usage.output_tokens in range(1, 9)
    assert (answers[1].usage.cached_tokens or 0) > 0
    assert answers[1].usage.input_tokens == answers[0].usage.input_tokens
    assert model.meter.cost_usd is None


async def test_a_conversation_that_is_too_long_for_it_is_told_as_such() -> None:
    models = RunModels(environ={})
    with pytest.raises(ContextOverflow):
        await models.open(f"llamacpp:smollm2@{url()}").complete(
            Request((Message("user", "one two three " * 3000),)), timeout_s=60
        )
    await models.aclose()


def run(folder: Path, agent: str, *more: str) -> RunFolder:
    """A run of this agent with the real model on hello-world; its folder."""
    word = ("--agent", agent, "--model", f"llamacpp:smollm2@{url()}", "--temperature", "0")
    few = ("--max-steps", "2", "--max-reply-tokens", "60", "--task", "*/hello-world", "--out", str(folder / agent))
    done = termarena("run", *word, *few, *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    return RunFolder(folder / agent)


def solve_a_similar_task(folder: Path) -> Path:
    """An earlier run, in which another task was solved."""
    made = Made(
        setup="mkdir -p /app /srv\n",
        tests=LOOKS_FOR_ONE.replace("1 /app/one.txt", "'Good morning, team.' /srv/motd.txt"),
        files={"instruction.md": GREETING},
    )
    make_task(folder / "tasks" / "greeting", made)
    command = "ACTION: EXECUTE\nCOMMAND: echo 'Good morning, team.' > /srv/motd.txt"
    script = folder / "script.json"
    script.write_text(json.dumps({"replies": [{"content": command}, {"content": "ACTION: TASK_COMPLETE"}]}))
    done = termarena(
        *("run", "--path", str(folder / "tasks"), "--agent", "tools-text", "--model", f"scripted:{script}"),
        *("--out", str(folder / "earlier"), "--json"),
        cwd=folder,
    )
    assert json.loads(done.stdout)["solved"] == 1, done.stderr
    return folder / "earlier"


def test_with_one_retrieved_example_the_text_form_solves_hello_world(tmp_path: Path) -> None:
    folder = run(tmp_path, "tools-text", "--examples", str(solve_a_similar_task(tmp_path)))
    attempt = folder.attempt("termarena/hello-world", 1)
    result = read_result(attempt)
    assert result.outcome == "solved"
    assert (result.agent.input_tokens or 0) > 300
    steps = read_trajectory(attempt.trajectory).steps
    shown = [step.extra["examples"] for step in steps if step.extra and "examples" in step.extra]
    assert [example["task_id"] for example in shown[0]] == ["greeting"]
    assert {step.metrics is not None for step in steps if step.llm_call_count == 1} == {True}


async def test_embeddings_of_a_real_model_say_what_is_alike(tmp_path: Path) -> None:
    word = f"llamacpp:smollm2@{os.environ['TERMARENA_SMALL_EMBEDDINGS']}"
    models = RunModels(environ={})
    same, near, far = await Embeddings(models, word).likeness(
        GREETING, [GREETING, GREETING.replace("motd", "note"), "Which of these numbers is prime: 4, 6, 7, 9?"]
    )
    await models.aclose()
    assert same == pytest.approx(1, abs=1e-3)
    assert same > near > far
    examples = ("--examples", "builtin", "--example-embeddings", word)
    attempt = run(tmp_path, "tools-text", *examples).attempt("termarena/hello-world", 1)
    (told,) = [step.extra for step in read_trajectory(attempt.trajectory).steps if "by" in (step.extra or {})]
    assert told is not None
    assert (told["by"], len(told["examples"])) == (word, 1)


def test_terminus_ends_typed_and_graded_whatever_it_does(tmp_path: Path) -> None:
    result = read_result(run(tmp_path, "terminus").attempt("termarena/hello-world", 1))
    assert result.outcome in ("solved", "unsolved")
    assert result.agent_end in ("submitted", "parse_error", "refused", "resource_limit")
    assert (result.fault, (result.agent.output_tokens or 0) > 0) == (None, True)
