"""The runner from Python: both ways to make one, asyncio, results, sessions, baselines."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from elizaos_terminal_bench import (
    TaskCategory,
    TaskDifficulty,
    TerminalBenchConfig,
    TerminalBenchDataset,
    TerminalBenchRunner,
    run_terminal_bench,
)
from elizaos_terminal_bench.types import CommandStatus
from support.tasks import Made, make_task
from termarena.core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.models.elizaos import GenerateOptions

SPEAKS = "echo 1 >/app/one.txt; echo said; echo warned >&2\n"
TELLS = "#!/bin/sh\necho TEST-SECRET\ngrep -qx 1 /app/one.txt && echo 1 >/logs/verifier/reward.txt\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_task(tmp_path / "data" / "one", Made(solution=SPEAKS, tests=TELLS))
    make_task(tmp_path / "data" / "two", Made(solution="false\n"))
    return tmp_path / "data"


@pytest.mark.needs("user-namespaces")
async def test_a_config_makes_a_runner(data: Path, home: Path, tmp_path: Path) -> None:
    config = TerminalBenchConfig(data_path=data, output_dir=tmp_path / "out", cache_dir=home, oracle=True)
    runner = TerminalBenchRunner(config=config)
    await runner.setup()
    report = await runner.run(categories=[TaskCategory.SCRIPTING], difficulties=[TaskDifficulty.EASY])
    assert (report.total_tasks, report.passed_tasks, report.failed_tasks, report.accuracy) == (2, 1, 1, 0.5)
    assert report.by_category[TaskCategory.SCRIPTING].accuracy == 0.5
    assert [(each.task_id, each.success, each.error_message) for each in report.results] == [
        ("one", True, None),
        ("two", False, "TEST_FAILED"),
    ]
    assert report.error_categories == {"TEST_FAILED": 1}
    assert report.leaderboard_comparison is not None
    assert report.leaderboard_comparison.rank is None
    assert not report.leaderboard_comparison
    assert report.total_commands == sum(each.commands_executed for each in report.results)


@pytest.mark.needs("user-namespaces")
async def test_sessions_hold_both_streams_and_no_test_output_reaches_the_agent(
    data: Path, home: Path, tmp_path: Path
) -> None:
    config = TerminalBenchConfig(data_path=data, output_dir=tmp_path / "out", cache_dir=home, oracle=True)
    result = await TerminalBenchRunner(config=config).run_single("one")
    assert result.session is not None
    command = result.session.commands[0]
    assert (command.stdout, command.stderr, command.exit_code) == ("said\n", "warned\n", 0)
    assert command.status is CommandStatus.SUCCESS
    assert command.execution_time_ms > 0
    assert result.test_output == "TEST-SECRET\n"
    (trajectory,) = (tmp_path / "out").glob("terminal-bench-*/trials/one/attempt-1/trajectory.json")
    assert "TEST-SECRET" not in trajectory.read_text()
    (session,) = (tmp_path / "out").glob("sessions-*/one.json")
    assert json.loads(session.read_text())["commands"][0]["stderr"] == "warned\n"


@pytest.mark.needs("user-namespaces")
def test_two_paths_make_a_runner_and_the_oracle_is_announced(
    data: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TERMARENA_HOME", str(home))
    runner = TerminalBenchRunner(runtime=None, data_path=data, output_path=tmp_path / "out")
    with caplog.at_level(logging.WARNING, logger="elizaos_terminal_bench"):
        logging.getLogger("elizaos_terminal_bench").propagate = True
        report = asyncio.run(runner.run(task_ids=["one"]))
    assert (report.accuracy, report.metadata["agent"]) == (1.0, "oracle")
    assert "no model and no harness was named" in caplog.text
    assert len(list((tmp_path / "out").glob("terminal-bench-*.json"))) == 1


@pytest.mark.parametrize(
    ("harness", "accuracy"), [("always-right", 1.0), ("always-wrong", 0.0), ("random", pytest.approx(0.5, abs=0.5))]
)
async def test_baselines_run_without_any_sandbox(harness: str, accuracy: float, data: Path, tmp_path: Path) -> None:
    config = TerminalBenchConfig(data_path=data, output_dir=tmp_path / "out", agent_harness=harness)
    report = await run_terminal_bench(config)
    assert report.accuracy == accuracy
    assert report.leaderboard_comparison is not None
    assert any("not an agent" in reason for reason in report.leaderboard_comparison.not_ranked)


async def test_two_runs_of_one_second_do_not_share_files(data: Path, tmp_path: Path) -> None:
    config = TerminalBenchConfig(data_path=data, output_dir=tmp_path / "out", agent_harness="always-right")
    for _ in range(3):
        await run_terminal_bench(config)
    assert len(list((tmp_path / "out").glob("terminal-bench-*.json"))) == 3


async def test_a_dry_run_has_no_results_and_no_files(data: Path, tmp_path: Path) -> None:
    runner = TerminalBenchRunner(
        config=TerminalBenchConfig(data_path=data, output_dir=tmp_path / "out", oracle=True, dry_run=True)
    )
    report = await runner.run()
    assert (report.results, report.accuracy, report.leaderboard_comparison) == ([], None, None)
    assert report.metadata["dry_run"] is True
    assert not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="no result"):
        await runner.run_single("one")


@dataclass
class Answer:
    text: str


class Runtime:
    """What is asked of an ElizaOS runtime; its model knows two answers."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def generate_text(self, input_text: str, options: GenerateOptions | None = None) -> Answer:
        assert options is not None
        assert options.temperature == 0.25
        self.asked.append(input_text)
        done = "ACTION: TASK_COMPLETE"
        return Answer("ACTION: EXECUTE\nCOMMAND: echo 1 >/app/one.txt" if len(self.asked) == 1 else done)


