"""The suite again as an ordinary user, when it runs as root: another user id, no helper programs, no cgroups.

A part of it by default; everything, with 200 kills, under `make soak`.
"""

from __future__ import annotations

import os
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

USER_ID = 54_321
PART = (
    "timeout or tree or fork or snapshot or daemon or memory or disk or process or user or folder or diff"
    " or owners or mounts or pull_and_run or steps_build or substitute or services or abandoned"
)
NOT_ALL_ON_DISK = "not on-disk or snapshot or fork or diff"
"""Of the tests that run once more with files on disk."""
REPOSITORY = Path(__file__).parents[2]


def _run(command: list[str], home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    paths = [str(REPOSITORY / "src"), *site.getsitepackages()]
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": ":".join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }
    return subprocess.run(  # noqa: S603 - our own tests
        command, cwd=REPOSITORY, env=env, user=USER_ID, group=USER_ID, extra_groups=[], capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def _interpreter(home: Path) -> str:
    """One that the other user can run with our packages; the one we run on may lie in root's home."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            if _run([candidate, "-c", "import pytest, pydantic, pytest_asyncio, pytest_timeout"], home).returncode == 0:
                return candidate
        except PermissionError:
            continue
    pytest.skip("an ordinary user can read neither this interpreter nor these packages; install them outside /root")


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("how_much", ["part", pytest.param("everything", marks=pytest.mark.soak)])
def test_suite_as_an_ordinary_user(how_much: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("this run is one as an ordinary user")
    # Not below pytest's own folder: every session of root closes that one to others.
    with tempfile.TemporaryDirectory(prefix="termarena-user-") as home:
        os.chown(home, USER_ID, USER_ID)
        _run_suite(Path(home), is_soak=how_much == "everything")


def _run_suite(home: Path, *, is_soak: bool) -> None:
    chosen = [] if is_soak else ["-k", f"({PART}) and not without and ({NOT_ALL_ON_DISK})"]
    more = {"TERMARENA_SOAK": "1"} if is_soak else {}
    command = [_interpreter(home), "-m", "pytest", "tests/sandbox", "-q", "-p", "no:cacheprovider"]
    done = _run([*command, f"--basetemp={home}/pytest", *chosen], home, **more)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
