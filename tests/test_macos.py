"""As on macOS: without Linux's own calls, doctor says what to do, and tasks go to a container engine.

What is taken away here is what Python does not have there. Packages of others are loaded before, since they would look
for macOS's own modules. Nothing of this was run on a real one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from running import PATIENCE_S
from support.tasks import Made, make_task

if TYPE_CHECKING:
    from pathlib import Path

MODULES = [
    "termarena.agents",
    "termarena.cli.doctor",
    "termarena.cli.run",
    "termarena.forge.working",
    "termarena.proof.proving",
    "termarena.reports",
    "termarena.runs.running",
    "termarena.sandbox.docker",
]

AS_ON_MACOS = """
import importlib, json, os, resource, select, signal, socket, sys
modules, commands = json.loads(sys.argv[1])
for name in modules:
    importlib.import_module(name)
for name in [name for name in sys.modules if name.split(".")[0] == "termarena"]:
    del sys.modules[name]
absent = {
    os: "sched_getaffinity sched_setaffinity pidfd_open O_PATH O_TMPFILE memfd_create unshare setns getxattr setxattr "
        "listxattr eventfd posix_fallocate copy_file_range splice pipe2",
    select: "epoll", signal: "pidfd_send_signal", resource: "prlimit",
    socket: "AF_NETLINK AF_VSOCK SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK",
}
for module, names in absent.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
os.geteuid = lambda: 501  # an engine there is in a machine of its own, whose processes nobody here sees
sys.platform = "darwin"
for name in modules:
    importlib.import_module(name)
from termarena.cli.main import main
for words in commands:
    assert main(words) == 0, words
"""


def _as_on_macos(*commands: list[str], folder: Path, engine: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", AS_ON_MACOS, json.dumps([MODULES, commands])],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "DOCKER_HOST": engine},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.slow
def test_without_linux_tasks_go_to_an_engine(tmp_path: Path) -> None:
    dry = ["run", "--task", "*/hello-world", "--dry-run"]
    done = _as_on_macos(["doctor"], dry, folder=tmp_path, engine=f"unix://{tmp_path}/no.sock")
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert "not tried: the embedded sandbox needs Linux" in told
    assert "start a Docker or Podman engine" in told
    assert "without one: the embedded sandbox needs Linux" in told


@pytest.mark.slow
@pytest.mark.needs("docker")
def test_without_linux_a_task_is_solved_and_graded_in_an_engine(tmp_path: Path) -> None:
    make_task(tmp_path / "task", Made(files={"environment/Dockerfile": "FROM debian:bookworm\nWORKDIR /app\n"}))
    run = ["run", "--path", "task", "--out", "run"]
    done = _as_on_macos(run, folder=tmp_path, engine=os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert (report["solved"], report["unscored"]) == (1, 0), done.stderr
