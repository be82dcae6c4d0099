from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import DigestMismatch
from termarena.tasks.pull import find_pulled, pull

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONTENT = b'version = "1.0"\n'


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for name in ("one/task.toml", "two/task.toml"):
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT)
            opened.addfile(member, io.BytesIO(CONTENT))
        link = tarfile.TarInfo("two/link")
        link.type, link.linkname = tarfile.SYMTYPE, "task.toml"
        opened.addfile(link)
    (tmp_path / "tasks.tar.gz").write_bytes(packed.getvalue())
    return tmp_path / "tasks.tar.gz"


def half(file: Path) -> None:
    file.write_bytes(CONTENT[:5])


def same_size(file: Path) -> None:
    file.write_bytes(CONTENT.replace(b"1", b"2"))
    os.utime(file, ns=(1, 1))


def another_link(file: Path) -> None:
    link = file.parent.parent / "two" / "link"
    link.unlink()
    link.symlink_to("task.tom_")


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (half, "one/task.toml changed"),
        (same_size, "one/task.toml changed"),
        (lambda file: file.unlink(), "one/task.toml is missing"),
        (lambda file: file.with_name("more").touch(), "one/more is new"),
        (another_link, "two/link changed"),
        (lambda file: (file.parents[2] / "contents.json").unlink(), "contents.json is missing or damaged"),
    ],
)
def test_a_changed_file_in_the_cache_is_told_and_fetched_anew(
    archive: Path, home: Path, harm: Callable[[Path], None], told: str
) -> None:
    pulled = pull(str(archive), home=home)
    harm(pulled.path / "one" / "task.toml")
    with pytest.raises(DigestMismatch, match=told) as caught:
        find_pulled(str(archive), home=home)
    assert caught.value.hint == f"fetch it anew with: termarena datasets pull {archive}"
    again = pull(str(archive), home=home)
    assert again.is_from_cache is False
    assert again.notes == (f"the copy in the cache was no longer as it was pulled ({told}): it was fetched anew",)
    assert (again.path / "one" / "task.toml").read_bytes() == CONTENT
    assert not (again.path / "one" / "more").exists()
    third = pull(str(archive), home=home)
    assert (third.is_from_cache, third.notes) == (True, ())


def test_a_copy_with_other_times_and_what_our_own_commands_leave_are_no_damage(archive: Path, home: Path) -> None:
    pulled = pull(str(archive), home=home)
    os.utime(pulled.path / "one" / "task.toml", ns=(1, 1))
    (pulled.path / "dataset.lock.json").write_text("{}")
    assert pull(str(archive), home=home).is_from_cache is True
    assert find_pulled(str(archive), home=home) is not None


def test_refresh_mends_a_damaged_copy_of_the_same_revision(archive: Path, home: Path) -> None:
    pulled = pull(str(archive), home=home)
    half(pulled.path / "two" / "task.toml")
    again = pull(str(archive), home=home, refresh=True)
    assert (again.is_from_cache, again.revision) == (False, pulled.revision)
    assert "two/task.toml changed" in again.notes[0]
