"""The paper that a recording is played on: an emulated primary screen with all its scroll-back, and places on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from termarena.sandbox.terminal.screen import Emulator

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Page", "Pin", "Place"]

SCROLLBACK_LINES: Final = 200_000


class Place(NamedTuple):
    """A place on the paper now: row from the top of the scroll-back, column."""

    row: int
    column: int


class Pin:
    """A place that moves with the text around it, whatever scrolls, flows or is erased; `free` it when done."""

    def __init__(self, library: Any, tracked: Any) -> None:  # noqa: ANN401 - handles of the C library
        """Takes over the tracked reference."""
        self._library, self._tracked = library, tracked

    def place(self) -> Place:
        """Where it is now; the top of the paper once its line is gone."""
        found = self._library.ffi.new("GhosttyPointCoordinate*")
        tag = self._library.lib.GHOSTTY_POINT_TAG_SCREEN
        if self._library.lib.ghostty_tracked_grid_ref_point(self._tracked, tag, found):
            return Place(0, 0)
        return Place(found.y, found.x)

    def free(self) -> None:
        """Forget it; it cannot be asked afterwards."""
        self._library.lib.ghostty_tracked_grid_ref_free(self._tracked)


class Page(Emulator):
    """An emulator that answers nobody and whose text can be read between two places."""

    def __init__(self, cols: int, rows: int) -> None:
        """Sizes have been checked by the caller."""
        super().__init__(cols, rows, scrollback_lines=SCROLLBACK_LINES, reply=lambda _: None)
        from pyghostty._ffi import union_fn  # noqa: PLC0415 - loaded only where a recording is read

        self._track = union_fn(
            "ghostty_terminal_grid_ref_track",
            "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyTrackedGridRef*)",
        )

    def __enter__(self) -> Self:
        """The page itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the memory back."""
        self.close()

    def pin(self) -> Pin:
        """The cursor's place, to be asked for later."""
        ffi, lib = self._library.ffi, self._library.lib
        point = ffi.new("GhosttyPointS*")
        point.tag = lib.GHOSTTY_POINT_TAG_ACTIVE
        point.value.x, point.value.y = self._terminal.cursor
        out = ffi.new("GhosttyTrackedGridRef*")
        if self._track(self._terminal._t[0], point[0], out):  # noqa: SLF001 - the binding has no method for it
            raise self._library.GhosttyError("the emulator cannot keep a place")
        return Pin(self._library, out[0])

    def here(self) -> Place:
        """The cursor's place now."""
        column, row = self._terminal.cursor
        return Place(self._terminal.get("scrollback_rows", "size_t") + row, column)

    def text(self, start: Place, end: Place, *, to_line_end: bool = False) -> str:
        """What stands from `start` up to before `end`, wrapped lines joined, blanks at line ends dropped."""
        cols = self._terminal.size[0]
        last = Place(end.row, cols - 1) if to_line_end else _before(end, cols)
        last = min(last, Place(self._terminal.get("total_rows", "size_t") - 1, cols - 1))
        if last < start:
            return ""
        from pyghostty.core import init_sized  # noqa: PLC0415 - as above

        selection = init_sized("GhosttySelection")
        selection.start = self._terminal.ref(min(start.column, cols - 1), start.row, "screen")[0]
        selection.end = self._terminal.ref(last.column, last.row, "screen")[0]
        shown: str = self._terminal._format_sel(selection, unwrap=True)  # noqa: SLF001 - the binding's only way to join lines
        return shown

    def top_row(self) -> int:
        """The first row of the screen, behind the scroll-back."""
        return int(self._terminal.get("scrollback_rows", "size_t"))

    def last_row(self) -> int:
        """The last row of the screen."""
        return int(self._terminal.get("total_rows", "size_t")) - 1

    def everything(self) -> str:
        """The whole paper, wrapped lines joined."""
        shown: str = self._terminal.contents()
        return shown


def _before(place: Place, cols: int) -> Place:
    return Place(place.row, place.column - 1) if place.column else Place(place.row - 1, cols - 1)
