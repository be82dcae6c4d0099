"""`termarena run` with several agents: a run each, and one that cannot run does not stop the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.tasks import make_task
from termarena.cli.main import main
from termarena.core.run_folder import RunFolder
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("user-namespaces")
BAD = 'name = "bad"\ninstall = "echo nothing is here >&2; exit 7"\ncommand = "true"\n'


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERMARENA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.chdir(tmp_path)
    make_task(tmp_path / "tasks" / "one")
    return str(tmp_path / "tasks")


def test_the_run_goes_on_with_the_other_agents(tasks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.toml").write_text(BAD)
    (tmp_path / "odd.toml").write_text(BAD + "colour = 1\n")
    (tmp_path / "model.json").write_text(json.dumps({"replies": [{"content": "Done."}]}))
    agents = ["nop", "cli:custom:bad.toml", "cli:custom:odd.toml", "cli:no-such-agent", "oracle"]
    words = [word for agent in agents for word in ("--agent", agent)]
    assert main(["run", "--path", tasks, "--driver", "namespace", *words, "--model", "scripted:model.json"]) == 2
    told = capsys.readouterr().err
    assert "nop takes no model: it runs without one" in told
    assert told.index("cli:no-such-agent does not run") < told.index("nop on 1 task"), "before the first run"
    for agent in agents[1:4]:
        assert f"{agent} does not run" in told
    assert "its install script ended with status 7" in told
    assert "nothing is here" in told
    assert "colour" in told
    runs = [read_run(RunFolder(path)) for path in (tmp_path / "runs").iterdir()]
    assert {run.lock.options.agent: run.counts.solved for run in runs} == {"nop": 0, "oracle": 1}


def test_one_folder_is_not_for_the_runs_of_two_agents(tasks: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--path", tasks, "--agent", "nop", "--agent", "oracle", "--out", "runs/x"]) == 2
    assert "--out names the folder of one run" in capsys.readouterr().err
