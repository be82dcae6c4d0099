"""The image of `deploy/`, built on the engine's own Debian without a network, and the two servers in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from packaging.requirements import Requirement

from termarena import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.needs("docker"), pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parent.parent
TAG = "termarena-deploy-test"
EXTRAS = ("arena", "battles")
DEBIANS_PYTHON = (3, 11)


def _ran(*words: str) -> str:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - the test's own
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def _needed(wheel: Path) -> Iterator[Distribution]:
    """Everything that the wheel with its extras depends on, as it is installed here; and pip."""
    ours = PathDistribution(zipfile.Path(wheel, f"termarena-{__version__}.dist-info/"))
    waiting, seen = [Requirement("pip"), *_requirements(ours, EXTRAS)], set[tuple[str, tuple[str, ...]]]()
    while waiting:
        one = waiting.pop()
        extras = tuple(sorted(one.extras))
        if (one.name, extras) not in seen:
            seen.add((one.name, extras))
            yield distribution(one.name)
            waiting += _requirements(distribution(one.name), extras)


def _requirements(of: Distribution, extras: tuple[str, ...]) -> list[Requirement]:
    told = [Requirement(text) for text in of.requires or ()]
    return [
        one
        for one in told
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def _packed(installed: Distribution, folder: Path) -> None:
    """The wheel that it was installed from, but for its scripts."""
    tags = re.findall(r"^Tag: (\S+)", installed.read_text("WHEEL") or "", re.MULTILINE)  # py2 comes before py3
    name = re.sub(r"[-_.]+", "_", installed.name)
    with zipfile.ZipFile(folder / f"{name}-{installed.version}-{tags[-1]}.whl", "w") as wheel:
        for path in installed.files or ():
            if ".." not in path.parts and path.suffix != ".pyc" and path.name not in ("INSTALLER", "direct_url.json"):
                wheel.write(path.locate(), str(path))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if sys.version_info[:2] != DEBIANS_PYTHON:
        pytest.skip("what is installed here is not for the image's Python")
    dist = tmp_path_factory.mktemp("dist")
    _ran(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(dist), ".")
    for installed in _needed(next(dist.iterdir())):
        _packed(installed, dist)
    # Each container runs for seconds: to compile all that is installed would take longer than what it saves.
    words = {"BASE": "debian:bookworm", "EXTRAS": ",".join(EXTRAS), "PIP_NO_INDEX": "1", "PIP_OPTIONS": "--no-compile"}
    given = [word for name, value in words.items() for word in ("--build-arg", f"{name}={value}")]
    _ran("docker", "build", "-q", "-t", TAG, "-f", "deploy/Dockerfile", "--network", "none", *given, str(dist))
    shutil.rmtree(dist)
    yield TAG
    _ran("docker", "rmi", "-f", TAG)


@contextmanager
def _started(image: str, *words: str) -> Iterator[str]:
    """A container with this machine's network; its number."""
    name = _ran("docker", "run", "-d", "--network", "host", image, *words)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rm", "-f", "-v", name], capture_output=True, check=True)  # noqa: S603, S607 - the test's own


def _told(container: str) -> str:
    """The first line that it prints, in which its address stands."""
    give_up = time.monotonic() + 300
    while time.monotonic() < give_up:
        said = _ran("docker", "logs", container)
        if "\n" in said or said.startswith(("{", "http")):
            return said
        time.sleep(0.2)
    raise AssertionError(f"{container} says nothing")


def test_a_green_agent_in_a_container(image: str) -> None:
    with _started(image, "green", "--port", "0", "--json") as container:
        url = json.loads(_told(container).splitlines()[0])["url"]
        card: dict[str, Any] = httpx.get(f"{url}/.well-known/agent-card.json").json()
        who = _ran("docker", "exec", container, "id", "-u")
    assert card["supportedInterfaces"][0]["url"] == url
    assert who == "10001"


def test_an_arena_in_a_container(image: str) -> None:
    with _started(image, "serve", "--port", "0") as container:
        url = re.search(r"http://\S+", _told(container))
        assert url is not None
        health = httpx.get(f"{url[0]}/api/health").json()
    assert (health["status"], health["version"]) == ("ok", __version__)


def test_a_container_says_what_its_sandboxes_lack(image: str) -> None:
    done = subprocess.run(["docker", "run", "--rm", image, "doctor"], capture_output=True, text=True, check=False)  # noqa: S603, S607 - the test's own
    assert "--security-opt seccomp=unconfined" in done.stdout, done.stderr
