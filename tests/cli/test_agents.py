"""`termarena agents` and `termarena broker`, as people and programs use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

from running import termarena
from support.model_server import ModelServer, said
from termarena.agents.registry import known_agents
from termarena.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TOML = 'name = "tiny"\nversion = "3"\ninstall = "echo hello >$PREFIX/greeting"\ncommand = "cat $PREFIX/greeting"\n'


def test_every_agent_is_listed_with_its_kind_and_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "list", "--json"]) == 0
    rows = {row["word"]: row for row in json.loads(capsys.readouterr().out)["agents"]}
    plain = {known.word for known in known_agents() if known.kind != "installed"}
    assert plain <= rows.keys()
    assert {"cli:claude-code", "cli:codex", "cli:aider", "cli:custom:FILE"} <= rows.keys()
    assert rows["cli:codex"]["kind"] == "installed"
    assert rows["cli:codex"]["needs"] == ["--model", "npm"]
    assert rows["cli:codex"]["version"]
    assert rows["nop"]["needs"] == []
    assert main(["agents", "list"]) == 0
    assert "cli:gemini-cli" in capsys.readouterr().out


def test_an_agent_is_installed_ahead_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERMARENA_HOME", str(tmp_path / "home"))
    (tmp_path / "tiny.toml").write_text(TOML)
    told = []
    for _ in range(2):
        assert main(["agents", "install", f"custom:{tmp_path / 'tiny.toml'}", "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [row["was_cached"] for row in told] == [False, True]
    assert told[0]["folder"] == told[1]["folder"]


def test_an_install_script_that_fails_stops_a_run_before_its_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERMARENA_HOME", str(tmp_path / "home"))
    (tmp_path / "bad.toml").write_text('name = "bad"\ninstall = "echo no luck; exit 9"\ncommand = "true"\n')
    with ModelServer(said("x")) as server:
        words = ["run", "--sample", "--task", "*/hello-world", "--driver", "namespace", "--out", str(tmp_path / "run")]
        agent = f"cli:custom:{tmp_path / 'bad.toml'}"
        status = main([*words, "--agent", agent, "--model", f"openai:toy@{server.url}"])
    assert status == 2
    told = capsys.readouterr().err
    assert "the agent bad cannot be installed: its install script ended with status 9" in told
    assert "no luck" in told
    assert not (tmp_path / "run").exists()


def test_an_endpoint_that_is_no_model_server_stops_a_run_before_its_first_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERMARENA_HOME", str(tmp_path / "home"))
    (tmp_path / "tiny.toml").write_text(TOML)
    with ModelServer(said("x")) as server:
        url = server.url
    agent = f"cli:custom:{tmp_path / 'tiny.toml'}"
    words = ["run", "--sample", "--task", "*/hello-world", "--driver", "namespace", "--out", str(tmp_path / "run")]
    assert main([*words, "--agent", agent, "--model", f"openai:toy@{url}"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def _only_model(told: dict[str, str]) -> str:
    asked = urllib.request.Request(f"{told['url']}/v1/models", headers={"x-api-key": told["key"]})  # noqa: S310 - our own
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - as above
        return str(json.load(answer)["data"][0]["id"])


def test_a_loop_of_ours_works_through_a_broker_of_its_own(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    calls = [{"name": "EXECUTE", "arguments": {"command": "printf 'Hello, world!\\n' >/app/hello.txt"}}]
    replies = [{"tool_calls": calls}, {"tool_calls": [{"name": "TASK_COMPLETE"}]}]
    script.write_text(json.dumps({"by_turn": True, "replies": replies}))
    recorded = tmp_path / "exchanges.jsonl"
    here = [sys.executable, "-m", "termarena"]
    environment = {**os.environ, "TERMARENA_HOME": str(tmp_path / "home")}
    with subprocess.Popen(  # noqa: S603 - our own program
        [*here, "broker", "--model", f"scripted:{script}", "--record", str(recorded), "--json"],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as serving:
        try:
            assert serving.stdout is not None
            told = json.loads("".join(iter(serving.stdout.readline, "}\n")) + "}")
            model = f"openai:{_only_model(told)}@{told['url']}/v1"
            done = subprocess.run(  # noqa: S603 - our own program
                [*here, "run", "--sample", "--task", "*/hello-world", "--driver", "namespace", "--agent", "tools",
                 "--model", model, "--out", str(tmp_path / "run")],
                env={**environment, "OPENAI_API_KEY": told["key"]}, capture_output=True, text=True, check=False,
            )  # fmt: skip
        finally:
            serving.send_signal(signal.SIGINT)
    assert serving.returncode == 0
    assert "1 solved" in done.stdout + done.stderr
    rows = [json.loads(line) for line in recorded.read_text().splitlines()]
    assert [row["status"] for row in rows] == [200, 200]
    assert told["key"] not in recorded.read_text()


def test_a_broker_whose_record_cannot_be_written_does_not_begin(tmp_path: Path) -> None:
    script = tmp_path / "model.json"
    script.write_text('{"replies": [{"content": "hello"}]}')
    done = termarena("broker", "--model", f"scripted:{script}", "--record", "no/where.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot write no/where.jsonl" in done.stderr
