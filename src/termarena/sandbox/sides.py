"""How large a terminal may be."""

from __future__ import annotations

from typing import Final

from termarena.core.errors import TerminalSizeError

__all__ = ["LARGEST_SIDE", "check_size"]

LARGEST_SIDE: Final = 1000


def check_size(cols: int, rows: int) -> None:
    """Raises `TerminalSizeError` outside 1x1 to 1000x1000."""
    if not (1 <= cols <= LARGEST_SIDE and 1 <= rows <= LARGEST_SIDE):
        raise TerminalSizeError(cols, rows, largest=LARGEST_SIDE)
