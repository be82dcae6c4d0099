"""What layers of an image hold, read on this machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from functools import partial
from typing import TYPE_CHECKING

import pytest
import zstandard

from proof.test_gate import BARE
from termarena.proof import exported, leaks
from termarena.proof.card import card_of
from termarena.proof.exported import Buried, read_export
from termarena.proof.leaks import Leaks, buried_in
from termarena.proof.policy import Policy, falls_short
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.docker import DockerDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_links_of_a_layer_lead_to_no_file_of_this_machine(tmp_path: Path) -> None:
    layer, host = tmp_path / "layer", tmp_path / "host"
    _file(host / "deep" / "own.txt", "of this machine")
    _file(layer / "app" / "own.txt", "of the layer")
    (layer / "opt").symlink_to(host)
    (layer / "srv").symlink_to(host)
    (layer / "tests").symlink_to(host)
    found = buried_in([layer], ["/app", "/opt", "/srv/deep", "/app/../../host"])
    assert [path for path, _ in found.files] == ["/app/own.txt"]
    assert (found.layers, found.unread) == (1, {})


def test_no_more_files_are_read_than_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "MOST_BURIED", 2)
    for top in ("tests", "solution", "oracle"):
        (tmp_path / top).mkdir()
    for number in range(9):
        _file(tmp_path / "app" / f"{number}.txt", f"number {number}")
    found = buried_in([tmp_path], ["/app"])
    assert list(found.files) == [(taken, "") for taken in leaks.TAKEN]
    assert list(found.unread) == ["layers of the image: more than 2 files: the rest"]


def _tar(members: Mapping[str, bytes | None]) -> bytes:
    """An archive of files; None is a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.type, member.size = (tarfile.DIRTYPE, 0) if content is None else (tarfile.REGTYPE, len(content))
            archive.addfile(member, io.BytesIO(content or b""))
    return out.getvalue()


def _read(path: Path) -> Buried:
    return read_export(os.open(path, os.O_RDONLY), below=["/app", "/opt"], folders=["/tests"], sizes=range(4, 100))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize(
    "names", [("a/layer.tar", "b/layer.tar"), ("blobs/sha256/a", "blobs/sha256/b"), ("a.tar", "b.tar")]
)
def test_an_exported_image_is_read_layer_by_layer(
    tmp_path: Path, names: tuple[str, str], pack: Callable[[bytes], bytes]
) -> None:
    secret, digest = b"the answer\n", hashlib.sha256(b"the answer\n").hexdigest()
    below = _tar({"opt/secret": secret, "etc/secret": secret, "opt/x": b"1", "opt/large": bytes(100), "tests": None})
    above = _tar({"opt/.wh.secret": b"", "./app/../opt/twice": secret, "../opt/out": secret, "app/link/opt": secret})
    description = {"blobs/sha256/c": b'{"config": {}}', "manifest.json": b"[]"}
    archive = {names[0]: pack(below), **description, names[1]: pack(above)}
    path = tmp_path / "image.tar"
    path.write_bytes(_tar(archive))
    found = _read(path)
    assert (found.layers, found.unread) == (2, {})
    copies = [(path, digest) for path in ("/opt/secret", "/opt/twice", "/app/link/opt")]
    assert sorted(found.files) == sorted([*copies, ("/tests", "")])
    path.write_bytes(_tar(archive)[:1200])
    part = _read(path)
    assert part.files.keys() < found.files.keys()
    assert part.unread


def test_a_layer_whose_headers_fill_the_memory_is_not_read_on(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as layer:
        member = tarfile.TarInfo("opt/secret")
        member.size, member.pax_headers = 4, {"comment": "x" * (2 << 20)}
        layer.addfile(member, io.BytesIO(b"1234"))
    path = tmp_path / "image.tar"
    path.write_bytes(_tar({"a/layer.tar": out.getvalue(), "b/layer.tar": _tar({"opt/other": b"1234"})}))
    found = _read(path)
    assert [name for name, _ in found.files] == ["/opt/other"]
    assert list(found.unread) == ["a/layer.tar: a layer that is broken: a header is longer than 1048576 bytes"]


def test_what_of_an_image_could_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = _tar({"opt/one": b"1234", "opt/two": b"5678"})
    layers = {
        "blobs/sha256/damaged": files[:1024] + b"x" * 512 + files[1536:],
        "blobs/sha256/cut": gzip.compress(files)[:-20],
        "blobs/sha256/noise": b"no archive at all",
        "blobs/sha256/description": b'{"layers": []}',
        "blobs/sha256/nothing": b"",
    }
    path = tmp_path / "image.tar"
    path.write_bytes(_tar(layers))
    assert [told.partition(":")[0] for told in _read(path).unread] == list(layers)[:3]
    path.write_bytes(_tar({"a.tar": files}) + b"x" * 512)
    monkeypatch.setattr(exported, "MOST_FILES", 1)
    assert list(_read(path).unread) == ["layers of the image: more than 1 files: the rest"]
    path.write_bytes(_tar({"a.tar": files})[: 512 + len(files) + 100])
    assert "the image's archive: broken" in " ".join(_read(path).unread)


def test_a_gate_that_lets_no_leak_through_holds_what_was_not_looked_at_against_a_task() -> None:
    bare = Leaks(files=3, layers=1)
    for found, told in ((bare, []), (bare.model_copy(update={"unread": ("a.tar: cut",)}), ["leak: not all of"])):
        proof = BARE.model_copy(update={"leaks": found})
        short = falls_short(proof, Policy(forbidden=("leak",)))
        assert [one[:16] for one in short if one.startswith("leak")] == told
        assert ("a.tar: cut" in card_of(proof)) == bool(told)


@pytest.mark.needs("docker")
async def test_an_engine_exports_what_a_later_layer_removed(tmp_path: Path) -> None:
    _file(tmp_path / "image" / "Dockerfile", "FROM debian:bookworm\nCOPY x /opt/x\nRUN rm /opt/x\n")
    _file(tmp_path / "image" / "x", "the answer\n")
    spec = SandboxSpec(root=Root(kind="dockerfile", path=tmp_path / "image"))
    read = partial(read_export, below=["/opt"], folders=leaks.TAKEN, sizes=range(4, 100))
    async with DockerDriver(home=tmp_path / "home") as driver:
        found = await driver.export(spec, read)
    assert found.layers >= 3
    assert list(found.files) == [("/opt/x", hashlib.sha256(b"the answer\n").hexdigest())]
