"""What tests wrote, as far as it is kept: bytes for the record, text for the parsers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.core.scrub import Scrubber

__all__ = ["FIRST_BYTES", "GAP", "LAST_BYTES", "TestOutput"]

FIRST_BYTES: Final = 1 << 20
LAST_BYTES: Final = 4 << 20
"""More than of the beginning: results stand at the end."""
GAP: Final = re.compile(r"\[… \d+ bytes left out …\]")
"""The line that stands for the missing middle."""


@dataclass(frozen=True, slots=True)
class TestOutput:
    """Standard output and error as one stream, in the order in which it was written."""

    __test__ = False  # pytest looks for classes of this name

    first: bytes
    last: bytes
    total_bytes: int

    @property
    def left_out_bytes(self) -> int:
        """How much of the middle is not kept."""
        return self.total_bytes - len(self.first) - len(self.last)

    def joined(self) -> bytes:
        """All that is kept, with a line where the middle is missing."""
        missing = self.left_out_bytes
        gap = f"\n[… {missing} bytes left out …]\n".encode() if missing else b""
        return self.first + gap + self.last

    def text(self) -> str:
        """The same, as text."""
        return self.joined().decode("utf-8", "replace")

    def save(self, path: Path, scrubber: Scrubber | None = None) -> None:
        """Write it to a file, without secrets if there is a scrubber; raises `OSError` from the host."""
        path.write_bytes(scrubber.scrub_bytes(self.joined()) if scrubber is not None else self.joined())
