"""`termarena sandbox`, with and without an engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from running import termarena

NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
RESTLESS = Path(__file__).parents[1] / "sandbox" / "restless_docker.py"


def _env(home: Path) -> dict[str, str]:
    kept = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
    return {"TERMARENA_HOME": str(home), **kept}


def test_nothing_is_there(tmp_path: Path) -> None:
    done = termarena("sandbox", "list", cwd=tmp_path, env={"TERMARENA_HOME": str(tmp_path), **NO_ENGINE})
    assert (done.returncode, done.stdout) == (0, "")
    assert "no containers are listed" in done.stderr
    assert "there is no sandbox" in done.stderr


def test_engine_that_was_asked_for_must_answer(tmp_path: Path) -> None:
    env = {"TERMARENA_HOME": str(tmp_path), **NO_ENGINE}
    done = termarena("sandbox", "prune", "--driver", "docker", "--json", cwd=tmp_path, env=env)
    assert done.returncode == 1
    assert json.loads(done.stderr)["error"]["kind"] == "EngineError"


@pytest.mark.needs("docker")
@pytest.mark.slow
def test_what_a_dead_harness_left_is_listed_and_removed(tmp_path: Path) -> None:
    command = [sys.executable, str(RESTLESS), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as harness:  # noqa: S603 - our own program
        assert harness.stdout is not None
        os.kill(int(harness.stdout.readline()), signal.SIGKILL)
        alive = json.loads(termarena("sandbox", "list", "--json", cwd=tmp_path, env=_env(tmp_path)).stdout)
        assert [row["driver"] for row in alive["sandboxes"] if row["harness_pid"] == harness.pid][:1] == ["docker"]
        harness.send_signal(signal.SIGKILL)
    assert "left behind" in termarena("sandbox", "list", cwd=tmp_path, env=_env(tmp_path)).stdout
    while json.loads(termarena("sandbox", "prune", "--json", cwd=tmp_path, env=_env(tmp_path)).stdout)["removed"][
        "docker"
    ]:
        pass
    left = json.loads(termarena("sandbox", "list", "--json", cwd=tmp_path, env=_env(tmp_path)).stdout)
    assert left["sandboxes"] == []


@pytest.mark.needs("user-namespaces")
@pytest.mark.slow
def test_bench(tmp_path: Path) -> None:
    words = ("sandbox", "bench", "--driver", "namespace", "--rounds", "2", "--json")
    done = termarena(*words, cwd=tmp_path, env={"TERMARENA_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["figures"]
    assert row["driver"] == "namespace"
    assert 0 < row["exec_true_ms"] < row["start_true_stop_ms"]
