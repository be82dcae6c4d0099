"""The title of a recording, given when it has been made."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["set_title"]


def set_title(path: Path, title: str) -> None:
    """Put a title into an asciicast's first line; the file is replaced whole. Raises OSError and `ValueError`."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with path.open("rb") as source, temporary.open("xb") as target:
            header = json.loads(source.readline())
            target.write(json.dumps({**header, "title": title}, ensure_ascii=False).encode() + b"\n")
            shutil.copyfileobj(source, target)
        shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
