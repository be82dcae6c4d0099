"""Log parsers on logs that real agents wrote here (tests/agents/logs), and on what no version has ever written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from termarena.agents.installed.logs import read_log
from termarena.core.trajectory import Step, Trajectory, TrajectoryAgent

if TYPE_CHECKING:
    from termarena.agents.installed.description import Parser

LOGS = Path(__file__).parent / "logs"
# Every log is of the same work: the model says something, writes a file in a shell and lists the folder, and is done.
REAL: list[tuple[str, Parser]] = [
    ("claude-code-1.0.100.jsonl", "claude-code"),
    ("claude-code-2.1.197.jsonl", "claude-code"),
    ("codex-0.34.0.jsonl", "codex"),
    ("codex-0.166.0.jsonl", "codex"),
    ("gemini-cli-0.61.0.jsonl", "gemini-cli"),
    ("goose-1.34.0.jsonl", "goose"),
    ("goose-1.52.0.jsonl", "goose"),
    ("opencode-1.18.33.jsonl", "opencode"),
    ("qwen-code-0.15.10.jsonl", "claude-code"),
]
# This version tells what its last answer used; all of it is what the broker meters.
OWN_COUNT = {"claude-code-1.0.100.jsonl": (950, 10)}
MINI = "mini-swe-agent-2.4.6.json"


def _text(name: str) -> str:
    return (LOGS / name).read_text(encoding="utf-8")


def _called(steps: tuple[Step, ...]) -> list[tuple[str, str]]:
    """Every call with what came of it."""
    return [
        (str(call.arguments.get("command")), str(result.content))
        for step in steps
        for call in step.tool_calls or ()
        for result in (step.observation.results if step.observation else ())
        if result.source_call_id == call.tool_call_id
    ]


@pytest.mark.parametrize(("name", "parser"), REAL)
def test_a_real_log_tells_what_was_said_done_and_used(name: str, parser: Parser) -> None:
    told = read_log(parser, _text(name))
    assert told.unknown_lines == 0
    assert told.last_words.strip() == "It is written."
    said = [str(step.message).strip() for step in told.steps if step.message]
    assert said[-2:] == ["I write it.", "It is written."]
    [(command, output)] = _called(told.steps)
    assert "/app/hello.txt" in command
    assert "hello.txt" in output
    assert (told.usage.input_tokens, told.usage.output_tokens) == OWN_COUNT.get(name, (1850, 40))


@pytest.mark.parametrize(("name", "parser"), REAL)
def test_steps_of_a_log_make_a_trajectory(name: str, parser: Parser) -> None:
    steps = [step.model_copy(update={"step_id": n}) for n, step in enumerate(read_log(parser, _text(name)).steps, 1)]
    made = Trajectory(agent=TrajectoryAgent(name="x", version="1"), steps=tuple(steps))
    assert Trajectory.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(("name", "parser"), REAL)
@pytest.mark.parametrize(
    "line", ['{"type": "an event of next year", "text": "hello"}', "Warning: something happened", "[1, 2]", '{"cut off']
)
def test_an_unknown_line_is_kept_in_its_place(name: str, parser: Parser, line: str) -> None:
    lines = _text(name).splitlines()
    told = read_log(parser, "\n".join([*lines[:1], line, *lines[1:]]))
    assert told.unknown_lines == 1
    [kept] = [step for step in told.steps if step.extra and "unknown" in step.extra]
    assert str(kept.message) in (line, json.dumps(json.loads(line)) if line.endswith("}") else line)
    assert len(told.steps) == len(read_log(parser, _text(name)).steps) + 1


@pytest.mark.parametrize(("name", "parser"), REAL)
def test_a_log_cut_anywhere_is_read_as_far_as_it_goes(name: str, parser: Parser) -> None:
    text = _text(name)
    whole = len(read_log(parser, text).steps)
    for end in range(0, len(text), 37):
        assert len(read_log(parser, text[:end]).steps) <= whole + 1


ODD = [
    "null", "1", '"x"', "{}", '{"type": null}', '{"type": "assistant"}', '{"type": "assistant", "message": 1}',
    '{"type": "assistant", "message": {"content": [1, null, {"type": "tool_use"}]}}', '{"type": "user", "message": {}}',
    '{"type": "item.completed"}', '{"type": "item.completed", "item": {"type": 5}}', '{"msg": {"type": 1}}',
    '{"msg": {"type": "exec_command_end", "call_id": 4}}', '{"type": "turn.completed", "usage": {"input_tokens": "x"}}',
    '{"type": "tool_use"}', '{"type": "tool_use", "part": {"state": 1}}', '{"type": "tool_result"}',
    '{"type": "step_finish", "part": {"tokens": [], "cost": "x"}}', '{"type": "result", "stats": 1, "usage": 2}',
    '{"type": "message", "message": {"role": "assistant", "content": [{"type": "toolRequest", "toolCall": 1}, 5]}}',
    '{"type": "message", "message": {"role": "user", "content": [{"type": "toolResponse", "toolResult": 1}]}}',
    '{"type": "item.completed", "item": {"type": "mcp_tool_call", "result": {"content": [1]}, "error": "x"}}',
    '{"messages": [1, {"role": "tool"}, {"role": "assistant", "tool_calls": [{}]}, {"role": "odd"}]}', "[" * 5000,
    '{"type": []}', '{"msg": {"type": {}}}',
    '{"type": "assistant", "message": {"model": [], "content": [{"type": "text"}]}}',
    '{"type": "step_finish", "part": {"cost": 1' + "0" * 400 + "}}",
    '{"type": "result", "total_cost_usd": 1' + "0" * 400 + "}",
    '{"messages": [{"role": "assistant", "tool_calls": 5}]}', '{"type": "odd", "deep": ' + "[" * 400 + "]" * 400 + "}",
    '{"type": "item.completed", "item": {"type": "agent_message", "text": "half a smile: \\ud83d"}}',
    '{"type": "assistant", "message": {"content": [{"type": "text", "text": "half a smile: \\uD83D"}]}}',
    '{"type": "message", "message": {"role": "assistant", "content": [{"type": "text", "text": "\\ud83d"}]}}',
    '{"messages": [{"role": "assistant", "content": "half a smile: \\ud83d"}]}',
]  # fmt: skip


@pytest.mark.parametrize("parser", ["claude-code", "codex", "goose", "opencode", "gemini-cli", "mini-swe-agent"])
@pytest.mark.parametrize("line", ODD, ids=range(len(ODD)))
def test_nothing_that_an_agent_writes_makes_a_parser_fail(parser: Parser, line: str) -> None:
    told = read_log(parser, line)
    assert all(Step.model_validate_json(step.model_dump_json()) for step in told.steps)


def test_a_trajectory_of_mini_swe_agent_tells_the_same() -> None:
    told = read_log("mini-swe-agent", _text(MINI))
    assert told.unknown_lines == 0
    assert [str(step.message) for step in told.steps][:2] == ["I write it.", "Done."]
    calls = _called(told.steps)
    assert "/app/hello.txt" in calls[0][0]
    assert "hello.txt" in calls[0][1]
    assert told.steps[0].metrics is not None
    assert told.steps[0].metrics.prompt_tokens == 900
    assert told.last_words == "Submitted"


def test_codex_tells_what_a_tool_of_an_mcp_server_gave() -> None:
    told = read_log("codex", _text("codex-0.166.0-mcp.jsonl"))
    [(call, result)] = [
        (call, result)
        for step in told.steps
        for call in step.tool_calls or ()
        for result in (step.observation.results if step.observation else ())
    ]
    assert (call.function_name, call.arguments) == ("mcp__numbers__write_number", {"number": 1})
    assert (result.content, told.unknown_lines) == ("the number 1 is in its place", 0)


def test_answers_that_mini_swe_agent_could_not_use_are_its_models_all_the_same() -> None:
    """A log of its work with a model that is too small to call a tool."""
    told = read_log("mini-swe-agent", _text("mini-swe-agent-2.4.6-refused.json"))
    *said, ended = told.steps
    assert [step.metrics.prompt_tokens for step in said if step.metrics] == [888, 1034, 1092]
    assert str(said[0].message).startswith("I'm ready to assist.")
    assert "No tool calls found" in (said[0].extra or {})["refused"]
    assert all(not step.tool_calls for step in told.steps)
    assert (ended.message, told.last_words, told.unknown_lines) == ("RepeatedFormatError", "RepeatedFormatError", 0)


def test_a_trajectory_of_mini_swe_agent_without_calls_is_read_too() -> None:
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "the task"},
        {"role": "assistant", "content": "THOUGHT: look\n```bash\nls\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.txt\n</output>"},
    ]
    [step] = read_log("mini-swe-agent", json.dumps({"messages": messages})).steps
    assert _called((step,)) == [("THOUGHT: look\n```bash\nls\n```", messages[3]["content"])]


def test_without_a_parser_there_are_no_steps() -> None:
    assert read_log("none", "some text").steps == ()
    assert read_log("codex", "  \n").steps == ()
