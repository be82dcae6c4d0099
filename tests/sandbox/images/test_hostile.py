"""Dockerfiles and archives that mean harm, or break off: the host stays as it was, and the error says what is wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
import lzma
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from sandbox.images.making import MadeImage, entry, folder, tar_of
from sandbox.support import out
from termarena.core.errors import BuildError, ImageError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import BuildOptions, Built, build_image
from termarena.sandbox.images.config import digest_of
from termarena.sandbox.namespace.images import unpack_image
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


async def test_a_source_that_cannot_be_copied_ends_the_build(based: ImageShelf, tmp_path: Path) -> None:
    text = "FROM base AS one\nFROM base\nCOPY --from=one /dev/null /x\n"
    with pytest.raises(BuildError, match="neither a file nor a folder"):
        await build(based, tmp_path / "c", text)


async def test_a_broken_archive_says_so(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    whole = gzip.compress(tar_of(entry("f", b"x"), entry("g", bytes(range(256)) * 400)))
    (tmp_path / "c/broken.tar.gz").write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(ImageError, match="compression is broken: Compressed file ended"):
        await build(based, tmp_path / "c", "FROM base\nADD broken.tar.gz /x/\n")


async def test_a_bound_folder_shows_nothing_that_is_ignored(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "c/d").mkdir(parents=True)
    (tmp_path / "c/d/seen").write_text("seen")
    (tmp_path / "c/d/hidden").write_text("hidden")
    (tmp_path / "c/.dockerignore").write_text("**/hidden\n")
    await build(based, tmp_path / "c", "FROM base\nRUN --mount=type=bind,target=/src ls /src /src/d > /list\n")
    listed = (await said(based, "cat /list")).split()
    assert "seen" in listed
    assert "hidden" not in listed


async def test_a_point_is_a_folder(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    for name in ("a.x", "b.x", "c.y"):
        (tmp_path / "c" / name).write_text(name)
    await build(based, tmp_path / "c", "FROM base\nWORKDIR /one\nCOPY a.x c.y .\nWORKDIR /two\nCOPY *.x .\n")
    assert await said(based, "cd /; ls one two") == "one:\na.x\nc.y\n\ntwo:\na.x\nb.x"


REFUSED = {
    "ARG A=${B:?must}\nFROM base\n": "line 1: B: must",
    "FROM --platform=${X base\n": "line 1: ",
    "FROM base\nHEALTHCHECK --retries=often CMD true\n": "line 2: often is no number",
    "FROM base\nCOPY [z-a]x /x\n": "line 2: [z-a]x is no pattern",
    "FROM base AS one\nFROM base\nCOPY --from=one /[z-a]x /x\n": "line 3: [z-a]x is no pattern",
    "FROM base\nRUN --mount=type=tmpfs,target=/x,size=much true\n": "RUN --mount=type=tmpfs,size=much is no size",
    "FROM base\nRUN --mount=type=tmpfs,target=/ true\n": "line 2: RUN --mount=type=tmpfs cannot have the target /",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text.splitlines()[-1])
async def test_what_is_wrong_names_the_line(based: ImageShelf, tmp_path: Path, text: str) -> None:
    with pytest.raises(BuildError) as caught:
        await build(based, tmp_path / "c", text)
    assert REFUSED[text] in str(caught.value)
    assert caught.value.cause == "task"


async def test_a_list_of_ignored_files_with_a_bad_pattern(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/.dockerignore").write_text("fine\n[z-a]\n")
    with pytest.raises(BuildError, match=r"\.dockerignore: \[z-a\] is no pattern"):
        await build(based, tmp_path / "c", "FROM base\n")


async def test_durations_of_several_parts(based: ImageShelf, tmp_path: Path) -> None:
    built = await build(based, tmp_path / "c", "FROM base\nHEALTHCHECK --interval=1m30.5s CMD true\n")
    assert built.image.config.healthcheck == {"Test": ["CMD-SHELL", "true"], "Interval": 90_500_000_000}


async def test_a_line_without_end_is_told_in_pieces(based: ImageShelf, tmp_path: Path) -> None:
    lines: list[str] = []
    await build(based, tmp_path / "c", "FROM base\nRUN printf %3000000s end\n", on_log=lines.append)
    assert len("".join(line for line in lines if line.strip() in ("", "end"))) == 3_000_000
    assert max(map(len, lines)) < 1 << 20


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


@pytest.mark.parametrize("tags", [[{"a": 1}], [["x"]], "A B"], ids=str)
async def test_a_name_in_an_archive_that_is_none(
    shelf: ImageShelf, tmp_path: Path, root_layer: bytes, tags: object
) -> None:
    image = MadeImage([root_layer])
    manifest = json.dumps([{"Config": "c.json", "RepoTags": tags, "Layers": ["l.tar"]}]).encode()
    members = [entry("manifest.json", manifest), entry("c.json", image.config_json()), entry("l.tar", root_layer)]
    (tmp_path / "saved.tar").write_bytes(tar_of(*members))
    with pytest.raises(ImageError, match="name"):
        await shelf.import_archive(tmp_path / "saved.tar")


def test_an_archive_as_a_root_that_names_itself_or_several(tmp_path: Path) -> None:
    digest = digest_of(b"anything")
    itself = json.dumps({"manifests": [{"digest": digest}]}).encode()
    path = tmp_path / "root.tar"
    blob = entry(f"blobs/{digest.replace(':', '/')}", itself)
    path.write_bytes(tar_of(entry("oci-layout", b"{}"), entry("index.json", itself), blob))
    (tmp_path / "files").mkdir()
    with pytest.raises(ImageError, match="cannot be unpacked"):
        unpack_image(path, tmp_path / "files")
    path.write_bytes(tar_of(entry("manifest.json", b'[{"Layers": []}, {"Layers": []}]')))
    with pytest.raises(ImageError, match="holds 2 images"):
        unpack_image(path, tmp_path / "files")


async def test_a_removal_that_was_killed_is_no_obstacle(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    (tmp_path / "saved.tar").write_bytes(MadeImage([root_layer]).saved("t/built:1"))
    got = await shelf.import_archive(tmp_path / "saved.tar")
    killed = shelf.store.layers_folder / got.config.diff_ids[0].removeprefix("sha256:")
    (killed / "about.json").unlink()
    await shelf.import_archive(tmp_path / "saved.tar")
    assert await said(shelf, "echo there") == "there"


async def test_a_folder_that_its_own_layer_deletes_is_a_new_one(
    shelf: ImageShelf, tmp_path: Path, root_layer: bytes
) -> None:
    lower = tar_of(folder("d"), entry("d/old", b""), folder("e"), entry("e/old", b""))
    upper = tar_of(entry(".wh.d"), folder("d"), entry("d/new", b""), entry(".wh.e"), entry("e/new", b""))
    (tmp_path / "saved.tar").write_bytes(MadeImage([root_layer, lower, upper]).saved("t/built:1"))
    await shelf.import_archive(tmp_path / "saved.tar")
    assert await said(shelf, "ls /d /e") == "/d:\nnew\n\n/e:\nnew"


async def test_layers_that_differ_in_owners_only_are_two(based: ImageShelf, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/file").write_text("x")
    plain = await build(based, tmp_path / "c", "FROM base\nCOPY file /\n")
    owned = await build(based, tmp_path / "c", "FROM base\nCOPY --chown=1234:1234 file /\n")
    assert plain.image.config.diff_ids[-1] != owned.image.config.diff_ids[-1]
    await based.export("t/built:1", tmp_path / "out.tar")
    again = await based.import_archive(tmp_path / "out.tar", name="t/again")
    layers = based.store.layers_of(again.config)
    found = (layers[-1].files / "file").stat()
    ids = based.driver.ids
    assert layers[-1].owners.get("file") == (None if ids.has_users else (1234, 1234))
    assert ids.kind != "shifted" or found.st_uid == 1234
