"""The same Dockerfiles built by a real engine and by us from the same base: the same files, the same settings."""

from __future__ import annotations

import asyncio
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.images.differing import (
    Case,
    busybox_root,
    docker,
    docker_index,
    make_context,
    our_index,
    read_cases,
    settings_of,
)
from termarena.sandbox.images import BuildOptions, ImageShelf, build_image
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.spec import Network

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.needs("docker", "busybox"), pytest.mark.slow]

BELOW = {
    "based-on": 'FROM base\nENV INHERITED=yes\nWORKDIR /inherited\nCMD ["inherited"]\nLABEL from=below\n',
    "with-triggers": "FROM base\nONBUILD RUN echo x > /triggered\nONBUILD COPY a.txt /trigger-copy\n",
}
# The engine's builder of version 20 gives everything to root here; BuildKit, which engines use since 23, keeps owners.
OWNERS_KEPT = {"from-image", "stages-copy", "stages-glob", "scratch"}
PREFIX = f"termarena-tests-{os.getpid()}"


class Bench:
    """Both builders, with the same bases and the same context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.made: list[str] = []

    def named(self, text: str) -> str:
        return re.sub(r"(FROM |from |--from=|TAG=)(base|based-on|with-triggers)\b", rf"\1{PREFIX}-\2", text)

    def prepare(self) -> None:
        (self.folder / "root.tar").write_bytes(busybox_root(self.folder / "root"))
        docker("import", str(self.folder / "root.tar"), f"{PREFIX}-base:latest")
        self.made.append(f"{PREFIX}-base:latest")
        asyncio.run(self._import())
        for name, text in BELOW.items():
            context = self.context(Case(name, text, is_quick=True, ignore=None))
            self.docker_build(context, f"{PREFIX}-{name}:latest")
            asyncio.run(self.build(context, f"{PREFIX}-{name}:latest"))

    async def _import(self) -> None:
        async with NamespaceDriver(home=self.home) as driver:
            await ImageShelf(driver, self.home).import_archive(self.folder / "root.tar", name=f"{PREFIX}-base")

    def context(self, case: Case) -> Path:
        context = self.folder / f"context-{case.name}"
        make_context(context)
        (context / "Dockerfile").write_text(self.named(case.text))
        if case.ignore is not None:
            (context / ".dockerignore").write_text(case.ignore + "\n")
        return context

    def docker_build(self, context: Path, name: str) -> None:
        os.environ["DOCKER_BUILDKIT"] = "0"
        self.made.append(name)
        docker("build", "--network", "none", "-t", name, str(context))

    async def build(self, context: Path, name: str) -> tuple[dict[str, Any], dict[str, tuple[object, ...]]]:
        async with NamespaceDriver(home=self.home) as driver:
            shelf = ImageShelf(driver, self.home)
            built = await build_image(shelf, context, name, BuildOptions(network=Network(mode="none")))
            told = json.loads(built.image.config.as_json())["config"]
            return told, await our_index(shelf, built.image.config)

    def close(self) -> None:
        docker("rmi", "-f", *reversed(self.made), check=False)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("bench"))
    try:
        made.prepare()
        yield made
    finally:
        made.close()


CASES = read_cases()


def test_the_suite_is_there() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
    assert sum(case.is_quick for case in CASES) >= 12


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[] if case.is_quick else [pytest.mark.soak]) for case in CASES]
)
def test_same_as_docker(bench: Bench, case: Case) -> None:
    context = bench.context(case)
    name = f"{PREFIX}-{case.name}:latest"
    bench.docker_build(context, name)
    told, ours = asyncio.run(bench.build(context, name))
    theirs = docker_index(name)
    if case.name in OWNERS_KEPT:
        theirs, ours = ({key: (*row[:2], *row[4:]) for key, row in rows.items()} for rows in (theirs, ours))
    if case.name == "scratch":
        theirs.pop("etc")  # a container's own
    names = ours.keys() | theirs.keys()
    different = {name: (ours.get(name), theirs.get(name)) for name in names if ours.get(name) != theirs.get(name)}
    assert different == {}
    assert len(ours) > 2
    expected = settings_of(json.loads(docker("inspect", "--format", "{{json .Config}}", name)))
    assert settings_of(told) == expected