@pytest.mark.needs("user-namespaces")
async def test_the_model_of_a_runtime_is_asked(data: Path, home: Path, tmp_path: Path) -> None:
    runtime = Runtime()
    config = TerminalBenchConfig(data_path=data, output_dir=tmp_path / "out", cache_dir=home, temperature=0.25)
    report = await TerminalBenchRunner(runtime, config).run(task_ids=["one"])
    assert (report.accuracy, report.metadata["model"]) == (1.0, "elizaos:runtime")
    assert report.total_tokens is None, "a runtime does not tell its tokens"
    assert len(runtime.asked) == 2
    assert "Write 1 to /app/one.txt." in runtime.asked[0]
    assert "TEST-SECRET" not in "".join(runtime.asked)


def test_two_forms_at_once_are_refused(data: Path) -> None:
    with pytest.raises(UsageError, match="say the same things"):
        TerminalBenchRunner(config=TerminalBenchConfig(), data_path=data)
    with pytest.raises(UsageError, match="two models"):
        TerminalBenchRunner(Runtime(), TerminalBenchConfig(model_name="gpt-5-mini"))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"memory_limit": "4g"}, "memory_limit cannot be set"),
        ({"docker_image": "ubuntu:22.04"}, "docker_image cannot be set"),
        ({"categories": []}, "categories is empty"),
        ({"max_tasks": 0}, "greater than zero"),
        ({"parallel_tasks": -1}, "greater than zero"),
        ({"agent_harness": "openclaw"}, "no harness is called openclaw"),
        ({"oracle": True, "model_name": "m"}, "two agents"),
        ({"agent_harness": "random", "model_name": "m"}, "two agents"),
        ({"model_provider": "groq"}, "needs a model_name"),
        ({"max_tokens": 4096}, "max_tokens cannot be set"),
    ],
)
def test_a_field_that_would_have_no_effect_is_refused(fields: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        TerminalBenchConfig(**fields)  # type: ignore[arg-type]  # what the test is about


async def test_an_unknown_field_value_is_refused_before_anything_starts(data: Path, tmp_path: Path) -> None:
    config = TerminalBenchConfig(data_path=data, output_dir=tmp_path / "out", oracle=True, execution_backend="tmux")
    with pytest.raises(NotFound, match="no driver is called tmux"):
        await TerminalBenchRunner(config=config).run()
    assert not (tmp_path / "out").exists()


async def test_the_samples_load_as_a_dataset() -> None:
    dataset = TerminalBenchDataset(use_sample_tasks=True)
    with pytest.raises(UsageError, match="not loaded"):
        _ = dataset.source
    await dataset.load()
    assert len(dataset) == len(dataset.tasks) == len(dataset.source.tasks) > 10
    hello = dataset.get_task("hello-world")
    assert hello is not None
    assert (hello.category, hello.difficulty) == (TaskCategory.FILE_OPERATIONS, TaskDifficulty.EASY)
    assert "hello.txt" in hello.instruction
    assert hello.test_script.startswith("#!")
    assert [task.category for task in dataset.get_tasks_by_category("database")] == [TaskCategory.DATABASE] * 2
    assert [task.category.value for task in dataset.get_tasks_by_category("git")] == ["git"]
    statistics = dataset.get_statistics()
    assert isinstance(statistics["by_difficulty"], dict)
    assert sum(statistics["by_difficulty"].values()) == statistics["total_tasks"] == len(dataset)
    with pytest.raises(NotFound, match="no task has the category nonsense"):
        dataset.get_tasks_by_category("nonsense")


async def test_a_folder_under_a_public_name_is_not_the_public_dataset(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "termarena.toml").write_text(f'[datasets.sources]\n"terminal-bench@2.0" = "{data}"\n')
    monkeypatch.chdir(tmp_path)
    report = await run_terminal_bench(TerminalBenchConfig(output_dir="out", agent_harness="always-right"))
    assert (report.total_tasks, report.metadata["version"]) == (2, "2.0")
    assert report.leaderboard_comparison is not None
    assert report.leaderboard_comparison.not_ranked[0].startswith("nothing was published on data;")
