"""`tools` and `tools-text` on real sandboxes: scripted models that work, and model servers that do not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.model_bench import IMPATIENT, ModelBench
from support.model_server import ModelServer, Turn, declined, said
from support.tasks import Made
from termarena.core.errors import ClusterError, UsageError
from termarena.core.trajectory import read_trajectory
from termarena.models import Brought, ModelLimits, RunModels
from termarena.models.budget import Amount, Budget

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("user-namespaces")

WRITES_ONE = said("I write it.", calls=[("EXECUTE", {"command": "echo 1 >/app/one.txt"})])
DONE = said("Done.", calls=[("TASK_COMPLETE", {})])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def bench(tmp_path: Path, home: Path) -> ModelBench:
    return ModelBench(tmp_path, home)


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"tool_calls": [{"name": name, "arguments": arguments}], "input_tokens": 50, "output_tokens": 5}


# What a model can do.


async def test_every_tool_works_and_everything_is_recorded(bench: ModelBench) -> None:
    model = bench.scripted(
        call("EXECUTE", command="cd /usr && X=5"),
        call("EXECUTE", command='echo "$PWD $X"'),
        call("WRITE_FILE", path="sub/empty.txt", content=""),
        call("WRITE_FILE", path="/app/one.txt", content="1\n"),
        call("READ_FILE", path="/app/one.txt"),
        call("LIST_DIR", path="/app"),
        call("TASK_COMPLETE"),
        model="toy",
    )
    result = await bench.run(model)
    assert (result.outcome, result.agent_end) == ("solved", "submitted")
    assert (result.agent.input_tokens, result.agent.output_tokens, result.agent.cost_usd) == (350, 35, None)
    trajectory = read_trajectory(bench.attempt.trajectory)
    asked = [step for step in trajectory.steps if step.llm_call_count == 1]
    assert [step.metrics.prompt_tokens for step in asked if step.metrics] == [50] * 7
    shown = [
        str(result.content) for step in trajectory.steps if step.observation for result in step.observation.results
    ]
    assert "/usr 5\n" in shown
    assert len(bench.messages()) == 14
    names = [each.function_name for step in trajectory.steps for each in step.tool_calls or ()]
    assert names == ["terminal", "terminal.run", "terminal.run", "write", "write", "read", "exec"]


async def test_the_text_form_does_the_same(bench: ModelBench) -> None:
    content = "ACTION: WRITE_FILE\nPATH: /app/one.txt\nCONTENT:\n```\n1\n```"
    model = bench.scripted({"content": content}, {"content": "ACTION: TASK_COMPLETE"})
    result = await bench.run(model, agent="tools-text")
    assert (result.outcome, result.agent.name, result.agent.input_tokens) == ("solved", "tools-text", None)


async def test_a_command_that_no_shell_can_be_given_is_a_mistake_of_the_models(bench: ModelBench) -> None:
    turns = [said(None, calls=[("EXECUTE", f'{{"command": "echo {word}"}}')]) for word in ("\\u0000", "\\ud83d")]
    with ModelServer(*turns, DONE) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        told = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert (result.outcome, result.agent_end) == ("unsolved", "submitted")
    assert "command holds a NUL character" in told[0]
    assert "command holds half a character" in told[1]


async def test_a_model_is_told_its_limits_its_mistakes_and_long_output_in_part(bench: ModelBench) -> None:
    turns = [
        said(None, calls=[("EXECUTE", {"command": "seq 100000"})]),
        said(None, calls=[("FLY", {"to": "Rome"}), ("READ_FILE", {}), ("READ_FILE", {"path": "/none"})]),
        said(None, calls=[("EXECUTE", '{"command": "echo')]),
        said(None, calls=[("EXECUTE", {"command": "exit 3"})]),
        said(None, calls=[("EXECUTE", {"command": "sleep 60", "timeout_s": 0.3})]),
        DONE,
    ]
    with ModelServer(*turns) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        told = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
        first = server.requests[0]["messages"]
    assert (result.outcome, result.agent_end) == ("unsolved", "submitted")
    assert "You have 30 seconds and 20 replies." in first[1]["content"]
    assert told[0].startswith("Exit code: 0\n1\n2\n")
    assert "are not shown" in told[0]
    assert "100000\n" in told[0]
    assert "[reply 1 of 20; " in told[0]
    assert "there is no tool 'FLY'; there is: EXECUTE" in told[1]
    assert "path is missing" in told[2]
    assert "/none" in told[3]
    assert "no JSON" in told[4]
    assert "The command ended the shell" in told[5]
    assert "timed out after 0.3 s" in told[6]


async def test_parallel_tool_calls_are_done_in_order_and_all_answered(bench: ModelBench) -> None:
    calls = [("EXECUTE", {"command": "echo 1 >/app/one.txt"}), ("EXECUTE", {"command": "cat /app/one.txt"})]
    with ModelServer(said(None, calls=calls), DONE) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        answers = [message for message in server.requests[1]["messages"] if message["role"] == "tool"]
    assert result.outcome == "solved"
    assert [answer["tool_call_id"] for answer in answers] == ["call_1", "call_2"]
    assert "\n1\n" in answers[1]["content"]


# What ends a trial.


async def test_the_same_action_again_and_again_is_told_and_ended(bench: ModelBench) -> None:
    with ModelServer(said(None, calls=[("EXECUTE", {"command": "ls /none"})])) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        told = server.requests[3]["messages"][-1]["content"]
        assert len(server.requests) == 10
    assert "exactly this 3 times" in told
    assert (result.outcome, result.agent_end) == ("unsolved", "resource_limit")


async def test_the_last_reply_is_the_last(bench: ModelBench) -> None:
    with ModelServer(WRITES_ONE) as server:
        result = await bench.run(f"openai:toy@{server.url}", max_steps=2)
        assert len(server.requests) == 2
    assert (result.outcome, result.agent_end, result.agent.message) == (
        "solved",
        "resource_limit",
        "all 2 replies are used",
    )


@pytest.mark.parametrize(
    ("turns", "end"),
    [
        ([said("I'm sorry, but I can't help with that.")], "refused"),
        ([said("", refusal="No.")], "refused"),
        ([said("", finish="content_filter")], "refused"),
        ([said("")], "parse_error"),
        ([said("Let me think about it.")], "parse_error"),
        ([said(None, calls=[("FLY", {})])], "parse_error"),
        ([said(None, calls=[("EXECUTE", '{"command": ')])], "parse_error"),
        ([Turn(b'"' + b"x" * (10 << 20) + b'"')], "parse_error"),
        ([Turn({"choices": []})], "parse_error"),
        ([declined(400, "maximum context length is 10 tokens")], "resource_limit"),
    ],
    ids=[
        "refusal-in-words", "refusal", "filtered", "empty", "talk", "wrong-tool", "half-a-call", "10-MB", "no-choice",
        "overflow",
    ],
)  # fmt: skip
async def test_a_model_that_does_not_work_ends_typed_and_is_graded(
    bench: ModelBench, turns: list[Turn], end: str
) -> None:
    with ModelServer(*turns) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        assert len(server.requests) <= 5
    assert (result.outcome, result.agent_end, result.fault) == ("unsolved", end, None)


@pytest.mark.parametrize(
    "turn",
    [declined(429, "too many"), declined(500, "oops"), Turn(b'{"choi'), Turn({"choices": []}, stalls=True)],
    ids=["429-storm", "500s", "truncated-json", "stall"],
)
async def test_an_endpoint_that_fails_leaves_the_trial_unscored_and_worth_another_try(
    bench: ModelBench, turn: Turn
) -> None:
    if turn.stalls:
        bench.patience = IMPATIENT
    with ModelServer(WRITES_ONE, turn) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        assert len(server.requests) == 4
    assert (result.outcome, result.fault) == ("unscored", "infra")
    assert result.fault_detail is not None
    assert (result.fault_detail.kind, result.fault_detail.is_retriable) == ("ModelUnavailable", True)
    assert result.agent.input_tokens == 100


async def test_a_key_that_is_refused_is_not_tried_again(bench: ModelBench) -> None:
    with ModelServer(declined(401, "bad key")) as server:
        result = await bench.run(f"openai:toy@{server.url}")
    assert result.fault_detail is not None
    assert (result.outcome, result.fault_detail.kind) == ("unscored", "KeyRefused")
    assert not result.fault_detail.is_retriable


async def test_a_spent_budget_ends_the_trial_and_what_was_done_counts(bench: ModelBench) -> None:
    with ModelServer(WRITES_ONE) as server:
        result = await bench.run(f"openai:toy@{server.url}", limits=ModelLimits(trial_tokens=2600))
    assert (result.outcome, result.agent_end) == ("solved", "resource_limit")
    assert result.agent.message == "the trial's budget of 2600 tokens is spent"


async def test_a_budget_that_cannot_be_asked_any_more_is_not_put_on_the_agent(bench: ModelBench) -> None:
    class Lost(Budget):
        def spend(self, amount: Amount) -> None:
            raise ClusterError(f"the process that keeps the run's budget is lost: {amount}")

    model = bench.scripted(call("EXECUTE", command="true"), call("TASK_COMPLETE"))
    result = await bench.run(model, brought=Brought(budget=Lost("run")))
    assert (result.outcome, result.fault, result.agent_error) == ("unscored", "infra", None)
    assert result.fault_detail is not None
    assert (result.fault_detail.kind, result.fault_detail.is_retriable) == ("ClusterError", True)


async def test_what_a_model_used_is_known_after_a_timeout(bench: ModelBench) -> None:
    model = bench.scripted(call("EXECUTE", command="true"), {"content": "…", "wait_s": 60})
    result = await bench.run(model, made=Made(agent_s=1.5))
    assert (result.agent_end, result.agent.input_tokens) == ("timeout", 50)


# The window.


async def test_a_conversation_that_grows_too_long_leaves_its_early_turns_out(bench: ModelBench) -> None:
    longest = 0

    def answer(number: int) -> Turn:
        nonlocal longest
        size = sum(len(str(message["content"])) for message in server.requests[-1]["messages"])
        if size > 30_000:
            return declined(400, "exceeds the available context size (4096 tokens)")
        longest = max(longest, size)
        if len([request for request in server.requests if request]) < 12:
            return said(None, calls=[("EXECUTE", {"command": f"echo {number}; seq 2000"})])
        return DONE

    with ModelServer() as server:
        server.on_request = answer
        result = await bench.run(f"openai:toy@{server.url}")
        last = server.requests[-1]["messages"]
    assert (result.agent_end, longest > 20_000) == ("submitted", True)
    assert "Write 1 to /app/one.txt." in last[1]["content"]
    assert any("earlier messages are left out" in str(message["content"]) for message in last)
    pairs = [message for message in last if message["role"] in ("assistant", "tool")]
    assert [message["role"] for message in pairs] == ["assistant", "tool"] * (len(pairs) // 2)


async def test_a_reply_of_megabytes_is_kept_and_sent_back_in_part(bench: ModelBench) -> None:
    with ModelServer(said("word " * 1_000_000, calls=[("EXECUTE", {"command": "true"})]), DONE) as server:
        result = await bench.run(f"openai:toy@{server.url}")
        sent_back = server.requests[1]["messages"][2]["content"]
    assert result.agent_end == "submitted"
    assert len(sent_back) < 210_000
    assert "are not shown" in sent_back
    assert bench.attempt.trajectory.stat().st_size < 1 << 20


async def test_a_trajectory_is_on_disk_while_the_model_still_thinks(bench: ModelBench) -> None:
    seen: list[int] = []

    def answer(number: int) -> Turn:
        if number == 3:
            seen.append(len(read_trajectory(bench.attempt.trajectory).steps))
        return WRITES_ONE if number < 3 else DONE

    with ModelServer() as server:
        server.on_request = answer
        await bench.run(f"openai:toy@{server.url}")
    # The task, two replies, the terminal and the first command; the second command is saved with the next reply.
    assert seen == [5]


# The command line.


def test_a_run_with_a_scripted_model_from_the_command_line(bench: ModelBench) -> None:
    word = bench.scripted(call("EXECUTE", command="printf 'Hello, world!\\n' > /app/hello.txt"), call("TASK_COMPLETE"))
    out = str(bench.folder / "run")
    done = termarena(
        "run", "--agent", "tools", "--model", word, "--task", "*hello-world", "--out", out, "--json", cwd=bench.folder
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["solved"] == 1


@pytest.mark.parametrize(
    ("arguments", "said_so"),
    [
        (["--agent", "tools"], "the agent tools needs a model"),
        (["--agent", "tools", "--model", "gpt:5"], "no provider of models is called 'gpt'"),
        (["--agent", "tools", "--model", "openai:gpt-5-mini"], "OPENAI_API_KEY is not set"),
        (["--agent", "tools", "--model", "ollama:x@http://127.0.0.1:9/v1"], "does not answer"),
        (["--agent", "tools", "--model", "ollama:x", "--run-budget-usd", "1"], "what ollama:x costs is not known"),
        (["--agent", "oracle", "--model", "ollama:x"], "takes no model"),
    ],
)
def test_what_cannot_run_is_said_before_any_sandbox_starts(tmp_path: Path, arguments: list[str], said_so: str) -> None:
    done = termarena("run", *arguments, "--out", str(tmp_path / "run"), cwd=tmp_path, env={"OPENAI_API_KEY": ""})
    assert done.returncode in (1, 2)
    assert said_so in done.stderr
    assert not (tmp_path / "run").exists()


# Recorded models.


async def test_what_a_real_model_said_is_played_again_without_it(bench: ModelBench, tmp_path: Path) -> None:
    with ModelServer(WRITES_ONE, said(None, calls=[("EXECUTE", {"command": "date +%N"})]), DONE) as server:
        first = await bench.run(f"openai:toy@{server.url}")
    kept = tmp_path / "kept"
    bench.attempt.path.rename(kept)
    again = await bench.run(f"recorded:{kept}")
    assert (first.outcome, again.outcome, again.agent_end) == ("solved", "solved", "submitted")
    assert (again.agent.input_tokens, again.agent.commands) == (first.agent.input_tokens, first.agent.commands)
    other = await ModelBench(tmp_path / "other", bench.home).run(f"recorded:{kept}", max_steps=7)
    assert other.agent_error is not None
    assert "no conversation that begins like this one" in other.agent_error.message


async def test_a_secret_in_a_request_does_not_keep_a_recording_from_being_found(
    bench: ModelBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    made = Made(files={"instruction.md": "Write correct-horse-battery, I mean 1, to /app/one.txt."})
    with ModelServer(WRITES_ONE, DONE) as server:
        await bench.run(f"openai:toy@{server.url}", made=made)
    bench.attempt.path.rename(tmp_path / "kept")
    assert "correct-horse" not in (tmp_path / "kept" / "messages.jsonl").read_text()
    again = await bench.run(
        f"recorded:{tmp_path / 'kept'}", made=made, environ={"SOME_API_KEY": "correct-horse-battery"}
    )
    assert again.outcome == "solved"


@pytest.mark.parametrize("content", [None, "", "{", '{"direction": "sent", "content": {}}'])
def test_a_path_without_a_recording_is_told(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "messages.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError):
        RunModels(environ={}).check(f"recorded:{path}")
