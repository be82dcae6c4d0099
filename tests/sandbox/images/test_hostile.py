"""Dockerfiles and archives that mean harm, or break off: the host stays as it was, and the error says what is wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.support import out
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import BuildOptions, Built, build_image
from termarena.sandbox.spec import Network

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox.images import ImageShelf


@pytest.fixture
async def based(shelf: ImageShelf, root_tar: Path) -> ImageShelf:
    await shelf.import_archive(root_tar, name="base")
    return shelf


def _write(context: Path, text: str) -> None:
    context.mkdir(exist_ok=True)
    (context / "Dockerfile").write_text(text)


async def build(shelf: ImageShelf, context: Path, text: str, **options: Any) -> Built:  # noqa: ANN401 - of BuildOptions
    _write(context, text)
    options = {"network": Network(mode="none"), **options}
    return await asyncio.wait_for(build_image(shelf, context, "t/built:1", BuildOptions(**options)), 60)


async def said(shelf: ImageShelf, script: str) -> str:
    async with shelf.driver.start(SandboxSpec(root=Root(kind="image", image="t/built:1"))) as box:
        return await out(box, script)


async def test_a_link_in_the_place_of_a_mount_removes_nothing_of_the_host(based: ImageShelf, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "empty").mkdir(parents=True)
    (victim / "file").touch()
    await build(
        based,
        tmp_path / "c",
        "FROM base\n"
        f"RUN --mount=type=tmpfs,target=/a/empty mv /a /gone && ln -s {victim} /a\n"
        f"RUN --mount=type=tmpfs,target=/b/c/d rm -rf /x && mv /b /gone2 && ln -s {victim.parent} /b\n",
    )
    assert sorted(path.name for path in victim.iterdir()) == ["empty", "file"]
