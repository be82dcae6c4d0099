"""The ledger: evidence by its key, appended as it comes, so that a battery goes on where it stopped."""

from __future__ import annotations

import contextlib
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
        self._notes: dict[str, object] = {}
        self._is_cut_off = False
        if path is not None and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            self._is_cut_off = bool(text) and not text.endswith("\n")
            for line in text.splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            found = Evidence.model_validate_json(line)
        except ValidationError:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                note = json.loads(line)
                self._notes[note["note"]] = note["value"]
        else:
            self._known[found.key] = found

    def get(self, key: str) -> Evidence | None:
        """What was found before."""
        return self._known.get(key)

    def add(self, evidence: Evidence) -> None:
        """Keep it. Raises `OSError`."""
        self._known[evidence.key] = evidence
        self._append(evidence.model_dump(mode="json"))

    def note(self, name: str) -> object | None:
        """What was found by other means than a trial."""
        return self._notes.get(name)

    def add_note(self, name: str, value: object) -> None:
        """Keep what JSON can hold. Raises `OSError`."""
        self._notes[name] = value
        self._append({"note": name, "value": value})

    def _append(self, value: object) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(("\n" if self._is_cut_off else "") + json.dumps(value, ensure_ascii=True) + "\n")
        self._is_cut_off = False
