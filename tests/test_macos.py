"""As on macOS: without Linux's own calls, doctor says what to do, and tasks go to a container engine.

What is taken away here is what Python does not have there. Packages of others are loaded before, since they would look
for macOS's own modules. Nothing of this was run on a real one.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from running import PATIENCE_S

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
import importlib, os, resource, select, signal, socket, sys
for name in sys.argv[1:]:
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
sys.platform = "darwin"
for name in sys.argv[1:]:
    importlib.import_module(name)
from termarena.cli.main import main
assert main(["doctor"]) == 0
assert main(["run", "--task", "*/hello-world", "--dry-run"]) == 0
"""


@pytest.mark.slow
def test_without_linux_tasks_go_to_an_engine(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", AS_ON_MACOS, *MODULES],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/no.sock"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert "not tried: the embedded sandbox needs Linux" in told
    assert "start a Docker or Podman engine" in told
    assert "without one: the embedded sandbox needs Linux" in told
