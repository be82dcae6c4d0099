"""Owners where there is one id: what cannot carry the attribute is remembered, and told as long as it is true."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from termarena.sandbox.namespace.inside import owners, syscalls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "_UNMARKED", {})


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """A symbolic link, as process 1 has it: by a descriptor of the link itself."""
    (tmp_path / "link").symlink_to("nowhere")
    fd = os.open(tmp_path / "link", os.O_PATH | os.O_NOFOLLOW)
    yield f"/proc/self/fd/{fd}"
    os.close(fd)


def _refuse(*_: Any, **__: Any) -> None:  # noqa: ANN401 - in the place of a function of the system
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_owner_of_a_link_is_remembered_until_it_is_roots_again(link: str) -> None:
    assert owners.record(link, 5, 7) is False
    assert owners.of(link) == (5, 7)
    owners.record(link, 0, 0)
    assert owners.of(link) is None
    assert owners.record(link, 6, 6) is False
    assert owners.of(link) == (6, 6)


def test_what_a_child_gave_to_root_is_not_told_as_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was remembered because the disk was full; a child that then changes it forgets that for itself alone."""
    large = tmp_path / "large"
    large.touch()
    with monkeypatch.context() as full:
        full.setattr(os, "setxattr", _refuse)
        assert owners.record(str(large), 5, 5) is False
    of_process_1 = dict(owners._UNMARKED)  # noqa: SLF001 - what a fork copies
    assert owners.record(str(large), 0, 0) is True
    monkeypatch.setattr(owners, "_UNMARKED", of_process_1)
    assert owners.of(str(large)) == (0, 0)


def test_a_child_that_cannot_say_so_says_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "setxattr", _refuse)
    (tmp_path / "large").touch()
    owners.record(str(tmp_path / "large"), 5, 5)
    assert owners.record(str(tmp_path / "large"), 0, 0) is False


def test_a_new_file_with_the_number_of_one_that_is_gone_is_not_its_owners(
    link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners.record(link, 5, 5)
    statx = syscalls.raw_statx

    def later(fd: int, *, flags: int, mask: int) -> bytearray:
        told = statx(fd, flags=flags, mask=mask)
        if not told[owners.STATX_MASK_AT + 1] & owners.STATX_BTIME >> 8:
            pytest.skip("this file system tells no birth")
        told[owners.STATX_BTIME_AT] ^= 1
        return told

    monkeypatch.setattr(syscalls, "raw_statx", later)
    assert owners.of(link) is None
