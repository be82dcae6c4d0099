"""`termarena sandbox`, with and without an engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

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


ON_DISK = """
import asyncio, sys
from pathlib import Path
from termarena.sandbox import Limits, SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
async def main():
    spec = SandboxSpec(limits=Limits(memory_bytes=64 << 20, disk_bytes=96 << 20))
    async with NamespaceDriver(home=Path(sys.argv[1])) as driver, driver.start(spec) as box:
        await box.write("/root/file", b"x" * 5000)
        print(box.id, flush=True)
        await asyncio.sleep(3600)
asyncio.run(main())
"""


@pytest.mark.needs("user-namespaces")
@pytest.mark.slow
def test_files_on_disk_of_a_dead_harness_are_listed_and_removed(tmp_path: Path) -> None:
    def run(verb: str) -> dict[str, Any]:
        told = termarena("sandbox", verb, "--driver", "namespace", "--json", cwd=tmp_path, env=_env(tmp_path)).stdout
        found: dict[str, Any] = json.loads(told)
        return found

    command = [sys.executable, "-c", ON_DISK, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:  # noqa: S603 - our own program
        assert harness.stdout is not None
        sandbox = harness.stdout.readline().strip()
        assert run("prune")["removed"] == {"namespace": 0}
        [row] = run("list")["sandboxes"]
        assert (row["id"], row["is_alive"], row["changes"]) == (sandbox, True, "disk")
        harness.kill()
    while run("list")["sandboxes"][0]["is_alive"]:
        pass
    assert (tmp_path / "layers" / sandbox / "fs/u0/root/file").stat().st_size == 5000
    assert run("prune")["removed"] == {"namespace": 1}
    assert list((tmp_path / "layers").iterdir()) == []


@pytest.mark.needs("user-namespaces", "unshare")
def test_what_cannot_be_removed_is_named(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount something over a folder, for a while")
    held = tmp_path / "layers/ta-stuck/fs"
    held.mkdir(parents=True)
    prune = f"{sys.executable} -m termarena sandbox prune --driver namespace --json"
    words = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {held} && {prune}"]
    env = {**os.environ, **_env(tmp_path)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["removed"], told["left"]) == ({"namespace": 0}, {"namespace": ["ta-stuck"]})
    assert "could not be removed, the next start tries again: ta-stuck" in done.stderr
    again = termarena("sandbox", "prune", "--driver", "namespace", "--json", cwd=tmp_path, env=_env(tmp_path))
    assert (again.returncode, json.loads(again.stdout)["removed"]) == (0, {"namespace": 1})


@pytest.mark.needs("user-namespaces")
@pytest.mark.slow
def test_bench(tmp_path: Path) -> None:
    words = ("sandbox", "bench", "--driver", "namespace", "--rounds", "2", "--json")
    done = termarena(*words, cwd=tmp_path, env={"TERMARENA_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["figures"]
    assert row["driver"] == "namespace"
    assert 0 < row["exec_true_ms"] < row["start_true_stop_ms"]


def test_a_bench_that_measured_nothing_says_so(tmp_path: Path) -> None:
    nowhere = {"TERMARENA_HOME": "/proc/nowhere", "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = termarena("sandbox", "bench", "--rounds", "2", "--json", cwd=tmp_path, env=nowhere)
    assert (done.returncode, json.loads(done.stdout)["figures"]) == (1, [])
    assert "nothing was measured; `termarena doctor` says what is missing" in done.stderr
