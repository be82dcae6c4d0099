"""Recordings as they come: asciicast of every version, the typescripts of `script`, and plain text."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from termarena.core.errors import RecordingError
from termarena.forge.retrieving.shelf import origin_beside
from termarena.sandbox.terminal.cast import CastEvent, parse_cast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.forge.retrieving.shelf import Origin

__all__ = ["Loaded", "Recording", "load_file", "parse_loaded", "parse_recording"]

LARGEST_BYTES: Final = 256 << 20
USUAL_SIZE: Final = (80, 24)
TEXT_SIZE: Final = (1000, 50)
"""Plain text is not broken at the width of any terminal."""
TIMING_SUFFIXES: Final = (".timing", ".tm", ".time")
_COMPRESSED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
_STARTED: Final = re.compile(rb"Script started on ([^\[\n]*?)(?: \[([^\n]*)\])?\r?\n")
_ENDED: Final = re.compile(rb"\r?\n?Script done on [^\n]*\n?$")
_HEADER_FIELD: Final = re.compile(r'(\w+)="([^"]*)"')
_OLD_TIMING: Final = re.compile(rb"(\d+(?:\.\d+)?) (\d+)")
_NEW_TIMING: Final = re.compile(rb"([OIHS]) (\d+(?:\.\d+)?) (\S+)(?: .*)?")


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording in one form, whatever it came in; times are seconds since its beginning."""

    version: str
    cols: int
    rows: int
    header: Mapping[str, Any]
    events: tuple[CastEvent, ...]
    trouble: tuple[str, ...] = ()


class Loaded(NamedTuple):
    """A file's bytes with what lies beside it: everything that reading takes, so that it can be done elsewhere."""

    path: str
    raw: bytes
    timing: bytes | None = None
    """Of a typescript."""
    origin: Origin | None = None
    """Of a recording that was retrieved."""
    problem: str = ""
    """Why the file could not be had; there are no bytes then."""

    @property
    def digest(self) -> str:
        """Of its bytes; of its name where they could not be had."""
        content = self.raw if not self.problem else self.path.encode("utf-8", "surrogateescape")
        return "sha256:" + hashlib.sha256(content).hexdigest()


def load_file(path: Path) -> Loaded:
    """A file's bytes; a typescript's timing, and where a recording comes from, are looked for beside it."""
    name = _sayable(str(path))
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return Loaded(name, b"", problem=f"{name} is larger than {LARGEST_BYTES >> 20} MiB")
        raw = path.read_bytes()
        beside = [path.with_name(path.name + suffix) for suffix in TIMING_SUFFIXES]
        timing = next((other.read_bytes() for other in beside if other.is_file()), None)
    except OSError as error:
        return Loaded(name, b"", problem=f"cannot read {name}: {error.strerror or error}")
    return Loaded(name, raw, timing, origin_beside(path))


def _sayable(text: str) -> str:
    """Without halves of characters, which JSON and the names of files may hold and no file of ours can."""
    return text.encode("utf-8", "replace").decode()


def parse_loaded(loaded: Loaded) -> Recording:
    """What a file holds. Raises `RecordingError` for one that is no recording, or could not be had."""
    hint = "give an asciicast, a typescript of `script`, or plain text"
    if loaded.problem:
        raise RecordingError(loaded.problem, hint=hint)
    try:
        return parse_recording(loaded.raw, timing=loaded.timing)
    except ValueError as error:
        raise RecordingError(f"{loaded.path}: {error}", hint=hint) from error


def parse_recording(raw: bytes, *, timing: bytes | None = None) -> Recording:
    """What the bytes hold; raises `ValueError` for what is no recording and no text."""
    try:
        cast = parse_cast(raw)
    except ValueError:
        return _parse_text(raw, timing)
    cut = ("its last line is not whole; it was left out",) if cast.is_cut else ()
    header = json.loads(_sayable(json.dumps(cast.header, ensure_ascii=False)))
    return Recording(str(cast.version), cast.cols, cast.rows, header, cast.events, (*cast.trouble, *cut))


def _parse_text(raw: bytes, timing: bytes | None) -> Recording:
    if not raw.strip():
        raise ValueError("it is empty")
    if raw.startswith(_COMPRESSED):
        raise ValueError("it is compressed; unpack it first")
    head = raw[:4096]
    if b"\0" in head or head.decode("utf-8", "replace").count("\N{REPLACEMENT CHARACTER}") > len(head) / 10:
        raise ValueError("it is neither a recording nor text")
    if head.lstrip().startswith(b"{") and b'"version"' in head:
        raise ValueError("it begins like an asciicast, and is none of version 1, 2 or 3")
    started = _STARTED.match(raw)
    if started is not None:
        return _typescript(raw, started, timing)
    if b"\x1b" in raw:
        return Recording("typescript", *USUAL_SIZE, {}, _untimed(raw), ("it has no header; taken as 80 x 24",))
    text = raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return Recording("txt", *TEXT_SIZE, {}, _untimed(text))


def _untimed(content: bytes) -> tuple[CastEvent, ...]:
    return (CastEvent(0.0, "o", content.decode("utf-8", "replace")),)


def _typescript(raw: bytes, started: re.Match[bytes], timing: bytes | None) -> Recording:
    fields = dict(_HEADER_FIELD.findall((started[2] or b"").decode("utf-8", "replace")))
    cols, rows = (fields.get(name, "") for name in ("COLUMNS", "LINES"))
    is_sized = all(re.fullmatch(r"[1-9]\d{0,2}", side) for side in (cols, rows))
    size = (int(cols), int(rows)) if is_sized else USUAL_SIZE
    trouble = () if is_sized else ("its header tells no size; taken as 80 x 24",)
    content = raw[started.end() :]
    header = {"date": started[1].decode("utf-8", "replace"), "command": fields.get("COMMAND")}
    if timing is None:
        return Recording("typescript", *size, header, _untimed(_ENDED.sub(b"", content)), trouble)
    events, told = _timed(content, timing)
    return Recording("typescript", *size, header, events, (*trouble, *told))


def _timed(content: bytes, timing: bytes) -> tuple[tuple[CastEvent, ...], tuple[str, ...]]:
    """Cut the output as the timing file says, in the old form or the new one; what it does not cover comes last."""
    events: list[CastEvent] = []
    at_s, at, bad = 0.0, 0, 0
    for line in timing.splitlines():
        old, new = _OLD_TIMING.fullmatch(line.strip()), _NEW_TIMING.fullmatch(line.strip())
        if old is None and new is None:
            bad += 1
            continue
        kind, delay, amount = (b"O", *old.groups()) if old is not None else (new or line).groups()  # type: ignore[union-attr]
        at_s += float(delay)
        if kind == b"O" and amount.isdigit():
            piece = content[at : at + int(amount)]
            at += int(amount)
            events.append(CastEvent(at_s, "o", piece.decode("utf-8", "replace")))
    if rest := _ENDED.sub(b"", content[at:]):
        events.append(CastEvent(at_s, "o", rest.decode("utf-8", "replace")))
    return tuple(events), ((f"{bad} lines of its timing file are no times",) if bad else ())
