"""What layers of an image hold, read on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.proof import leaks
from termarena.proof.leaks import buried_in

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
    assert [path for path, _ in found] == ["/app/own.txt"]


def test_no_more_files_are_read_than_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "MOST_BURIED", 2)
    for top in ("tests", "solution", "oracle"):
        (tmp_path / top).mkdir()
    for number in range(9):
        _file(tmp_path / "app" / f"{number}.txt", f"number {number}")
    assert list(buried_in([tmp_path], ["/app"])) == [(taken, "") for taken in leaks.TAKEN]
