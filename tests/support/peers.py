"""Folders that Harbor 0.24.0 and Terminal-Bench 0.2.18 wrote when their own oracle and nop ran small odd tasks.

Their JSON files are kept as they were, but for names of folders and of people; recordings and logs are left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

PACKED = Path(__file__).parent.parent / "runs" / "peers"
Name = Literal["harbor-oracle", "harbor-nop", "tb-oracle"]


def unpack(name: Name, folder: Path) -> Path:
    """Write the folder as the peer left it, and return it."""
    files = json.loads((PACKED / f"{name}.json").read_text(encoding="utf-8"))
    for path, document in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(document), encoding="utf-8")
    return folder


def change(file: Path, **fields: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    """Write a record with some of its fields changed."""
    document = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**document, **fields}), encoding="utf-8")


def trial_file(job: Path, task: str, *, number: int = 0) -> Path:
    """The result of one of Harbor's trials of a task."""
    return sorted(job.glob(f"{task}__*/result.json"))[number]
