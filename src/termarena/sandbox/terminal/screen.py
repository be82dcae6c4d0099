"""The screen: a terminal emulator on the host, fed with what the programs in the sandbox write.

Everything that arrives is hostile. The emulator keeps no images, reads no files, reports no title, and its answers to
queries pass an allow list, because a program can ask and end, and the answer is then typed into the shell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import MissingExtra
from termarena.sandbox.terminal.contract import Cursor, ScreenState

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Emulator", "load_emulator"]

TITLE_LENGTH: Final = 256
SCROLLBACK_BYTES: Final = 128 << 20
"""At eight bytes a cell, 50,000 lines of 320 columns."""
CELL_PIXELS: Final = (8, 16)
FOREGROUND, BACKGROUND = (204, 204, 204), (0, 0, 0)
BRACKETED_PASTE, APPLICATION_CURSOR = 2004, 1
# Reports of numbers (CSI), colours (OSC 4, 10-12), attributes and the emulator's name (DCS): nothing a program chose.
_SAFE_REPLY: Final = re.compile(
    rb"\x1b\[[?>=]?[0-9;:]*\$?[A-Za-z]"
    rb"|\x1b\](?:4;[0-9]+|1[0-2]);rgb:[0-9a-f/]+(?:\x07|\x1b\\)"
    rb"|\x1bP(?:[01]\$r[0-9;:]*[ \"]?[a-z]?|!\|[0-9A-F]{8}|>\|libghostty[ 0-9.]*)\x1b\\"
)
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def load_emulator() -> None:
    """Import the emulator's library, which takes some tenths of a second; raises `MissingExtra`."""
    try:
        import pyghostty  # noqa: F401, PLC0415 - loaded only where a terminal is opened
    except ImportError as error:
        raise MissingExtra("pyghostty", extra="all", purpose="a terminal") from error


