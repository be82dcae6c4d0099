"""TOML, YAML and JSON files as tasks hold them, read with suspicion: sizes, depths and expansions are bounded before
anything is built.

Every failure is a `TaskFormatError` that names the file, and the line where the parser knows it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
from typing import TYPE_CHECKING, Any, NoReturn

import rtoml
import yaml

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from termarena.core.records import Json

__all__ = ["DOCUMENT_LIMIT_BYTES", "parse_json", "parse_toml", "parse_yaml", "read_text"]

# The largest task.toml seen in 3,700 public tasks has 9 kB, the largest instruction 61 kB, the largest tasks.json 2.4
# MB.
DOCUMENT_LIMIT_BYTES = 16 << 20
MAX_DEPTH = 64
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
MAX_YAML_NODES = 200_000
_YAML = "tag:yaml.org,2002:"
MERGE_TAG = f"{_YAML}merge"
# A text may say that it is text; any other tag asks for a type that JSON and TOML cannot hold, or for one that the
# value already has.
_HARMLESS_TAGS = frozenset({None, "!", f"{_YAML}str", f"{_YAML}map", f"{_YAML}seq"})
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
        raise _too_deep(file) from error
    except ValueError as error:
        raise TaskFormatError(file, found=f"JSON that does not parse: {error}", expected="valid JSON") from error
    _bound_values(value, file)
    return value


def _too_deep(file: str) -> TaskFormatError:
    return TaskFormatError(file, found="values nested too deeply", expected=f"at most {MAX_DEPTH} levels")


def _bound_values(value: Json, file: str) -> None:
    """Walk everything once, level by level."""
    level: list[Any] = [value]
    depth = 0
    while level:
        if depth == MAX_DEPTH and any(isinstance(one, (dict, list)) for one in level):
            raise _too_deep(file)
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
        raise ValueError(f"the key {_twice(name for name, _ in pairs)!r} stands twice in one object")
    return table


def _twice(names: Iterable[object]) -> object:
    """The first name that stands twice, or None."""
    seen: set[object] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time: the C one is 8 x faster
    """Safe YAML without dates and without numbers of base sixty: `2024-01-01` and a port `22:22` stay text, as in
    YAML 1.2, which compose reads."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._seen: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse a key that stands twice; PyYAML would keep the last one without a word.

        Merging (`<<`) changes a node in place, and a merged node comes here again: only the first visit sees what was
        written.
        """
        if id(node) not in self._seen:
            self._seen.add(id(node))
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG]
            twice = _twice(self.construct_object(key) for key in keys)
            if twice is not None:
                raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} stands twice", node.start_mark)
        super().flatten_mapping(node)


# PyYAML's own patterns without base sixty.
_NUMBERS = {
    f"{_YAML}int": re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"),
    f"{_YAML}float": re.compile(
        r"(?:(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, _NUMBERS.get(tag, pattern)) for tag, pattern in rules if tag != f"{_YAML}timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str, *, file: str) -> Json:
    """The value a YAML text holds: one document, plain types, string keys.

    Refuses tags, aliases that expand to more than MAX_YAML_NODES nodes, nesting beyond MAX_DEPTH, and a key that
    stands twice in a mapping, all before a single value is built; then half characters and whole numbers beyond 64
    bits, as `parse_json` does.
    """
    try:
        _bound_yaml(text, file)
        value: Json = _string_keys(yaml.load(text, Loader=_Loader), file)  # noqa: S506 - a SafeLoader by inheritance
    except RecursionError as error:
        raise _too_deep(file) from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, TaskFormatError):
            raise
        raise TaskFormatError(
            file, found=f"YAML that does not parse: {_one_line(error)}", expected="valid YAML"
        ) from error
    _bound_values(value, file)
    return value


def _one_line(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))


def _bound_yaml(text: str, file: str) -> None:
    """Walk the events once, adding up what every alias would expand to."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_Loader):
        added = 0
        if isinstance(event, yaml.AliasEvent):
            added = sizes.get(event.anchor or "", 1)
        elif isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            _refuse_tag(event, file)
            added = 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
        elif isinstance(event, yaml.ScalarEvent) and event.anchor:
            sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before
        total += added
        if total > MAX_YAML_NODES:
            raise TaskFormatError(
                file, found=f"aliases that expand to over {MAX_YAML_NODES} values", expected="a plain document"
            )
        if len(open_nodes) > MAX_DEPTH:
            raise _too_deep(file)


def _refuse_tag(event: yaml.NodeEvent, file: str) -> None:
    tag = getattr(event, "tag", None)
    if tag not in _HARMLESS_TAGS:
        line = f" on line {event.start_mark.line + 1}" if event.start_mark else ""
        raise TaskFormatError(file, found=f"the YAML tag {tag}{line}", expected="plain values without tags")


def _string_keys(value: Json, file: str) -> Json:
    if isinstance(value, dict):
        return {_key(name, value, file): _string_keys(item, file) for name, item in value.items()}
    if isinstance(value, list):
        return [_string_keys(item, file) for item in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TaskFormatError(
        file, found=f"a {type(value).__name__} value", expected="text, numbers, lists and mappings only"
    )


def _key(name: object, table: Mapping[str, Json], file: str) -> str:
    if isinstance(name, str):
        return name
    if isinstance(name, (int, float, bool)) and str(name) not in table:
        return str(name)
    raise TaskFormatError(file, found=f"the key {name!r}", expected="text as keys")
