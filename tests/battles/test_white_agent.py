"""`--agent a2a:URL`: every manner of speaking, and every way to misbehave."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from battles.hostile import hostile_at
from battles.whites import FINAL, SOLVES, White, white_at
from support.tasks import LOOKS_FOR_ONE, Made
from termarena.battles import conversation, white_agent

if TYPE_CHECKING:
    from support.trials import Bench
    from termarena.runs.result import TrialResult

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent here is to be waited for."""
    usual = white_agent.WhiteOptions
    patience = conversation.Patience(first_contact_s=1.0, tries=2, wait_s=0.01)
    monkeypatch.setattr(white_agent, "WhiteOptions", lambda **given: replace(usual(**given), patience=patience))


async def fight(bench: Bench, white: White, made: Made | None = None) -> TrialResult:
    async with white_at(white) as url:
        return await bench.run(f"a2a:{url}", made)


STYLES = ["status", "message", "artifact", "data", "fenced", "input-required", "chunks"]


@pytest.mark.parametrize("style", STYLES)
async def test_every_style_of_reply_is_read(bench: Bench, style: str) -> None:
    white = White(style=style)
    result = await fight(bench, white)
    assert (result.outcome, result.agent_end, result.agent.message) == ("solved", "submitted", "done")
    told = [table["kind"] for table in white.heard]
    assert told == ["task", "exec_result"]


async def test_an_exception_in_the_agent_is_an_error_of_the_agent(bench: Bench) -> None:
    result = await fight(bench, White(style="exception"))
    assert (result.outcome, result.agent_end, result.failure_mode) == ("unsolved", "error", "AGENT_ERROR")
    assert result.agent_error is not None
    assert result.agent_error.kind == "AgentUnreachable"


async def test_work_that_is_done_counts_even_if_the_agent_then_breaks(bench: Bench) -> None:
    def breaks(turn: int, _text: str) -> dict[str, Any]:
        if turn > 1:
            raise RuntimeError("gone")
        return SOLVES

    result = await fight(bench, White(breaks))
    assert (result.outcome, result.agent_end) == ("solved", "error")


async def test_state_stays_and_time_is_told(bench: Bench) -> None:
    commands = ["cd /tmp; export A=7; sleep 300 & echo started", "echo $A $PWD $(jobs | wc -l)", SOLVES["command"]]

    def says(turn: int, _text: str) -> dict[str, Any]:
        more = commands[turn - 1] if turn <= len(commands) else None
        return FINAL if more is None else {"kind": "exec_request", "command": more}

    white = White(says)
    result = await fight(bench, white)
    task, _, second, _ = white.heard
    assert result.outcome == "solved"
    assert (task["protocol"], task["task_id"], task["cwd"]) == ("terminal-bench-shell-v1", "task", "/app")
    assert (second["exit_code"], second["stdout"], second["stderr"]) == (0, "7 /tmp 1\n", "")
    assert 0 < second["time_left_sec"] <= task["deadline_sec"] <= 30


async def test_a_command_that_takes_too_long_is_124_and_the_battle_goes_on(bench: Bench) -> None:
    def says(turn: int, _text: str) -> dict[str, Any]:
        late = {"kind": "exec_request", "command": "echo partial; sleep 100", "timeout": "0.3"}
        return [late, SOLVES, FINAL][turn - 1]

    white = White(says)
    result = await fight(bench, white)
    assert result.outcome == "solved"
    assert (white.heard[1]["exit_code"], white.heard[1]["timed_out"]) == (124, True)
    assert "partial" in white.heard[1]["stdout"]


async def test_long_output_is_cut_and_says_so(bench: Bench) -> None:
    white = White(lambda turn, _: {"kind": "exec_request", "command": "seq 1000000"} if turn == 1 else FINAL)
    await fight(bench, white)
    told = white.heard[1]
    assert told["truncated"] is True
    assert told["total_bytes"] > 6_000_000
    assert len(told["stdout"]) < 70_000
    assert told["stdout"].startswith("1\n2\n")
    assert told["stdout"].endswith("1000000\n")


