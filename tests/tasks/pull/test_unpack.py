from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termarena.tasks.pull import Plan, PullError
from termarena.tasks.pull.contract import Reporter
from termarena.tasks.pull.unpack import Limits, unpack

if TYPE_CHECKING:
    from pathlib import Path

PLAN = Plan("archive", "archive", "archive", "archive", None, "", is_pinned=False)


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", data: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(data)
    return info, data


def tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for info, data in entries:
            opened.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def unpacked(content: bytes, tmp_path: Path, name: str = "a.tar.gz") -> Path:
    """Where it was unpacked: a folder inside a folder that must stay as it is."""
    (tmp_path / name).write_bytes(content)
    into = tmp_path / "outer" / "into"
    into.mkdir(parents=True)
    unpack(tmp_path / name, into, PLAN, Reporter())
    return into


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def refused(content: bytes, tmp_path: Path, name: str = "a.tar.gz") -> str:
    with pytest.raises(PullError) as caught:
        unpacked(content, tmp_path, name)
    assert caught.value.reason == "unsafe"
    assert names_in(tmp_path / "outer") == ["into"]
    assert names_in(tmp_path) == sorted([name, "outer"])
    return caught.value.message


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/outside", "a/./../../outside", "..", "a//b"])
def test_an_entry_that_would_leave_is_refused(name: str, tmp_path: Path) -> None:
    assert "would leave" in refused(tar(entry(name, data=b"x")), tmp_path)


@pytest.mark.parametrize("name", ["../outside", "/outside", "a/../../outside"])
def test_an_entry_of_a_zip_that_would_leave_is_refused(name: str, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        opened.writestr(zipfile.ZipInfo(name), b"x")
    assert "would leave" in refused(packed.getvalue(), tmp_path, "a.zip")


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "../../outside", "sub/../../outside"])
def test_a_link_that_leaves_is_refused(target: str, tmp_path: Path) -> None:
    refused(tar(entry("sub", tarfile.DIRTYPE), entry("link", tarfile.SYMTYPE, target)), tmp_path)


def test_a_link_that_names_the_place_itself_is_refused_since_the_place_will_move(tmp_path: Path) -> None:
    inside = str(tmp_path / "outer/into/file")
    assert "points to" in refused(tar(entry("file"), entry("link", tarfile.SYMTYPE, inside)), tmp_path)


def test_links_that_leave_only_together_are_refused(tmp_path: Path) -> None:
    steps = [entry("here", tarfile.SYMTYPE, "."), entry("up", tarfile.SYMTYPE, "here/..")]
    assert "leaves it" in refused(tar(*steps), tmp_path)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    refused(tar(entry("sub", tarfile.SYMTYPE, "../.."), entry("sub/outside", data=b"x")), tmp_path)


@pytest.mark.parametrize(
    "target", ["../../victim", "inside", "."], ids=["leading out", "leading to nothing", "leading to a folder"]
)
@pytest.mark.parametrize("order", [["a", "a/evil", "a/deep/er/evil"], ["a/deep/er/evil", "a/evil", "a"]])
def test_no_link_or_folder_is_made_through_a_link(target: str, order: list[str], tmp_path: Path) -> None:
    links = [entry(name, tarfile.SYMTYPE, target if name == "a" else "key") for name in order]
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "victim").mkdir()
    message = refused(tar(*links), place)
    assert "lies below another link" in message or "leaves it" in message
    assert not list((tmp_path / "victim").iterdir())
    assert not list((place / "outer/into").iterdir())


def test_a_link_that_leaves_is_never_made(tmp_path: Path) -> None:
    refused(tar(entry("good", tarfile.SYMTYPE, "file"), entry("bad", tarfile.SYMTYPE, "../../outside")), tmp_path)
    assert names_in(tmp_path / "outer/into") == []


def test_two_links_of_one_name_are_refused_before_one_is_made(tmp_path: Path) -> None:
    refused(tar(entry("a", tarfile.SYMTYPE, "../.."), entry("a", tarfile.SYMTYPE, ".")), tmp_path)
    assert names_in(tmp_path / "outer/into") == []


def test_a_link_in_a_circle_leads_nowhere_and_is_kept(tmp_path: Path) -> None:
    into = unpacked(tar(entry("a", tarfile.SYMTYPE, "b"), entry("b", tarfile.SYMTYPE, "./a/x")), tmp_path)
    assert names_in(into) == ["a", "b"]


def test_a_link_to_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    assert "no system can hold" in refused(tar(entry("a", tarfile.SYMTYPE, "b" * 4096)), tmp_path)


def test_a_link_in_place_of_a_folder_that_has_files_is_refused(tmp_path: Path) -> None:
    refused(tar(entry("sub/file", data=b"x"), entry("sub", tarfile.SYMTYPE, "elsewhere")), tmp_path)


def test_a_link_of_a_zip_that_leaves_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        link = zipfile.ZipInfo("link")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        opened.writestr(link, "../../outside")
    assert "leaves it" in refused(packed.getvalue(), tmp_path, "a.zip")


