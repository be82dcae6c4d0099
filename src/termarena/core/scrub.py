"""The scrubber: secrets out of everything that is written down.

It knows the values of the variables that look like keys, also in base64, in a URL and in JSON, and the shapes of
well-known keys whoever they belong to. What it finds becomes `[secret NAME]`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import BinaryIO

    from termarena.core.records import Json

__all__ = ["SHORTEST_SECRET", "Scrubber", "Span"]

SHORTEST_SECRET: Final = 8
"""Characters; a shorter value would be found in ordinary text."""
BLOCK_BYTES: Final = 1 << 20
PEM_BYTES: Final = 1 << 14
CONTEXT_BYTES: Final = 16
"""What is kept of the text before a border: more than any pattern looks back."""
_SECRET_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?(?:_?\d+)?$", re.IGNORECASE)
_WORD: Final = rb"[A-Za-z0-9_-]"
_PEM_BEGIN: Final = b"-----BEGIN "
_PEM_END: Final = b"-----END "
_PEM_NAME: Final = rb"[A-Z0-9 ]{0,24}PRIVATE KEY-----"


class _Needle(NamedTuple):
    """What is searched for: `marker` says quickly that it is not there, `pattern` begins with it and has an end."""

    name: str
    marker: bytes
    pattern: re.Pattern[bytes]
    longest: int


class Span(NamedTuple):
    """Where a secret lies."""

    start: int
    end: int
    name: str

    @property
    def replacement(self) -> bytes:
        """What is to stand there."""
        return f"[secret {self.name}]".encode()


def _shape(name: str, marker: bytes, rest: bytes, longest: int) -> _Needle:
    # The pattern begins with the marker, which `re` finds quickly; that no word ends there is asked behind it.
    not_in_a_word = rb"(?<![A-Za-z0-9]" + re.escape(marker) + rb")"
    return _Needle(name, marker, re.compile(re.escape(marker) + not_in_a_word + rest), longest)


def _shapes() -> Iterator[_Needle]:
    yield _shape("api-key", b"sk-", _WORD + rb"{20,256}", 300)
    for letter in b"pousr":
        yield _shape("github-token", b"gh" + bytes([letter]) + b"_", rb"[A-Za-z0-9]{20,256}", 300)
    yield _shape("github-token", b"github_pat_", rb"\w{20,256}", 300)
    yield _shape("aws-key", b"AKIA", rb"[A-Z0-9]{16}(?![A-Za-z0-9])", 20)
    yield _shape("aws-key", b"ASIA", rb"[A-Z0-9]{16}(?![A-Za-z0-9])", 20)
    yield _shape("slack-token", b"xox", rb"[abeoprs]-[A-Za-z0-9-]{10,256}", 300)
    yield _shape("google-key", b"AIza", _WORD + rb"{35}", 39)
    part = _WORD + rb"{8,4096}+"
    yield _shape("jwt", b"eyJ", part + rb"\.eyJ" + part + rb"\." + part, 3 * 4100 + 10)
    yield _Needle("bearer-token", b"earer ", re.compile(rb"earer (?P<secret>[A-Za-z0-9._~+/=-]{16,4096})"), 4096 + 6)
    yield _Needle("private-key", _PEM_BEGIN, re.compile(_PEM_BEGIN + _PEM_NAME), PEM_BYTES + 120)


_SHAPES: Final = tuple(_shapes())
# What may stand behind a marker while more of the secret can still come.
_TOKEN_BYTES: Final = bytes(byte for byte in range(128) if chr(byte).isalnum()) + b"._~+/=-"
_WHOLE_PEM_END: Final = re.compile(_PEM_END + _PEM_NAME)
_OPEN_PEM_END: Final = re.compile(_PEM_END + rb"[A-Z0-9 ]{0,24}(?:PRIVATE KEY-{0,4})?")


class Scrubber:
    """Finds secrets in text, bytes, JSON values and files; knows nothing of where they come from."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        """`secrets` are values by the name that stands in their place; those under eight characters are left out."""
        known: dict[bytes, _Needle] = {}
        for name, value in (secrets or {}).items():
            if len(value) >= SHORTEST_SECRET:
                for form in _forms(value):
                    known.setdefault(form, _Needle(name, form, re.compile(re.escape(form)), len(form)))
        self._needles = (*sorted(known.values(), key=lambda needle: -needle.longest), *_SHAPES)
        self._longest = max(needle.longest for needle in self._needles)
        self._longest_marker = max(len(needle.marker) for needle in self._needles)
        self._in_json = tuple({_as_json(needle.marker) for needle in self._needles})
        self._markers: dict[int, list[bytes]] = {}
        for needle in self._needles:
            self._markers.setdefault(needle.marker[0], []).append(needle.marker)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Scrubber:
        """Knows the variables whose names end like a key's: …KEY, …TOKEN, SECRET, PASSWORD, CREDENTIALS."""
        return cls({name: value for name, value in environ.items() if _SECRET_NAME.search(name)})

    def scrub(self, text: str) -> str:
        """The text without secrets; the same object where there are none."""
        raw = text.encode("utf-8", "surrogatepass")
        clean = self.scrub_bytes(raw)
        return text if clean is raw else clean.decode("utf-8", "surrogatepass")

    def scrub_bytes(self, content: bytes) -> bytes:
        """The bytes without secrets; the same object where there are none."""
        spans = self.find(content)
        return _replaced(content, spans, end=len(content)) if spans else content

    def scrub_json(self, value: Json) -> Json:
        """A JSON value whose strings, keys of objects included, hold no secrets."""
        if not isinstance(value, list | dict):
            return self.scrub(value) if isinstance(value, str) else value
        # One search of the whole for what secrets begin with: most records hold hundreds of strings and none of that.
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return self._scrub_items(value) if any(marker in text for marker in self._in_json) else value

    def _scrub_items(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.scrub(value)
        if isinstance(value, list):
            return [self._scrub_items(item) for item in value]
        if isinstance(value, dict):
            return {self.scrub(name): self._scrub_items(item) for name, item in value.items()}
        return value

    def scrub_file(self, path: Path) -> int:
        """Replace a file by one without secrets, in constant memory; how many there were. Raises OSError.

        A file without any is not touched; one with some is replaced as a whole.
        """
        with path.open("rb") as source:
            found = sum(piece.found for piece in self._stream(_blocks(source)))
        if not found:
            return 0
        temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
        try:
            with path.open("rb") as source, temporary.open("xb") as target:
                for piece in self._stream(_blocks(source)):
                    target.write(piece.content)
            shutil.copymode(path, temporary)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return found

    def find(self, content: bytes) -> list[Span]:
        """Where secrets are: in order, and none over another."""
        found: list[Span] = []
        for needle in self._needles:
            if needle.marker in content:
                found += _pems(needle, content) if needle.marker == _PEM_BEGIN else _hits(needle, content)
        found.sort(key=lambda span: (span.start, -span.end))
        apart: list[Span] = []
        for span in found:
            if apart and span.start < apart[-1].end:
                apart[-1] = apart[-1]._replace(end=max(apart[-1].end, span.end))
            else:
                apart.append(span)
        return apart

    def unsettled(self, content: bytes) -> int:
        """How many of the last bytes may be the beginning of a secret that is not whole yet: show them later."""
        last = content[-self._longest :]
        held = self._begun(last[-self._longest_marker :])
        token = len(last.rstrip(_TOKEN_BYTES))
        for needle in _SHAPES:
            # The first marker of several: the second part of a web token begins as the first does.
            is_pem = needle.marker == _PEM_BEGIN
            at = _open_pem(last) if is_pem else last.find(needle.marker, max(token - len(needle.marker), 0))
            held = max(held, len(last) - at if at >= 0 else 0)
        return held

    def _begun(self, last: bytes) -> int:
        """How many of the last bytes are the beginning of a marker that is not whole."""
        for start in range(len(last)):
            for marker in self._markers.get(last[start], ()):
                if len(marker) > len(last) - start and marker.startswith(last[start:]):
                    return len(last) - start
        return 0

    def _stream(self, blocks: Iterable[bytes]) -> Iterator[_Piece]:
        """Scrub what comes in blocks; a secret may lie across any number of borders."""
        held, seen = b"", 0  # `held[:seen]` is already written and only tells what stands before
        for block in blocks:
            held += block
            if len(held) > seen + self._longest:
                piece, cut = self._cut(held, seen, len(held) - self._longest)
                yield piece
                context = max(cut - CONTEXT_BYTES, 0)
                held, seen = held[context:], cut - context
        yield self._cut(held, seen, len(held))[0]

    def _cut(self, held: bytes, start: int, end: int) -> tuple[_Piece, int]:
        """Scrub from `start` to about `end`: no secret that begins before `end` is cut."""
        spans = [span for span in self.find(held) if start <= span.start < end]
        cut = max(end, spans[-1].end) if spans else end
        return _Piece(_replaced(held, spans, start=start, end=cut), len(spans)), cut


def _as_json(marker: bytes) -> bytes:
    """How it stands in the JSON text of any string that holds it: each character is escaped by itself."""
    text = json.dumps(marker.decode("utf-8", "surrogateescape"), ensure_ascii=False)[1:-1]
    return text.encode("utf-8", "surrogateescape")


def _hits(needle: _Needle, content: bytes) -> Iterator[Span]:
    group = "secret" if needle.pattern.groups else 0
    return (Span(*hit.span(group), needle.name) for hit in needle.pattern.finditer(content))


def _pems(needle: _Needle, content: bytes) -> Iterator[Span]:
    """From each beginning to the end that follows it. One pattern for both would look for an end from every beginning,
    16 KiB far each time."""
    at, end = 0, None
    for begin in needle.pattern.finditer(content):
        if begin.start() < at:
            continue
        if end is None or end.start() < begin.end():
            end = _WHOLE_PEM_END.search(content, begin.end())
        if end is None:
            return
        if end.start() - begin.end() <= PEM_BYTES:
            at = end.end()
            yield Span(begin.start(), at, needle.name)


def _open_pem(content: bytes) -> int:
    """Where a key begins that may still come to its end; -1 where none does."""
    last = content.rfind(_PEM_END)
    if last >= 0 and _OPEN_PEM_END.fullmatch(content, last):
        last = content.rfind(_PEM_END, 0, last)
    return content.find(_PEM_BEGIN, max(last, 0))


def _blocks(source: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: source.read(BLOCK_BYTES), b"")


class _Piece(NamedTuple):
    content: bytes
    found: int


def _replaced(content: bytes, spans: list[Span], *, end: int, start: int = 0) -> bytes:
    parts = []
    at = start
    for span in spans:
        parts += [content[at : span.start], span.replacement]
        at = span.end
    return b"".join([*parts, content[at:end]])


def _forms(value: str) -> Iterator[bytes]:
    """The ways in which a value is written: as it is, in a URL, in JSON, in base64 wherever it stands in there."""
    raw = value.encode("utf-8", "surrogateescape")
    yield raw
    yield quote(raw, safe="").encode()
    yield quote_plus(raw).encode()
    yield json.dumps(value)[1:-1].encode()
    yield json.dumps(value, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
    for before in range(3):
        # The first and last characters also hold bits of what stands beside the value.
        encoded = base64.b64encode(b"\0" * before + raw)
        first, last = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        yield encoded[first:last]
        yield encoded[first:last].translate(bytes.maketrans(b"+/", b"-_"))
