"""A tree of a task's files, written elsewhere."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from termarena.tasks.files import scan

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_written_can_be_read_by_others_whatever_the_umask_is(tmp_path: Path) -> None:
    """Tests may run as another user than who puts them there."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep/empty").mkdir(parents=True)
    (source / "deep/er").mkdir()
    (source / "deep/er/file").write_text("x")
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o700)
    target.mkdir()
    before = os.umask(0o077)
    try:
        scan(str(source), boundary=str(source)).write_to(target)
    finally:
        os.umask(before)
    modes = {str(path.relative_to(target)): stat.S_IMODE(path.stat().st_mode) for path in target.rglob("*")}
    assert modes == {"deep": 0o755, "deep/empty": 0o755, "deep/er": 0o755, "deep/er/file": 0o644, "run.sh": 0o755}
