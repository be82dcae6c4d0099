"""TOML and JSON files as tasks hold them, read with suspicion: sizes, depths and expansions are bounded before
anything is built.

Every failure is a `TaskFormatError` that names the file, and the line where the parser knows it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from typing import TYPE_CHECKING, Any, NoReturn

import rtoml

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from termarena.core.records import Json

__all__ = [
    "DOCUMENT_LIMIT_BYTES",
    "MAX_DEPTH",
    "bound_values",
    "first_twice",
    "parse_json",
    "parse_toml",
    "read_text",
    "too_deep",
]

# The largest task.toml seen in 3,700 public tasks has 9 kB, the largest instruction 61 kB, the largest tasks.json 2.4
# MB.
DOCUMENT_LIMIT_BYTES = 16 << 20
MAX_DEPTH = 64
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_INTEGER_LIMIT = 1 << 63


def read_text(path: str, *, limit_bytes: int = DOCUMENT_LIMIT_BYTES, boundary: str | None = None) -> str:
    """The text of a small UTF-8 file (a byte order mark is dropped).

    With `boundary`, a symbolic link must stay inside that folder. Raises TaskFormatError when the file is missing,
    too large, not a regular file, or not UTF-8 (with the offset of the first bad byte).
    """
    content = _read_bytes(path, limit_bytes, boundary)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = content[error.start : error.start + 1].hex()
        raise TaskFormatError(path, found=f"byte 0x{bad} at offset {error.start}", expected="UTF-8 text") from error
    return text.removeprefix("\ufeff")


def _read_bytes(path: str, limit_bytes: int, boundary: str | None) -> bytes:
    descriptor = _open(path, boundary)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise TaskFormatError(path, found="a folder or a special file", expected="a regular file")
        if status.st_size > limit_bytes:
            raise TaskFormatError(
                path, found=f"{status.st_size} bytes", expected=f"a text file of at most {limit_bytes} bytes"
            )
        return os.read(descriptor, status.st_size + 1)
    finally:
        os.close(descriptor)


def _open(path: str, boundary: str | None) -> int:
    try:
        return os.open(path, _FLAGS if boundary is None else _FLAGS | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise TaskFormatError(path, found="no such file", expected="a text file") from error
    except OSError as error:
        if error.errno == errno.ELOOP and boundary is not None:
            return _open(_real_path(path, boundary), None)
        raise TaskFormatError(
            path, found=f"a file that cannot be read ({error.strerror})", expected="a text file"
        ) from error


def _real_path(path: str, boundary: str) -> str:
    real = os.path.realpath(path)
    if not real.startswith(os.path.realpath(boundary) + "/"):
        raise TaskFormatError(path, found="a link that leaves the task", expected="a file of the task")
    return real


def parse_toml(text: str, *, file: str) -> dict[str, Any]:
    """The table a TOML text holds. Dates stay Python dates (only free-form metadata ever holds one).

    The parser itself refuses lone surrogates, numbers beyond 64 bits, and nesting beyond 80 levels.
    """
    try:
        return rtoml.loads(text)
    except ValueError as error:
        raise TaskFormatError(file, found=f"TOML that does not parse: {error}", expected="valid TOML") from error


def parse_json(text: str, *, file: str) -> Json:
    """The value a JSON text holds.

    Refuses NaN, Infinity, a key that stands twice in one object, nesting beyond MAX_DEPTH, half a character (a lone
    surrogate), and whole numbers beyond 64 bits, which TOML could not hold.
    """
    try:
        value: Json = json.loads(text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise too_deep(file) from error
    except ValueError as error:
        raise TaskFormatError(file, found=f"JSON that does not parse: {error}", expected="valid JSON") from error
    bound_values(value, file)
    return value


def too_deep(file: str) -> TaskFormatError:
    """For a document with more than MAX_DEPTH levels."""
    return TaskFormatError(file, found="values nested too deeply", expected=f"at most {MAX_DEPTH} levels")


def bound_values(value: Json, file: str) -> None:
    """Raise TaskFormatError for nesting beyond MAX_DEPTH, half a character, a whole number beyond 64 bits."""
    level: list[Any] = [value]
    depth = 0
    while level:
        if depth == MAX_DEPTH and any(isinstance(one, (dict, list)) for one in level):
            raise too_deep(file)
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                if not one.isascii():
                    _refuse_half_character(one, file)
            elif isinstance(one, dict):
                below += one
                below += one.values()
            elif isinstance(one, list):
                below += one
            elif isinstance(one, int) and not -_INTEGER_LIMIT <= one < _INTEGER_LIMIT:
                raise TaskFormatError(
                    file, found=f"a whole number of {one.bit_length()} bits", expected="at most 63 bits and a sign"
                )
        depth += 1
        level = below


def _refuse_half_character(text: str, file: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        raise TaskFormatError(
            file, found=f"half a character (\\u{half:04x}, a lone surrogate)", expected="text that UTF-8 can hold"
        ) from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"{number[:40]} is too large a number")
    return value


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError(f"the key {first_twice(name for name, _ in pairs)!r} stands twice in one object")
    return table


def first_twice(names: Iterable[object]) -> object:
    """The first name that stands twice, or None."""
    seen: set[object] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
