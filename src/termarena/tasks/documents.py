"""TOML, YAML and JSON files as tasks hold them, read with suspicion: sizes, depths and expansions are bounded before
anything is built.

Every failure is a `TaskFormatError` that names the file, and the line where the parser knows it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, NoReturn

import rtoml
import yaml

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.core.records import Json

__all__ = ["DOCUMENT_LIMIT_BYTES", "parse_json", "parse_toml", "parse_yaml", "read_text"]

# The largest task.toml seen in 3,700 public tasks has 9 kB, the largest instruction 61 kB, the largest tasks.json 2.4
# MB.
DOCUMENT_LIMIT_BYTES = 16 << 20
MAX_DEPTH = 64
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
MAX_YAML_NODES = 200_000
MERGE_TAG = "tag:yaml.org,2002:merge"


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
    """The table a TOML text holds. Dates stay Python dates (only free-form metadata ever holds one)."""
    try:
        return rtoml.loads(text)
    except ValueError as error:
        raise TaskFormatError(file, found=f"TOML that does not parse: {error}", expected="valid TOML") from error


def parse_json(text: str, *, file: str) -> Json:
    """The value a JSON text holds. Refuses NaN, Infinity and a key that stands twice in one object."""
    try:
        value: Json = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise TaskFormatError(file, found="values nested too deeply", expected=f"at most {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise TaskFormatError(file, found=f"JSON that does not parse: {error}", expected="valid JSON") from error
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return table


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time: the C one is 8 x faster
    """Safe YAML without dates: `2024-01-01` stays text, so that a value means the same in every format."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002 - PyYAML's signature
        """Refuse a key that stands twice; PyYAML would keep the last one without a word."""
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != MERGE_TAG]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} stands twice", node.start_mark)
        mapping: dict[object, object] = super().construct_mapping(node, deep=deep)
        return mapping


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_yaml(text: str, *, file: str) -> Json:
    """The value a YAML text holds: one document, plain types, string keys.

    Refuses tags, aliases that expand to more than MAX_YAML_NODES nodes, nesting beyond MAX_DEPTH, and a key that
    stands twice in a mapping, all before a single value is built.
    """
    try:
        _bound_yaml(text, file)
        value: Json = _string_keys(yaml.load(text, Loader=_Loader), file)  # noqa: S506 - a SafeLoader by inheritance
    except RecursionError as error:
        raise TaskFormatError(file, found="values nested too deeply", expected=f"at most {MAX_DEPTH} levels") from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, TaskFormatError):
            raise
        raise TaskFormatError(
            file, found=f"YAML that does not parse: {_one_line(error)}", expected="valid YAML"
        ) from error
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
            raise TaskFormatError(file, found="values nested too deeply", expected=f"at most {MAX_DEPTH} levels")


def _refuse_tag(event: yaml.NodeEvent, file: str) -> None:
    tag = getattr(event, "tag", None)
    if (tag is not None and tag != "!" and not tag.startswith("tag:yaml.org,2002:")) or str(tag).startswith(
        "tag:yaml.org,2002:python"
    ):
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
