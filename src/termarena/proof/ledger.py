"""The ledger: evidence by its key, appended as it comes, so that a battery goes on where it stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pydantic import ValidationError

from termarena.proof.evidence import Evidence

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Ledger"]


class Ledger:
    """The evidence on one task as it stands; a file of lines, or nothing that lasts."""

    def __init__(self, path: Path | None) -> None:
        """Reads what is there. A line that was cut off, or that another version wrote, is no evidence."""
        self._path = path
        self._known: dict[str, Evidence] = {}
        if path is not None and path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    found = Evidence.model_validate_json(line)
                except ValidationError:
                    continue
                self._known[found.key] = found

    def get(self, key: str) -> Evidence | None:
        """What was found before."""
        return self._known.get(key)

    def add(self, evidence: Evidence) -> None:
        """Keep it. Raises `OSError`."""
        self._known[evidence.key] = evidence
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(evidence.model_dump(mode="json"), ensure_ascii=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
