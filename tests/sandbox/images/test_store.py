"""The store: shared between processes, cleared of what nothing needs, exported to engines; names with substitutes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from sandbox.images.making import MadeImage, entry, folder, tar_of
from sandbox.support import out
from termarena.core.errors import ImageError, UsageError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.compositions import keep_composition
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from pathlib import Path


async def store(shelf: ImageShelf, tmp_path: Path, name: str, *layers: bytes) -> str:
    archive = tmp_path / "saved.tar"
    archive.write_bytes(MadeImage(list(layers), {"Env": ["A=b"], "Cmd": ["sh"]}).saved(name))
    return (await shelf.import_archive(archive)).id


def spec(name: str) -> SandboxSpec:
    return SandboxSpec(root=Root(kind="image", image=name))


async def test_prune_keeps_what_images_share(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    root = root_layer
    await store(shelf, tmp_path, "tests/a:1", root, tar_of(entry("a", b"a")))
    await store(shelf, tmp_path, "tests/b:1", root, tar_of(folder("b", mode=0o000), entry("b/c", b"b")))
    (shelf.store.folder / "partial" / "left").write_bytes(b"of a killed process")
    with shelf.store.scratch() as scratch:
        (scratch / "fs").mkdir()
    shelf.close()
    pruned = await shelf.prune(("tests/b:1",))
    assert (pruned.images, pruned.layers) == (("docker.io/tests/b:1",), 2)
    assert [image.name for image in shelf.store.images()] == ["docker.io/tests/a:1"]
    async with shelf.driver.start(spec("tests/a:1")) as box:
        assert await out(box, "cat /a") == "a"
    assert len(list(shelf.store.layers_folder.iterdir())) == 2
    assert list((shelf.store.folder / "partial").iterdir()) == []


async def test_prune_forgets_compositions_that_no_run_asks_for(shelf: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    kept = [keep_composition(tmp_path / "task", {"services": {name: {}}}, home=tmp_path / "home") for name in "ab"]
    week_ago = time.time() - 8 * 24 * 3600
    for path in kept:
        os.utime(path.parent, (week_ago, week_ago))
    again = keep_composition(tmp_path / "task", {"services": {"a": {}}}, home=tmp_path / "home")
    await shelf.prune()
    assert (again, again.is_file(), kept[1].parent.exists()) == (kept[0], True, False)


async def test_images_in_use_are_not_removed(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    await store(shelf, tmp_path, "tests/a:1", root_layer)
    shelf.close()
    async with NamespaceDriver(home=tmp_path / "home") as other, other.start(spec("tests/a:1")):
        with pytest.raises(UsageError, match="another process uses images"):
            await shelf.prune(everything=True)
    assert (await shelf.prune(everything=True)).images == ("docker.io/tests/a:1",)
    assert list(shelf.store.layers_folder.iterdir()) == []


async def test_a_name_that_is_not_there(shelf: ImageShelf, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="is not in the store"):
        await shelf.prune(("tests/none:1",))
    with pytest.raises(ImageError, match="is not in the store"):
        await shelf.export("tests/none:1", tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


IMPORT = """
import asyncio, sys
from pathlib import Path
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.namespace import NamespaceDriver
async def main(home, archive):
    async with NamespaceDriver(home=home) as driver:
        print((await ImageShelf(driver, home).import_archive(archive)).id)
sys.stdin.read()
asyncio.run(main(*map(Path, sys.argv[1:])))
"""


async def test_processes_that_import_the_same_at_once(tmp_path: Path, root_layer: bytes) -> None:
    archive = tmp_path / "saved.tar"
    archive.write_bytes(MadeImage([root_layer]).saved("tests/race:1"))
    home = tmp_path / "home"
    command = [sys.executable, "-c", IMPORT, str(home), str(archive)]
    env = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    racers = [
        subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603, ASYNC220 - our own interpreter
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
        racer.stdin = None
    said = [await asyncio.to_thread(racer.communicate) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4
    assert len({text for text, _ in said}) == 1
    async with NamespaceDriver(home=home) as driver:
        shelf = ImageShelf(driver, home)
        assert len(list(shelf.store.layers_folder.iterdir())) == 1
        async with driver.start(spec("tests/race:1")) as box:
            assert await out(box, "cat /etc/motd") == "welcome"


async def test_an_export_has_the_files_and_their_owners(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    layer = tar_of(
        entry("mine", b"x", uid=1234, gid=5, mode=0o4750),
        entry("etc/.wh.motd"),
        folder("home"),
        entry("home/.wh..wh..opq"),
    )
    await store(shelf, tmp_path, "tests/out:1", root_layer, layer)
    target = tmp_path / "out.tar"
    exported = await shelf.export("tests/out:1", target)
    with tarfile.open(target) as archive:
        manifest = json.load(archive.extractfile("manifest.json") or pytest.fail("no manifest"))[0]
        upper = archive.extractfile(manifest["Layers"][1])
        with tarfile.open(fileobj=upper) as unpacked:
            members = {member.name: member for member in unpacked}
    assert (members["mine"].uid, members["mine"].gid, members["mine"].mode) == (1234, 5, 0o4750)
    assert {"etc/.wh.motd", "home/.wh..wh..opq"} <= members.keys()
    again = await shelf.import_archive(target, name="tests/again:1")
    assert again.id == exported
    assert again.config.environment == {"A": "b"}


@pytest.mark.needs("docker")
async def test_an_engine_loads_what_is_exported(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    name = f"termarena-tests-{os.getpid()}:export"
    await store(shelf, tmp_path, name, root_layer, tar_of(entry("etc/.wh.motd"), entry("said", b"hi\n", uid=7)))
    target = tmp_path / "out.tar"
    exported = await shelf.export(name, target)

    def docker(*words: str) -> str:
        command = ["docker", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 - the engine's own client

    try:
        docker("load", "-i", str(target))
        assert docker("inspect", "--format", "{{.Id}}", name) == exported
        run = ("run", "--rm", "--network", "none", name, "sh", "-c", "cat /said; ls -n /said /etc; echo $A")
        said = docker(*run)
    finally:
        docker("rmi", "-f", name)
    assert said.splitlines()[0] == "hi"
    assert said.splitlines()[-1] == "b"
    assert "motd" not in said
    assert " 7 " in next(line for line in said.splitlines() if line.endswith("/said"))


async def test_a_substitute_stands_in_and_is_told(shelf: ImageShelf, root_tar: Path) -> None:
    await shelf.substitute("ubuntu:24.04", str(root_tar))
    prepared = await shelf.driver.prepare(spec("ubuntu:24.04"))
    assert prepared.substitutes == (f"docker.io/library/ubuntu:24.04 <- {root_tar}",)
    async with shelf.driver.start(prepared.spec) as box:
        assert await out(box, "cat /etc/motd") == "welcome"
    assert [one.name for one in shelf.substitutes()] == ["docker.io/library/ubuntu:24.04"]
    assert shelf.unsubstitute("ubuntu:24.04")
    assert not shelf.unsubstitute("ubuntu:24.04")
    with pytest.raises(ImageError, match="neither a file nor an image"):
        await shelf.substitute("ubuntu:24.04", "tests/none:1")
