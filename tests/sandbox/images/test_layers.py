"""Layers of every dialect and of hostile make."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
from typing import TYPE_CHECKING

import pytest
import zstandard

from sandbox.images.making import MadeImage, entry, folder, link, tar_of
from sandbox.support import out
from termarena.core.errors import ImageError
from termarena.sandbox import Root, Sandbox, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from termarena.sandbox.images import ImageShelf, StoredImage

NAME = "tests/image:1"


async def stored(shelf: ImageShelf, tmp_path: Path, *layers: bytes, **config: object) -> StoredImage:
    archive = tmp_path / "saved.tar"
    archive.write_bytes(MadeImage(list(layers), dict(config)).saved(NAME))
    return await shelf.import_archive(archive)


def spec(**rest: object) -> SandboxSpec:
    return SandboxSpec(root=Root(kind="image", image=NAME), **rest)


async def test_deletions_and_opaque_folders(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    lower = tar_of(folder("d"), entry("d/old", b"1"), folder("o"), entry("o/below", b"2"), entry("gone", b"3"))
    upper = tar_of(
        entry("d/.wh.old"), folder("o"), entry("o/.wh..wh..opq"), entry("o/new", b"4"), entry(".wh.gone"),
        folder("fresh"), entry("fresh/.wh..wh..opq"),
    )  # fmt: skip
    image = await stored(shelf, tmp_path, root_layer, lower, upper)
    assert len(image.config.diff_ids) == 3
    async with shelf.driver.start(spec()) as box:
        assert await out(box, "ls /d /o /fresh; ls / | cat") == await _expected(box)
        assert await out(box, "cat /o/new") == "4"


async def _expected(box: Sandbox) -> str:
    top = [name for name in (await out(box, "ls /")).split() if name != "gone"]
    assert {"d", "o", "fresh", "bin"} <= set(top)
    return "/d:\n\n/fresh:\n\n/o:\nnew\n" + "\n".join(top)


async def test_links_modes_holes_and_long_names(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    long = "n" * 200
    layer = tar_of(
        folder("d", mode=0o1777),
        entry("d/file", b"content", mode=0o4755, mtime=1_000_000_000),
        link("d/hard", "d/file", hard=True),
        link("d/soft", "/d/file"),
        entry(f"d/{long}", b"long"),
        entry("d/holes", bytes(8 << 20)),
        link("lib2", "d"),
        entry("lib2/through", b"by a link"),
        entry("no/parents/given", b"x"),
    )
    await stored(shelf, tmp_path, root_layer, layer)
    async with shelf.driver.start(spec()) as box:
        assert await out(box, "cat /d/hard /d/soft") == "contentcontent"
        assert await out(box, f"cat /d/{long} /d/through /no/parents/given") == "longby a linkx"
        listed = (await out(box, "ls -ldn --time-style=+%s /d /d/file /d/hard")).splitlines()
        assert [row.split()[0] for row in listed] == ["drwxrwxrwt", "-rwsr-xr-x", "-rwsr-xr-x"]
        assert [row.split()[1] for row in listed[1:]] == ["2", "2"]
        assert listed[1].split()[5] == "1000000000"
    holes = next(shelf.store.layers_folder.glob("*/fs/d/holes")).stat()
    assert (holes.st_size, holes.st_blocks) == (8 << 20, 0)


async def test_owners(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    layer = tar_of(entry("mine", b"", uid=1234, gid=5))
    image = await stored(shelf, tmp_path, root_layer, layer)
    table = shelf.store.layers_of(image.config)[1].owners
    async with shelf.driver.start(spec()) as box:
        owner = (await out(box, "ls -n /mine")).split()[2:4]
    has_users = shelf.driver.ids.has_users
    assert owner == ["1234", "5"]
    assert table == ({} if has_users else {"mine": (1234, 5)})


async def test_variables_folder_and_user_of_the_image(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    config = {"Env": ["PATH=/bin", "WORD=from the image"], "WorkingDir": "/home/alice"}
    await stored(shelf, tmp_path, root_layer, **config)
    async with shelf.driver.start(spec()) as box:
        assert await out(box, "echo $PATH; echo $WORD; pwd") == "/bin\nfrom the image\n/home/alice"
    async with shelf.driver.start(spec(env={"WORD": "mine"}, workdir="/etc")) as box:
        assert await out(box, "echo $WORD; pwd") == "mine\n/etc"
        await box.seal()
        snapshot = await box.snapshot()
        async with shelf.driver.start(snapshot) as fork:
            assert await out(fork, "echo $WORD; pwd") == "mine\n/etc"
        snapshot.close()


async def test_an_entrypoint_begins_the_sandbox_and_no_fork(
    shelf: ImageShelf, tmp_path: Path, root_layer: bytes
) -> None:
    script = b'#!/bin/sh\necho begun >> /begun\nexec "$@"\n'
    layer = tar_of(entry("enter", script, mode=0o755))
    await stored(shelf, tmp_path, root_layer, layer, Entrypoint=["/enter"])
    async with shelf.driver.start(spec(runs_entrypoint=True)) as box:
        assert await out(box, "cat /begun") == "begun"
        await box.seal()
        snapshot = await box.snapshot()
        async with shelf.driver.start(snapshot) as fork:
            assert await out(fork, "cat /begun") == "begun"
        snapshot.close()


HOSTILE = {
    "climbing": tar_of(entry("../escape", b"x")),
    "climbing within": tar_of(entry("a/../../escape", b"x")),
    "hard link out": tar_of(link("passwd", "../../../../etc/passwd", hard=True)),
    "hard link to nothing": tar_of(link("x", "etc/shadow-of-the-host", hard=True)),
    "deletion without a name": tar_of(entry("a/.wh.", b"")),
    "deletion of a climb": tar_of(entry("a/.wh...", b"")),
    "cut off": tar_of(entry("a", bytes(4096)))[:2048],
    "no archive": b"not a tar at all, but long enough to be looked at" * 40,
    "owner beyond all ids": tar_of(entry("a", b"", uid=70_000)),
}


@pytest.mark.parametrize("layer", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_layers_are_refused(shelf: ImageShelf, tmp_path: Path, layer: bytes) -> None:
    with pytest.raises(ImageError):
        await stored(shelf, tmp_path, layer)
    assert shelf.store.images() == []
    assert not (tmp_path / "escape").exists()
    assert list(shelf.store.layers_folder.iterdir()) == []


async def test_links_never_lead_out_of_the_layer(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    layer = tar_of(
        link("out", str(outside)), entry("out/file", b"x"), link("up", "../../../../../.."), entry("up/f", b"")
    )
    with pytest.raises(ImageError, match="cannot be unpacked"):
        await stored(shelf, tmp_path, root_layer, layer)
    assert list(outside.iterdir()) == []


async def test_devices_are_left_out_and_forged_marks_have_no_effect(
    shelf: ImageShelf, tmp_path: Path, root_layer: bytes
) -> None:
    forged = {"SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.note": "kept"}
    layer = tar_of(
        entry("disk", type=tarfile.BLKTYPE, devmajor=8), entry("null", type=tarfile.CHRTYPE, devmajor=0, devminor=0),
        folder("etc", pax_headers=forged),
    )  # fmt: skip
    await stored(shelf, tmp_path, root_layer, layer)
    async with shelf.driver.start(spec()) as box:
        assert await out(box, "cat /etc/motd; ls /disk /null 2>/dev/null; true") == "welcome"


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
    "plain": bytes,
}


@pytest.mark.parametrize("packing", PACKINGS)
async def test_packed_root_file_systems(shelf: ImageShelf, tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"root.{packing}"
    path.write_bytes(PACKINGS[packing](tar_of(folder("bin"), entry("bin/tool", b"content"))))
    image = await shelf.import_archive(path, name=NAME)
    assert image.source == f"archive {path.name}"
    (layer,) = shelf.store.layers_of(image.config)
    assert (layer.files / "bin/tool").read_bytes() == b"content"


async def test_a_root_file_system_without_programs_is_refused(shelf: ImageShelf, tmp_path: Path) -> None:
    path = tmp_path / "root.tar"
    path.write_bytes(tar_of(entry("readme", b"not a root")))
    with pytest.raises(ImageError, match="neither bin nor usr/bin"):
        await shelf.import_archive(path, name=NAME)
    with pytest.raises(ImageError, match="brings no name"):
        await shelf.import_archive(path)
