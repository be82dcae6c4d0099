"""`terminal-bench` as a user types it: a process of its own, real sandboxes, real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elizaos_terminal_bench.cli import main
from running import PATIENCE_S
from support.folders import harbor, simple
from support.tasks import Made, make_task

COMMAND = Path(sys.executable).with_name("terminal-bench")
SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One home for all tests here, so that the root file system is prepared once; and no engine anywhere."""
    home = {"TERMARENA_HOME": str(tmp_path_factory.mktemp("home")), "DOCKER_HOST": "unix:///nowhere.sock"}
    return {**os.environ, **home}


@pytest.fixture
def inside(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> pytest.CaptureFixture[str]:
    """The command line in this very process, for what needs none of its own."""
    for name in ("TERMARENA_HOME", "DOCKER_HOST"):
        monkeypatch.setenv(name, env[name])
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return capsys


def run(*words: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return run_program([str(COMMAND), *words], env=env, cwd=cwd)


def run_program(words: list[str], *, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own program
        words, cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.needs("user-namespaces")
def test_samples_run_with_their_reference_solutions(env: dict[str, str], tmp_path: Path) -> None:
    done = run("--sample", "--oracle", "--verbose", "--task-ids", "hello-world", "log-sessions", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Accuracy: 100.0 %\nPassed: 2/2\n" in done.stdout
    assert "Leaderboard Rank: none (nothing was published on samples" in done.stdout
    assert "started   termarena/hello-world" in done.stderr
    folder = tmp_path / "benchmark_results" / "terminal-bench"
    report = read(only(folder, "terminal-bench-*.json"))
    assert set(report) == {
        "metadata", "summary", "leaderboard_comparison", "by_category", "by_difficulty", "error_categories", "results",
    }  # fmt: skip
    assert {"timestamp", "version", "model", "max_iterations", "sample_tasks"} <= set(report["metadata"])
    assert (report["metadata"]["sample_tasks"], report["metadata"]["version"]) == (True, None)
    summary = report["summary"]
    assert (summary["total_tasks"], summary["passed_tasks"], summary["accuracy"]) == (2, 2, 1.0)
    assert summary["total_commands"] == sum(row["commands_executed"] for row in report["results"]) > 0
    assert summary["total_tokens"] is None, "unknown is never zero"
    assert report["by_category"]["file_operations"]["passed"] == 1
    assert [row["test_exit_code"] for row in report["results"]] == [0, 0]
    assert report["leaderboard_comparison"]["rank"] is None
    text = only(folder, "terminal-bench-*.md").read_text()
    for section in ("Summary", "Leaderboard Comparison", "Results by Category", "Task Results", "Configuration"):
        assert f"## {section}\n" in text
    sessions = only(folder, "sessions-*")
    assert sorted(path.name for path in sessions.iterdir()) == ["hello-world.json", "log-sessions.json"]
    session = read(sessions / "hello-world.json")
    assert session["task_id"] == "termarena/hello-world"
    assert session["commands"][0]["command"] == "/solution/solve.sh"
    assert session["commands"][0]["exit_code"] == 0
    assert (only(folder, "terminal-bench-*[0-9]") / "journal.jsonl").is_file()


@pytest.mark.needs("user-namespaces")
def test_tasks_of_elizaos_run_from_a_data_path(env: dict[str, str], tmp_path: Path) -> None:
    simple(tmp_path / "data" / "a")
    harbor(tmp_path / "data" / "b", task_toml="schema_version = 7\n[")
    words = ["--data-path", "data", "--oracle", "--output-dir", "out", "--no-markdown", "--no-sessions"]
    done = run(*words, "--no-leaderboard", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Passed: 1/2, 1 unscored" in done.stdout
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == ["", ".json"]
    report = read(only(tmp_path / "out", "*.json"))
    assert report["leaderboard_comparison"] is None
    assert report["error_categories"] == {"TASK_FAULT": 1}, "what does not load is told, and is nobody's zero"
    assert report["summary"]["failed_tasks"] == 0


@pytest.mark.needs("user-namespaces")
def test_ctrl_c_ends_with_130_and_no_report(env: dict[str, str], tmp_path: Path) -> None:
    make_task(tmp_path / "data" / "slow", Made(solution="sleep 600\n", agent_s=600))
    words = [str(COMMAND), "--data-path", "data", "--oracle", "-v", "--output-dir", "out"]
    process = subprocess.Popen(  # noqa: S603 - our own program
        words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stderr is not None
        assert "started   slow" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "termarena resume" in told
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [""]


@pytest.mark.needs("user-namespaces")
def test_single_exits_by_its_outcome(inside: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, solution in (("good", "echo 1 >/app/one.txt\n"), ("bad", "true\n")):
        make_task(tmp_path / "data" / name, Made(solution=solution))
    words = ["--data-path", "data", "--oracle", "--single"]
    assert {name: main([*words, name]) for name in ("good", "bad")} == {"good": 0, "bad": 1}
    assert "TEST_FAILED: 1" in inside.readouterr().out


@pytest.mark.needs("user-namespaces")
def test_a_model_is_asked(inside: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    make_task(tmp_path / "data" / "one")
    said: list[dict[str, object]] = [
        {"tool_calls": [{"name": "EXECUTE", "arguments": {"command": "echo 1 >/app/one.txt"}}]},
        {"tool_calls": [{"name": "TASK_COMPLETE"}]},
    ]
    replies = [{**reply, "input_tokens": 10, "output_tokens": 2} for reply in said]
    (tmp_path / "model.json").write_text(json.dumps({"replies": replies}))
    words = ["--data-path", "data", "--model", "scripted:model.json", "--max-iterations", "5", "--output-dir", "out"]
    assert main(words) == 0, inside.readouterr().err
    assert "Agent: tools with scripted:model.json, on data\nAccuracy: 100.0 %" in inside.readouterr().out
    report = read(only(tmp_path / "out", "*.json"))
    assert (report["metadata"]["model"], report["metadata"]["max_iterations"]) == ("scripted:model.json", 5)
    assert report["summary"]["total_tokens"] == 24
    session = read(only(tmp_path / "out", "sessions-*/one.json"))
    assert "echo 1 >/app/one.txt" in [command["command"] for command in session["commands"]]


@pytest.mark.parametrize(
    "words", [("--sample", "--dry-run"), ("--sample", "--oracle", "--dry-run", "--single", "*-w*")]
)
def test_a_dry_run_writes_nothing(words: tuple[str, ...], inside: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(words) == 0
    told = inside.readouterr().out
    assert "hello-world" in told
    assert "nothing was started and nothing was written" in told
    assert "Accuracy" not in told
    assert list(tmp_path.iterdir()) == []


def test_categories_difficulties_and_a_number_choose_tasks(inside: pytest.CaptureFixture[str]) -> None:
    words = ["--sample", "--dry-run", "--difficulties", "easy", "medium", "--max-tasks", "2"]
    assert main([*words, "--categories", "scripting", "code_compilation"]) == 0
    chosen = [line.split()[0] for line in inside.readouterr().out.splitlines() if line.startswith("termarena/")]
    assert chosen == ["termarena/backup-rotate", "termarena/broken-build"]


# ElizaOS warns and runs everything, takes 0 for no limit, and falls back to the samples.
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--sample", "--oracle", "--categories", "scriptng"],
            "no task has the category scriptng; there is: code_comp",
        ),
        (["--sample", "--oracle", "--difficulties", "trivial"], "no task has the difficulty trivial"),
        (["--sample", "--oracle", "--task-ids", "sample_001"], "no task is called sample_001"),
        (["--sample", "--oracle", "--max-tasks", "0"], "max_tasks must be greater than zero"),
        (["--oracle"], "the dataset terminal-bench@2.0 is not here yet"),
        (["--oracle", "--version", "1.7"], "terminal-bench has no version 1.7"),
        (["--oracle", "--data-path", "./terminal-bench-data"], "there is no file or folder ./terminal-bench-data"),
        (["--oracle", "--data-path", ".", "--sample"], "two sets of tasks"),
        (["--oracle", "--sample", "--version", "2.0"], "--version is for the public dataset"),
        (["--sample", "--model", "gpt-4o-mini"], "OPENAI_API_KEY"),
        (["--sample", "--model", "m", "--model-provider", "anthropic"], "ANTHROPIC_API_KEY"),
        (["--sample", "--model", "m", "--model-provider", "eliza"], "no provider of models is called 'eliza'"),
        (["--sample", "--model", "scripted:nowhere.json"], "no script of a model is at nowhere.json"),
        (["--sample", "--oracle", "--temperature", "0.5"], "temperature is for an agent with a model"),
        (["--sample", "--agent-harness", "tools-text"], "tools-text needs a model"),
        (["--sample", "--oracle", "--model", "x"], "oracle and model_name name two agents"),
        (["--sample", "--agent-harness", "hermes"], "no harness is called hermes; there is: always-right"),
        (["--sample", "--mock"], "--mock: nothing pretends"),
        (["--sample", "--network-mode", "bridge"], "--network-mode: every task says"),
        (["--sample", "--expand-scenarios"], "is not another task"),
        (["--sample", "--nonsense"], "unrecognized arguments: --nonsense"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_asked_for_is_told_before_anything_starts(
    words: list[str], told: str, inside: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    try:
        status = main(words)
    except SystemExit as end:
        status = int(str(end.code))
    assert status == 2
    assert told in inside.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_old_script_takes_its_own_flags(env: dict[str, str], tmp_path: Path) -> None:
    script = [sys.executable, str(SCRIPTS / "run_benchmark.py")]
    done = run_program([*script, "--sample", "--filter", "hello-world, nothing-like-it", "-q"], env=env, cwd=tmp_path)
    assert (done.returncode, "no task is called nothing-like-it" in done.stderr) == (2, True)


def test_the_docker_script_says_what_is_wrong(env: dict[str, str], tmp_path: Path) -> None:
    done = run_program([sys.executable, str(SCRIPTS / "test_docker.py"), "--run"], env=env, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("engine: missing: ")
    assert "hint: " in done.stderr
    assert list(tmp_path.iterdir()) == []
