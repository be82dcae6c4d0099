"""What is kept of an output of any length: the first bytes, the last bytes, and how many there were."""

from __future__ import annotations

__all__ = ["Kept"]


class Kept:
    """Takes pieces in order. However many and however small they are, it holds no more than the first `keep_bytes` and
    twice `tail_bytes`."""

    def __init__(self, keep_bytes: int, tail_bytes: int = 0) -> None:
        """The tail holds nothing that the first bytes hold."""
        self.total_bytes = 0
        self._keep_bytes = keep_bytes
        self._tail_bytes = tail_bytes
        self._first = bytearray()
        self._last = bytearray()

    def take(self, piece: bytes) -> None:
        """The next piece."""
        self.total_bytes += len(piece)
        room = self._keep_bytes - len(self._first)
        self._first += piece[:room]
        if self._tail_bytes and len(piece) > room:
            self._last += piece[room:]
            if len(self._last) > 2 * self._tail_bytes:
                del self._last[: -self._tail_bytes]

    def first(self) -> bytes:
        """The first bytes."""
        return bytes(self._first)

    def last(self) -> bytes:
        """The last bytes of what did not fit into the first."""
        return bytes(self._last[-self._tail_bytes :]) if self._tail_bytes else b""
