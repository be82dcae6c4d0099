"""The files by which a folder says what it is; known without loading any format."""

from __future__ import annotations

from typing import Final

__all__ = ["COLLECTION", "HARBOR", "MANIFEST", "SIMPLE", "TERMINAL_BENCH_1"]

HARBOR: Final = "task.toml"
TERMINAL_BENCH_1: Final = "task.yaml"
SIMPLE: Final = "metadata.json"
COLLECTION: Final = "tasks.json"
"""Many tasks of the simple format in one file."""
MANIFEST: Final = "dataset.toml"
"""Lists the tasks of a folder."""