# What a reply can be that is no request, with what is asked for then.
MALFORMED = {
    "words": ("I would list the files first.", "not_json"),
    "no kind": ('{"command": "ls"}', "not_json"),
    "unknown kind": ('{"kind": "dance"}', "unknown_kind"),
    "no command": ('{"kind": "exec_request"}', "bad_request"),
    "empty": ('{"kind": "exec_request", "command": " "}', "bad_request"),
    "deep": ("[" * 100_000, "not_json"),
    "bad base64": ('{"kind": "write_file", "path": "/app/x", "content": "%", "encoding": "base64"}', "bad_request"),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_reply_gets_a_hint_then_the_work_is_judged(bench: Bench, name: str) -> None:
    said, code = MALFORMED[name]
    white = White(lambda turn, _: SOLVES if turn == 1 else said)
    result = await fight(bench, white)
    assert (result.outcome, result.agent_end) == ("solved", "parse_error")
    assert (white.heard[2]["kind"], white.heard[2]["code"]) == ("error", code)
    assert "final" in white.heard[2]["expected"]


async def test_a_hint_helps(bench: Bench) -> None:
    white = White(lambda turn, _: ["hm", SOLVES, "hm", FINAL][turn - 1])
    result = await fight(bench, white)
    assert (result.outcome, result.agent_end) == ("solved", "submitted")


async def test_a_wrong_solution_names_the_tests_that_failed(bench: Bench) -> None:
    tests = (
        "#!/bin/sh\nmkdir -p /logs/verifier\n"
        'echo \'{"results":{"tests":[{"name":"is_one","status":"failed"},{"name":"exists","status":"passed"}]}}\''
        " >/logs/verifier/ctrf.json\n" + LOOKS_FOR_ONE.removeprefix("#!/bin/sh\n")
    )
    white = White(lambda turn, _: {"kind": "exec_request", "command": "echo 2 >one.txt"} if turn == 1 else FINAL)
    result = await fight(bench, white, Made(tests=tests))
    assert (result.outcome, result.failure_mode) == ("unsolved", "TEST_FAILED")
    assert result.verdict is not None
    assert [test.name for test in result.verdict.tests if test.state == "failed"] == ["is_one"]


async def test_too_much_memory_is_the_agents_own_limit(bench: Bench) -> None:
    eats = "tail /dev/zero"
    white = White(lambda turn, _: {"kind": "exec_request", "command": eats, "timeout": 20} if turn == 1 else FINAL)
    result = await fight(bench, white, Made(memory_mb=64))
    assert result.outcome == "unsolved"
    assert white.heard[1]["exit_code"] not in (0, 124)
    assert result.metrics["sandbox"]["oom_kills"] > 0


async def test_files_beside_commands(bench: Bench) -> None:
    asks: list[dict[str, Any]] = [
        {"kind": "write_file", "path": "one.txt", "content": "MQo=", "encoding": "base64"},
        {"kind": "read_file", "path": "/app/one.txt"},
        {"kind": "list_dir"},
        {"kind": "read_file", "path": "/proc/1/environ"},
        {"kind": "read_file", "path": "../../../etc/shadow-of-the-host"},
        {"kind": "keys", "keys": ["no-such-key"]},
        {"kind": "keys", "text": "echo $((20+22))\n", "wait": 5},
        FINAL,
    ]
    white = White(lambda turn, _: asks[turn - 1])
    result = await fight(bench, white)
    assert result.outcome == "solved"
    _, written, read, listed, kernel, outside, no_key, keys = white.heard
    assert (written["size_bytes"], read["content"], listed["entries"]) == (2, "1\n", ["one.txt"])
    assert (kernel["code"], outside["code"], no_key["code"]) == ("file_error", "file_error", "no_such_key")
    assert "42" in keys["screen"]


async def test_what_the_agent_says_it_used_is_kept(bench: Bench) -> None:
    used = {"input_tokens": 1200, "output_tokens": 34.0, "cost_usd": 0.01}
    white = White(lambda turn, _: SOLVES if turn == 1 else {**FINAL, "usage": used}, style="data")
    result = await fight(bench, white)
    assert (result.agent.input_tokens, result.agent.output_tokens, result.agent.cost_usd) == (1200, 34, 0.01)


@pytest.mark.parametrize(
    ("said", "kept"), [("resource_limit", "resource_limit"), ("solved", "submitted"), ([], "submitted")], ids=str
)
async def test_why_the_agent_ends_is_kept_where_it_says_so(bench: Bench, said: object, kept: str) -> None:
    result = await fight(bench, White(lambda _turn, _text: {**FINAL, "end": said}))
    assert (result.outcome, result.agent_end) == ("unsolved", kept)


@pytest.mark.parametrize(
    "manner", ["hangs-up", "error", "breaks-off", "deep", "floods", "endless-line", "garbage", "nonsense"]
)
async def test_whatever_is_at_the_other_end_the_trial_has_an_outcome(bench: Bench, manner: str) -> None:
    async with hostile_at(manner) as hostile:
        result = await bench.run(f"a2a:{hostile.url}")
    assert (result.outcome, result.agent_end, result.fault) == ("unsolved", "error", None)
    assert result.agent_error is not None
    assert result.agent_error.kind == "AgentUnreachable"
    assert hostile.asked >= 1


@pytest.mark.parametrize("manner", ["other-context", "twice"])
async def test_an_answer_with_odd_marks_is_still_an_answer(bench: Bench, manner: str) -> None:
    async with hostile_at(manner) as hostile:
        result = await bench.run(f"a2a:{hostile.url}")
    assert (result.agent_end, hostile.asked) == ("submitted", 1)


async def test_one_that_never_answers_runs_out_of_its_own_time(bench: Bench) -> None:
    async with hostile_at("silent") as hostile:
        result = await bench.run(f"a2a:{hostile.url}", Made(agent_s=1.0))
    assert (result.outcome, result.agent_end, result.failure_mode) == ("unsolved", "timeout", "AGENT_TIMEOUT")


async def test_with_nobody_there_nothing_was_measured(bench: Bench) -> None:
    result = await bench.run("a2a:http://127.0.0.1:9")
    assert (result.outcome, result.agent_end, result.fault) == ("unscored", None, "infra")
    assert result.fault_detail is not None
    assert (result.fault_detail.kind, result.fault_detail.is_retriable) == ("AgentGone", True)
    assert "green check" in (result.fault_detail.hint or "")


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_gateway_that_answers_for_the_card_is_nobodys_failure(bench: Bench, status: int) -> None:
    async with hostile_at(f"card-{status}") as hostile:
        result = await bench.run(f"a2a:{hostile.url}")
    assert (result.outcome, result.agent_end, result.fault) == ("unscored", None, "infra")
    assert result.fault_detail is not None
    assert (result.fault_detail.kind, result.fault_detail.is_retriable) == ("AgentGone", True)
    assert f"status {status}" in result.fault_detail.message


async def test_an_agent_whose_card_breaks_has_failed(bench: Bench) -> None:
    async with hostile_at("card-500") as hostile:
        result = await bench.run(f"a2a:{hostile.url}")
    assert (result.outcome, result.agent_end, result.fault) == ("unsolved", "error", None)


@pytest.mark.parametrize(("manner", "asked"), [("leaves", 1), ("leads-away", 2)])
async def test_one_that_leaves_when_it_has_heard_the_task_has_failed(bench: Bench, manner: str, asked: int) -> None:
    async with hostile_at(manner) as hostile:
        result = await bench.run(f"a2a:{hostile.url}")
    assert (result.outcome, result.agent_end, hostile.asked) == ("unsolved", "error", asked)
    assert result.agent_error is not None
    assert result.agent_error.kind == "AgentGone"


async def test_the_folder_has_the_messages_and_no_secret(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMARENA_WHITE_KEY", "correct-horse-battery")
    white = White(
        lambda turn, _: {"kind": "exec_request", "command": "echo correct-horse-battery"} if turn == 1 else FINAL
    )
    await fight(bench, white)
    for path in bench.attempt.path.rglob("*.*"):
        if path.name != "state.snapshot":  # the sandbox's own files: there the agent wrote it
            assert b"correct-horse-battery" not in path.read_bytes(), path
    rows = [json.loads(line) for line in bench.attempt.messages.read_text().splitlines()]
    assert sum(row["direction"] == "sent" for row in rows) == 2