def test_links_that_stay_inside_are_kept(tmp_path: Path) -> None:
    names = [entry("sub/file", data=b"x"), entry("sub/link", tarfile.SYMTYPE, "file")]
    into = unpacked(tar(*names, entry("up", tarfile.SYMTYPE, "sub/../sub/link")), tmp_path)
    assert (into / "sub/link").is_symlink()
    assert (into / "up").read_bytes() == b"x"


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"9"])
def test_devices_and_pipes_are_refused(kind: bytes, tmp_path: Path) -> None:
    assert "no file" in refused(tar(entry("thing", kind)), tmp_path)


def test_a_device_in_a_zip_is_refused(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        device = zipfile.ZipInfo("device")
        device.create_system, device.external_attr = 3, 0o020666 << 16
        opened.writestr(device, b"")
    assert "no file" in refused(packed.getvalue(), tmp_path, "a.zip")


@pytest.mark.parametrize("target", ["../outside", "/etc/passwd", "later", "link"])
def test_a_hard_link_to_anything_but_a_file_before_it_is_refused(target: str, tmp_path: Path) -> None:
    before = entry("link", tarfile.SYMTYPE, "x")
    refused(tar(before, entry("hard", tarfile.LNKTYPE, target), entry("later", data=b"x")), tmp_path)


def test_a_hard_link_becomes_a_copy(tmp_path: Path) -> None:
    into = unpacked(tar(entry("file", data=b"x"), entry("hard", tarfile.LNKTYPE, "file")), tmp_path)
    assert (into / "hard").read_bytes() == b"x"
    assert (into / "hard").stat().st_nlink == 1


@pytest.mark.parametrize("second", [entry("a", data=b"y"), entry("a/b", data=b"y"), entry("a", tarfile.SYMTYPE, "b")])
def test_two_entries_for_one_name_are_refused(second: tuple[tarfile.TarInfo, bytes], tmp_path: Path) -> None:
    refused(tar(entry("a", data=b"x"), second), tmp_path)


def test_special_bits_are_dropped(tmp_path: Path) -> None:
    info, data = entry("tool", data=b"x")
    info.mode = 0o6777
    assert (unpacked(tar((info, data)), tmp_path) / "tool").stat().st_mode & 0o7777 == 0o755


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.tasks.pull.unpack.LIMITS", Limits(ratio_from_bytes=1 << 20))
    message = refused(tar(entry("zeros", data=bytes(8 << 20))), tmp_path)
    assert "200 times its size" in message
    assert (tmp_path / "outer/into/zeros").stat().st_size <= 2 << 20


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.tasks.pull.unpack.LIMITS", Limits(ratio_from_bytes=1 << 20))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("zeros", bytes(8 << 20))
    assert "200 times its size" in refused(packed.getvalue(), tmp_path, "a.zip")


def test_a_sparse_file_counts_for_what_it_unpacks_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.tasks.pull.unpack.LIMITS", Limits(ratio_from_bytes=1 << 20))
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40), "GNU.sparse.numblocks": "1"}
    info.size = 1
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT) as opened:
        opened.addfile(info, io.BytesIO(b"x"))
    assert "200 times its size" in refused(packed.getvalue(), tmp_path)


def test_a_file_that_is_dense_but_small_is_fine(tmp_path: Path) -> None:
    assert (unpacked(tar(entry("zeros", data=bytes(8 << 20))), tmp_path) / "zeros").stat().st_size == 8 << 20


def test_too_many_bytes_and_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.tasks.pull.unpack.LIMITS", Limits(files=3, size_bytes=1000))
    many = tar(*(entry(f"file-{number}") for number in range(4)))
    assert "more than 3 entries" in refused(many, tmp_path)
    large = tmp_path / "second"
    large.mkdir()
    assert "more than 1,000 bytes" in refused(tar(entry("large", data=bytes(1001))), large)


def test_a_header_of_gigabytes_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("name")
    header.type, header.size = tarfile.XHDTYPE, 4 << 30
    zeros = bytes(1 << 20)
    with gzip.open(tmp_path / "a.tar.gz", "wb", compresslevel=1) as packed:
        packed.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(80):
            packed.write(zeros)
    content = (tmp_path / "a.tar.gz").read_bytes()
    assert "headers" in refused(content, tmp_path)


def test_a_zip_with_a_password_is_broken_without_it(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as opened:
        opened.writestr("file", b"x" * 20)
    content = bytearray(packed.getvalue())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + offset] |= 1
    with pytest.raises(PullError, match="password") as caught:
        unpacked(bytes(content), tmp_path, "a.zip")
    assert caught.value.reason == "broken"


GOOD = {
    "a.tar": gzip.decompress(
        tar(entry("a/b", data=b"x" * 700), entry("a/c", tarfile.SYMTYPE, "b"), entry("long" * 60))
    ),
    "a.tar.gz": tar(entry("a/b", data=b"x" * 700)),
    "a.tar.xz": lzma.compress(gzip.decompress(tar(entry("a/b", data=b"x" * 700)))),
}


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(GOOD)),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=40)), max_size=6),
)
def test_any_bytes_give_files_inside_or_a_pull_error(
    name: str, changes: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(GOOD[name])
    for at, data in changes:
        content[at : at + len(data)] = data
    tmp_path = tmp_path_factory.mktemp("fuzz")
    try:
        unpacked(bytes(content), tmp_path, name)
    except PullError as error:
        assert error.reason in ("unsafe", "broken", "unwritable")  # noqa: PT017 - either way is right
    assert names_in(tmp_path) == sorted([name, "outer"])
    assert names_in(tmp_path / "outer") == ["into"]
