"""`termarena green`, `white` and `battle` as processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from running import termarena
from support.tasks import make_task
from termarena.battles.conversation import Conversation, Patience
from termarena.cli.main import main
from termarena.core.run_folder import RunFolder
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.timeout(300)]


@contextlib.contextmanager
def serving(*words: str, env: dict[str, str], cwd: Path) -> Iterator[str]:
    """A serving command; its address. Ctrl-C ends it, with status 0."""
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "termarena", *words, "--port", "0", "--json"],
        env={**os.environ, **env},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        told: dict[str, Any] = json.loads(line)
        yield told["url"]
    finally:
        process.send_signal(signal.SIGINT)
        _, words_said = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in words_said) == (0, False), words_said


def test_a_battle_of_three_processes(tmp_path: Path, home: Path) -> None:
    make_task(tmp_path / "tasks" / "one")
    env = {"TERMARENA_HOME": str(home)}
    with (
        serving("white", "--path", "tasks", env=env, cwd=tmp_path) as white,
        serving("green", "--path", "tasks", "--out", "kept", env=env, cwd=tmp_path) as green,
    ):
        words = ("battle", "--green", green, "--white", white, "--task", "one")
        done = termarena(*words, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "1 of 1 solved, pass rate 100.0 %" in done.stdout
        assert "NONE" not in done.stdout
        assert "begins" in done.stderr
        told = termarena(*words[:-1], "two", "--json", env=env, cwd=tmp_path)
        assert told.returncode == 2
        assert json.loads(told.stderr.splitlines()[-1])["error"]["kind"] == "BattleRefused"
    (folder,) = (tmp_path / "kept").iterdir()
    assert read_run(RunFolder(folder)).history.finished_at is not None


def test_a_battle_without_a_referee(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["battle", "--green", "http://127.0.0.1:9", "--white", "http://127.0.0.1:9"]
    assert main([*words, "--json"]) == 1
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["kind"] == "AgentGone"
    assert error["hint"].endswith("termarena green")  # `green check` is for white agents
    assert main(["battle", "--green", "http://169.254.169.254", "--white", "http://127.0.0.1:9"]) == 2
    assert "refused" in capsys.readouterr().err
    assert main(["green", "check", "127.0.0.1:9019"]) == 2
    assert "http://HOST:PORT" in capsys.readouterr().err
    assert main(["green", "check", "http://127.0.0.1:9"]) == 1
    assert capsys.readouterr().err.startswith("hint: start it, or give the address that serves its card")


@pytest.mark.parametrize(
    "agent", ["human", "always-right", "a2a:http://127.0.0.1:1", "tools", "cli:codex", "script:nowhere.sh"]
)
def test_what_cannot_be_served_is_told_at_once(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["white", "--agent", agent, "--port", "0"]) == 2
    assert "hint" in capsys.readouterr().err


def test_an_agent_that_there_is_not_is_not_served(tmp_path: Path, home: Path) -> None:
    env = {"TERMARENA_HOME": str(home)}
    done = termarena("white", "--agent", "orcale", "--port", "0", env=env, cwd=tmp_path)
    assert done.returncode == 2
    assert "no agent is called 'orcale'; there is: oracle, nop" in done.stderr


@pytest.mark.parametrize("command", ["green", "white"])
def test_a_backend_that_is_down_is_told(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--port", "0", "--backend", "http://127.0.0.1:1"]) == 1
    told = capsys.readouterr().err
    assert "could not fetch http://127.0.0.1:1" in told
    assert "is the backend running?" in told


async def test_a_served_model_has_a_budget(tmp_path: Path, home: Path) -> None:
    look = {"name": "EXECUTE", "arguments": {"command": "ls"}}
    replies = [{"tool_calls": [look], "input_tokens": 99_990, "output_tokens": 20} for _ in range(3)]
    (tmp_path / "model.json").write_text(json.dumps({"replies": replies}))
    words = ("white", "--agent", "tools", "--model", "scripted:model.json", "--run-budget-tokens", "100000")
    task = {"kind": "task", "protocol": "terminal-bench-shell-v1", "instruction": "Look.", "deadline_sec": 60}
    told = {"kind": "exec_result", "exit_code": 0, "stdout": "", "turn": 1}
    with serving(*words, env={"TERMARENA_HOME": str(home)}, cwd=tmp_path) as url:
        async with Conversation(url, patience=Patience(tries=1)) as first:
            (asked,) = (await first.say(json.dumps(task))).texts
            (last,) = (await first.say(json.dumps(told))).texts
        async with Conversation(url, patience=Patience(tries=1)) as second:
            refused = await second.say(json.dumps(task))
    assert json.loads(asked)["kind"] == "exec_request"
    assert (json.loads(last)["kind"], json.loads(last)["end"]) == ("final", "resource_limit")
    assert "the run's budget of 100000 tokens is spent" in json.loads(last)["output"]
    assert (refused.state, "budget of 100000 tokens is spent" in refused.texts[0]) == ("failed", True)


def test_a_white_has_a_key_of_its_own(tmp_path: Path, home: Path) -> None:
    make_task(tmp_path / "tasks" / "one")
    env = {"TERMARENA_HOME": str(home), "TERMARENA_WHITE_KEY": "the-white-agents-own-key"}
    (tmp_path / "key").write_text("another-key-altogether\n")
    with serving("white", "--agent", "nop", env=env, cwd=tmp_path) as white:
        check = ("green", "check", white, "--json", "--patience", "60")
        told = [
            json.loads(termarena(*check, *more, env=given, cwd=tmp_path).stdout)["passed"]
            for more, given in [((), env), (("--key-file", "key"), env)]
        ]
    assert told == [True, False]


def test_a_model_that_cannot_be_asked_is_told_before_it_is_served(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    words = ["white", "--agent", "tools", "--port", "0", "--model"]
    assert main([*words, "openai:gpt-5-mini"]) == 2
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err
    assert main([*words, "scripted:nowhere.json"]) == 2
    assert "no script of a model is at" in capsys.readouterr().err


def test_a_run_with_nobody_there_does_not_begin(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERMARENA_HOME", str(home))
    run = tmp_path / "run"
    words = ["run", "--agent", "a2a:http://127.0.0.1:9", "--sample", "2", "--driver", "namespace"]
    assert main([*words, "--out", str(run), "--json"]) == 1
    told = json.loads(capsys.readouterr().err.splitlines()[-1])["error"]
    assert (told["kind"], told["address"]) == ("AgentGone", "http://127.0.0.1:9")
    assert "termarena green check http://127.0.0.1:9" in told["hint"]
    assert not run.exists()


def test_an_address_is_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--agent", "a2a:127.0.0.1:9019", "--sample", "1"]) == 2
    assert "a2a:http://127.0.0.1:9019" in capsys.readouterr().err