class Emulator:
    """One emulated screen with its scrollback; sizes have been checked by the caller."""

    def __init__(self, cols: int, rows: int, *, scrollback_lines: int, reply: Callable[[bytes], None]) -> None:
        """`reply` is called, during `feed`, with answers for the programs."""
        load_emulator()
        import pyghostty  # noqa: PLC0415 - as above

        self._library = pyghostty
        self._size = (cols, rows)
        self._reply = reply
        self._terminal = pyghostty.Terminal(cols, rows, scrollback_lines, FOREGROUND, BACKGROUND)
        self._terminal.on_reply(self._answer)
        self._forbid_images()
        self._make_room()
        self._answer_size()

    def _forbid_images(self) -> None:
        """Without room for images the whole protocol is off, the reading of files by name included."""
        none = self._library.ffi.new("uint64_t*", 0)
        self._set(self._library.lib.GHOSTTY_TERMINAL_OPT_KITTY_IMAGE_STORAGE_LIMIT, none)

    def _make_room(self) -> None:
        """The emulator's own limit is 10,000 bytes, whatever the limit in lines: 900 lines of 80 columns."""
        room = self._library.ffi.new("size_t*", SCROLLBACK_BYTES)
        self._set(self._library.lib.GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_BYTES, room)

    def _answer_size(self) -> None:
        ffi, lib = self._library.ffi, self._library.lib

        def fill(_: object, __: object, out: Any) -> bool:  # noqa: ANN401 - a pointer of the C library
            out.columns, out.rows = self._size
            out.cell_width, out.cell_height = CELL_PIXELS
            return True

        self._size_callback = ffi.callback("GhosttyTerminalSizeFn", fill)
        self._set(lib.GHOSTTY_TERMINAL_OPT_SIZE, self._size_callback)

    def _set(self, option: int, value: object) -> None:
        # The binding has no method for these options; its `ffi` and `lib` are its documented lower layer.
        handle = self._terminal._t[0]  # noqa: SLF001
        if self._library.lib.ghostty_terminal_set(handle, option, value):
            raise self._library.GhosttyError(f"the emulator refused option {option}")

    def _answer(self, answer: bytes) -> None:
        if _SAFE_REPLY.fullmatch(answer):
            self._reply(answer)

    def feed(self, data: bytes) -> None:
        """Take what the programs wrote."""
        self._terminal.feed(data)

    def resize(self, cols: int, rows: int) -> None:
        """The lines of the primary screen flow into the new width."""
        self._size = (cols, rows)
        self._terminal.resize(cols, rows, *CELL_PIXELS)

    @property
    def is_bracketing(self) -> bool:
        """Whether the program wants pastes marked as such."""
        return bool(self._terminal.mode(BRACKETED_PASTE))

    @property
    def is_application(self) -> bool:
        """Whether the program wants the cursor keys in application mode."""
        return bool(self._terminal.mode(APPLICATION_CURSOR))

    def state(self) -> ScreenState:
        """The screen now."""
        if self._terminal.size != self._size:  # a program asked for 132 columns; the terminal has what it has
            self._terminal.resize(*self._size, *CELL_PIXELS)
        cols, rows = self._size
        lines = self._terminal.text().split("\n")[:rows]
        column, row = self._terminal.cursor
        return ScreenState(
            cols=cols,
            rows=rows,
            lines=tuple(lines + [""] * (rows - len(lines))),
            cursor=Cursor(column, row, is_visible=bool(self._terminal.get("cursor_visible", "bool"))),
            title=self._title(),
            is_alternate=bool(self._terminal.get("active_screen", "int")),
        )

    def _title(self) -> str:
        found = self._terminal.get("title", "GhosttyString")
        raw = self._library.ffi.buffer(found.ptr, found.len)[:] if found.len else b""
        return _CONTROLS.sub("", raw.decode("utf-8", "replace"))[:TITLE_LENGTH]

    def scrollback(self, max_lines: int) -> tuple[str, ...]:
        """The last lines that have scrolled off the screen, oldest first."""
        from pyghostty.core import init_sized, read_buf  # noqa: PLC0415 - loaded only where a terminal is opened

        there = self._terminal.get("scrollback_rows", "size_t")
        wanted = min(max_lines, there)
        if wanted < 1:
            return ()
        selection = init_sized("GhosttySelection")
        selection.start = self._terminal.ref(0, there - wanted, "history")[0]
        selection.end = self._terminal.ref(self._terminal.size[0] - 1, there - 1, "history")[0]
        options = init_sized("GhosttyTerminalSelectionFormatOptions")
        options.emit = self._library.lib.GHOSTTY_FORMATTER_FORMAT_PLAIN
        options.unwrap, options.trim, options.selection = False, True, selection
        write = self._library.lib.ghostty_terminal_selection_format_buf
        handle = self._terminal._t[0]  # noqa: SLF001 - as in `_set`
        lines = read_buf(lambda buffer, size, used: write(handle, options[0], buffer, size, used)).split("\n")
        return tuple(lines + [""] * (wanted - len(lines)))

    def redrawn(self) -> str:
        """What a terminal of the same size has to be told to show the same: text, colours, modes, cursor."""
        from pyghostty.core import check, init_sized, read_buf  # noqa: PLC0415 - loaded only where a terminal is opened

        library = self._library
        cols, rows = self._terminal.size
        selection = init_sized("GhosttySelection")
        selection.start = self._terminal.ref(0, 0)[0]
        selection.end = self._terminal.ref(cols - 1, rows - 1)[0]
        options = init_sized("GhosttyFormatterTerminalOptions")
        options.emit = library.lib.GHOSTTY_FORMATTER_FORMAT_VT
        options.selection = selection
        options.extra.modes = options.extra.scrolling_region = True
        options.extra.screen.cursor = options.extra.screen.style = options.extra.screen.charsets = True
        made = library.ffi.new("GhosttyFormatter*")
        handle = self._terminal._t[0]  # noqa: SLF001 - as in `_set`
        check(library.lib.ghostty_formatter_terminal_new(library.ffi.NULL, made, handle, options[0]), "formatter")
        try:
            write = library.lib.ghostty_formatter_format_buf
            return str(read_buf(lambda buffer, size, used: write(made[0], buffer, size, used)))
        finally:
            library.lib.ghostty_formatter_free(made[0])

    def close(self) -> None:
        """Give the memory back."""
        self._terminal.close()
