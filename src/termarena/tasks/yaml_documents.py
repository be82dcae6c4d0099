"""YAML files as tasks hold them, read with the same suspicion as `termarena.tasks.documents` has.

Apart from the others because most tasks hold none, and PyYAML takes 10 ms to import.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from termarena.core.errors import TaskFormatError
from termarena.tasks.documents import MAX_DEPTH, bound_values, first_twice, too_deep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.core.records import Json

__all__ = ["parse_yaml"]

MAX_YAML_NODES = 200_000
_YAML = "tag:yaml.org,2002:"
MERGE_TAG = f"{_YAML}merge"
# A text may say that it is text; any other tag asks for a type that JSON and TOML cannot hold, or for one that the
# value already has.
_HARMLESS_TAGS = frozenset({None, "!", f"{_YAML}str", f"{_YAML}map", f"{_YAML}seq"})


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
            twice = first_twice(self.construct_object(key) for key in keys)
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
        raise too_deep(file) from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, TaskFormatError):
            raise
        raise TaskFormatError(
            file, found=f"YAML that does not parse: {_one_line(error)}", expected="valid YAML"
        ) from error
    bound_values(value, file)
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
            raise too_deep(file)


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
