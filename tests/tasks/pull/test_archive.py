from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from tasks.pull.repositories import files_in
from tasks.pull.servers import Reply
from termarena.tasks.pull import PullError, Step, find_pulled, pull

if TYPE_CHECKING:
    from pathlib import Path

    from tasks.pull.servers import Site

FILES = {
    "one/task.toml": b'schema_version = "1.0"\n',
    "one/tests/test.sh": b"#!/bin/sh\n",
    "two/task.toml": b'schema_version = "1.0"\n',
    "two/data.bin": hashlib.sha512(b"noise").digest() * 3000,
}


def tar(content: dict[str, bytes], mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as opened:  # type: ignore[call-overload]  # the mode is a parameter
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755 if name.endswith(".sh") else 0o644
            opened.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def zipped(content: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if name.endswith(".sh") else 0o100644) << 16
            opened.writestr(entry, data)
    return packed.getvalue()


PACKED = {
    "tasks.tar.gz": tar(FILES),
    "tasks.tgz": tar(FILES),
    "tasks.tar.xz": tar(FILES, "w:xz"),
    "tasks.tar.bz2": tar(FILES, "w:bz2"),
    "tasks.tar": tar(FILES, "w:"),
    "tasks.zip": zipped(FILES),
}


def fails(source: str, home: Path) -> PullError:
    with pytest.raises(PullError) as caught:
        pull(source, home=home)
    return caught.value


@pytest.mark.parametrize("name", PACKED)
def test_every_kind_of_archive_is_unpacked_with_its_executable_bits(name: str, tmp_path: Path, home: Path) -> None:
    (tmp_path / name).write_bytes(PACKED[name])
    pulled = pull(str(tmp_path / name), home=home, offline=True)
    assert files_in(pulled.path) == FILES
    assert pulled.revision == f"sha256:{hashlib.sha256(PACKED[name]).hexdigest()}"
    assert pulled.path.name == "tasks"
    modes = {file.name: file.stat().st_mode & 0o777 for file in pulled.path.rglob("*") if file.is_file()}
    assert (modes["test.sh"], modes["task.toml"]) == (0o755, 0o644)


def test_an_archive_behind_a_url_is_fetched_once(site: Site, home: Path) -> None:
    site.pages["/tasks.tar.gz"] = Reply(body=PACKED["tasks.tar.gz"])
    steps: list[Step] = []
    first = pull(f"{site.url}/tasks.tar.gz", home=home, progress=steps.append)
    assert files_in(first.path) == FILES
    size = len(PACKED["tasks.tar.gz"])
    assert Step("fetching", size, size) in steps
    assert pull(f"{site.url}/tasks.tar.gz", home=home).is_from_cache
    assert len(site.requests) == 1


def test_a_file_url_is_a_file(tmp_path: Path, home: Path) -> None:
    (tmp_path / "my tasks.zip").write_bytes(PACKED["tasks.zip"])
    assert files_in(pull(f"file://{tmp_path}/my%20tasks.zip", home=home).path) == FILES


@pytest.mark.parametrize("place", ["here", "behind a URL"])
def test_a_digest_that_is_right_pins_and_one_that_is_wrong_is_refused(
    place: str, site: Site, tmp_path: Path, home: Path
) -> None:
    packed = PACKED["tasks.tar.gz"]
    site.pages["/tasks.tar.gz"] = Reply(body=packed)
    (tmp_path / "tasks.tar.gz").write_bytes(packed)
    address = str(tmp_path / "tasks.tar.gz") if place == "here" else f"{site.url}/tasks.tar.gz"
    right = hashlib.sha256(packed).hexdigest()
    error = fails(f"{address}@sha256:{'0' * 64}", home)
    assert error.reason == "digest"
    assert right in error.message
    assert files_in(pull(f"{address}@sha256:{right.upper()}", home=home).path) == FILES


def test_a_folder_of_an_archive_can_be_taken(tmp_path: Path, home: Path) -> None:
    deep = {f"set-1.0/tasks/{name}": data for name, data in FILES.items()} | {"set-1.0/README": b""}
    (tmp_path / "set.tar.gz").write_bytes(tar(deep))
    assert files_in(pull(f"{tmp_path}/set.tar.gz#set-1.0/tasks", home=home).path) == FILES
    error = fails(f"{tmp_path}/set.tar.gz#tasks", home)
    assert error.reason == "not-found"
    assert error.hint == "it holds: set-1.0"


def test_one_folder_around_the_tasks_is_left_out(tmp_path: Path, home: Path) -> None:
    (tmp_path / "set.tar.gz").write_bytes(tar({f"set-1.0/{name}": data for name, data in FILES.items()}))
    assert files_in(pull(f"{tmp_path}/set.tar.gz", home=home).path) == FILES


@pytest.mark.parametrize("tail", ["", "#set-1.0"])
def test_a_link_to_what_is_not_taken_is_refused(tail: str, tmp_path: Path, home: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        opened.addfile(tarfile.TarInfo("set-1.0/one/task.toml"))
        link = tarfile.TarInfo("set-1.0/one/link")
        link.type, link.linkname = tarfile.SYMTYPE, "../../record.json"
        opened.addfile(link)
    (tmp_path / "set.tar.gz").write_bytes(packed.getvalue())
    error = fails(f"{tmp_path}/set.tar.gz{tail}", home)
    assert error.reason == "unsafe"
    assert "the link one/link leaves it" in error.message


def test_addresses_that_differ_only_in_their_query_are_different_archives(site: Site, home: Path) -> None:
    for version in ("1", "2"):
        site.pages["/x.tar.gz"] = Reply(body=tar({f"v{version}/task.toml": b""}))
        assert list(files_in(pull(f"{site.url}/x.tar.gz?v={version}", home=home).path)) == [f"v{version}/task.toml"]
    first = pull(f"{site.url}/x.tar.gz?v=1", home=home)
    assert list(files_in(first.path)) == ["v1/task.toml"]
    assert site.paths() == ["/x.tar.gz?v=1", "/x.tar.gz?v=2"]


def test_a_download_that_is_left_is_not_used_for_another_address_of_the_same_name(
    site: Site, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for version in ("1", "2"):
        site.pages[f"/{version}.tar.gz"] = Reply(body=tar({f"v{version}/task.toml": b""}))
    with monkeypatch.context() as patched:
        patched.setattr("termarena.tasks.pull.archive.unpack", full)
        with pytest.raises(PullError, match="disk is full"):
            pull("ours", home=home, sources={"ours": f"{site.url}/1.tar.gz"})
    pulled = pull("ours", home=home, sources={"ours": f"{site.url}/2.tar.gz"})
    assert list(files_in(pulled.path)) == ["v2/task.toml"]


def test_an_archive_of_one_task_keeps_the_folder_of_that_task(tmp_path: Path, home: Path) -> None:
    (tmp_path / "one.tar.gz").write_bytes(tar({"one/task.toml": b""}))
    assert files_in(pull(f"{tmp_path}/one.tar.gz", home=home).path) == {"one/task.toml": b""}


def test_a_file_that_changed_is_another_revision(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "tasks.tar.gz"
    file.write_bytes(PACKED["tasks.tar.gz"])
    first = pull(str(file), home=home)
    assert pull(str(file), home=home).is_from_cache
    file.write_bytes(tar({"three/task.toml": b"", "four/task.toml": b""}))
    assert find_pulled(str(file), home=home) is None
    assert sorted(files_in(pull(str(file), home=home).path)) == ["four/task.toml", "three/task.toml"]
    assert files_in(first.path) == FILES


def test_a_download_that_breaks_goes_on_if_the_server_vouches_for_the_file(site: Site, home: Path) -> None:
    packed = PACKED["tasks.tar"]
    whole = Reply(body=packed, headers={"ETag": '"one"'})
    site.pages["/tasks.tar"] = whole
    site.faults["/tasks.tar"] = [whole._replace(cut_after=150_000)]
    assert files_in(pull(f"{site.url}/tasks.tar", home=home).path) == FILES
    assert [request.headers.get("If-Range") for request in site.requests] == [None, '"one"']


def test_a_download_starts_over_if_the_file_changed_in_between(site: Site, home: Path) -> None:
    other = {"three/task.toml": b"", "two/data.bin": FILES["two/data.bin"]}
    site.pages["/tasks.tar"] = Reply(body=tar(other, "w:"), headers={"ETag": '"two"'})
    site.faults["/tasks.tar"] = [Reply(body=PACKED["tasks.tar"], headers={"ETag": '"one"'}, cut_after=150_000)]
    assert files_in(pull(f"{site.url}/tasks.tar", home=home).path) == other


def test_a_download_starts_over_if_nobody_vouches_for_the_file(site: Site, home: Path) -> None:
    other = {"three/task.toml": b"", "two/data.bin": FILES["two/data.bin"]}
    site.pages["/tasks.tar"] = Reply(body=tar(other, "w:"), headers={"ETag": 'W/"weak"'})
    site.faults["/tasks.tar"] = [Reply(body=PACKED["tasks.tar"], headers={"ETag": 'W/"weak"'}, cut_after=150_000)]
    assert files_in(pull(f"{site.url}/tasks.tar", home=home).path) == other
    assert [request.headers.get("Range") for request in site.requests] == [None, None]


def test_a_download_that_is_given_up_is_continued_by_the_next_pull(site: Site, home: Path) -> None:
    packed = PACKED["tasks.tar"]
    source = f"{site.url}/tasks.tar@sha256:{hashlib.sha256(packed).hexdigest()}"
    site.pages["/tasks.tar"] = Reply(body=packed)
    site.faults["/tasks.tar"] = [Reply(body=packed, cut_after=150_000), *[Reply(502)] * 5]
    assert fails(source, home).reason == "network"
    assert files_in(pull(source, home=home).path) == FILES
    assert site.requests[-1].headers.get("Range", "").startswith("bytes=1")


def test_an_address_that_is_not_there_is_not_found(site: Site, home: Path) -> None:
    assert fails(f"{site.url}/nowhere.zip", home).reason == "not-found"


@pytest.mark.parametrize("name", PACKED)
def test_an_archive_that_is_cut_short_is_broken(name: str, tmp_path: Path, home: Path) -> None:
    (tmp_path / name).write_bytes(PACKED[name][: len(PACKED[name]) // 2])
    error = fails(str(tmp_path / name), home)
    assert error.reason == "broken"
    assert find_pulled(str(tmp_path / name), home=home) is None


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("content", [b"", b"this is no archive at all", gzip.compress(b"nor is this", mtime=0)])
def test_a_file_that_is_no_archive_is_broken(name: str, content: bytes, tmp_path: Path, home: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert fails(str(tmp_path / name), home).reason == "broken"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python can unpack Zstandard")
def test_zstandard_without_a_reader_for_it_is_refused_with_a_way_out(tmp_path: Path, home: Path) -> None:
    (tmp_path / "tasks.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    error = fails(str(tmp_path / "tasks.tar.zst"), home)
    assert "Python 3.14" in error.message
    assert "zstd -d" in str(error.hint)
