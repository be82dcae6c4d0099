"""Folders that are built once and shared by every process of a user."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["build_once", "remove_abandoned", "remove_tree"]

ABANDONED_AFTER_S = 3600.0


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """`target`, built beside it and renamed when complete; two processes may race, the first one's result stays."""
    if target.is_dir():
        return target
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        build(scratch)
        try:
            scratch.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        if scratch.is_dir():
            remove_tree(scratch)
    return target


def remove_tree(path: Path) -> None:
    """Remove a tree of our own that may hold folders without permissions."""
    path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        # Before it goes into them: a closed one would be passed over.
        for inner in (Path(folder, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path)


def remove_abandoned(parent: Path) -> None:
    """Remove what a killed process had begun to build, once nobody can be building it any more."""
    for scratch in parent.glob(".*-*"):
        if time.time() - scratch.lstat().st_mtime > ABANDONED_AFTER_S:
            remove_tree(scratch)
