"""Dockerfiles and archives that mean harm, or break off: the host stays as it was, and the error says what is wrong."""

from __future__ import annotations

import asyncio
import gzip
import lzma
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.images.making import MadeImage, entry, folder, tar_of
from sandbox.support import out
from termarena.core.errors import ImageError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import BuildOptions, Built, build_image
from termarena.sandbox.spec import Network

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox.images.making import PushTarget
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


async def test_the_same_layer_twice(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    again = tar_of(entry("f", b"again"))
    other = tar_of(entry("f", b"other"), entry("g", b"g"))
    image = MadeImage([root_layer, again, other, again])
    (tmp_path / "saved.tar").write_bytes(image.saved("t/built:1"))
    got = await shelf.import_archive(tmp_path / "saved.tar")
    assert len(got.config.diff_ids) == 4
    assert await said(shelf, "cat /f /g") == "againg"
    lines: list[str] = []
    await build(shelf, tmp_path / "c", "FROM t/built:1\nRUN cat /f\n", on_log=lines.append)
    assert "again" in lines


@pytest.mark.needs("docker-registry")
async def test_layers_that_are_pulled_twice_at_once(shelf: ImageShelf, registry: PushTarget, root_layer: bytes) -> None:
    noise = bytes(range(256)) * 4096
    again = tar_of(entry("f", noise))
    names = []
    for tag in ("1", "2", "3"):
        registry.push("tests/twice", tag, MadeImage([root_layer, again, tar_of(entry("t", tag.encode())), again]))
        names.append(f"{registry.host}/tests/twice:{tag}")
    got = await asyncio.gather(*map(shelf.pull, names))
    assert [len(image.config.diff_ids) for image in got] == [4, 4, 4]
    left = [path.name for path in (shelf.store.folder / "partial").iterdir()]
    assert left == []


def _long_header() -> bytes:
    info = tarfile.TarInfo("f")
    info.pax_headers = {"comment": "x" * (20 << 20)}
    return tar_of(folder("bin"), (info, b""))


BROKEN = {
    "header": gzip.compress(_long_header(), 1),
    "xz": lzma.compress(tar_of(folder("bin"), entry("bin/x", bytes(range(256)) * 900)))[:-40] + bytes(40),
    "gzip": gzip.compress(bytes(range(256)) * 900)[:50] + b"\xff" * 90,
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_broken_archives_are_refused(shelf: ImageShelf, tmp_path: Path, kind: str) -> None:
    (tmp_path / "broken.tar").write_bytes(BROKEN[kind])
    with pytest.raises(ImageError, match=r"broken\.tar.*(a header is longer|compression is broken)"):
        await shelf.import_archive(tmp_path / "broken.tar", name="t/broken")
    assert list((shelf.store.folder / "partial").iterdir()) == []


async def test_a_removal_that_was_killed_is_no_obstacle(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    (tmp_path / "saved.tar").write_bytes(MadeImage([root_layer]).saved("t/built:1"))
    got = await shelf.import_archive(tmp_path / "saved.tar")
    killed = shelf.store.layers_folder / got.config.diff_ids[0].removeprefix("sha256:")
    (killed / "about.json").unlink()
    await shelf.import_archive(tmp_path / "saved.tar")
    assert await said(shelf, "echo there") == "there"
