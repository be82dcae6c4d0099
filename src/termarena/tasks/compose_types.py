"""The types that compose asks for, in those fields of a service that a translation looks into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.tasks.checking import Checker

__all__ = ["check_service"]


class _Type(NamedTuple):
    fits: Callable[[Any], bool]
    expected: str


def check_service(check: Checker, place: str, service: dict[str, Any]) -> None:
    """Raise TaskFormatError for the first field of another type than compose's. A field left empty is like none."""
    for name, kind in _SERVICE.items():
        value = service.get(name)
        if value is not None and not kind.fits(value):
            raise check.refuse(f"{place}.{name}", found=value, expected=kind.expected)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _has_texts(table: dict[str, Any], *names: str) -> bool:
    return all(table.get(name) is None or isinstance(table[name], str) for name in names)


def _is_environment(value: object) -> bool:
    if isinstance(value, dict):
        return all(item is None or isinstance(item, (str, int, float)) for item in value.values())
    return _are_texts(value)


def _is_build(value: object) -> bool:
    if not isinstance(value, dict):
        return isinstance(value, str)
    contexts = value.get("additional_contexts")
    return _has_texts(value, "context", "dockerfile", "dockerfile_inline") and (
        contexts is None or _are_texts(contexts) or _is_table_of_texts(contexts)
    )


def _are_networks(value: object) -> bool:
    if isinstance(value, dict):
        return all(network is None or _is_network(network) for network in value.values())
    return _are_texts(value)


def _is_network(value: object) -> bool:
    return isinstance(value, dict) and (value.get("aliases") is None or _are_texts(value["aliases"]))


def _are_mounts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, (str, dict)) for item in value)


def _are_dependencies(value: object) -> bool:
    return isinstance(value, dict) or _are_texts(value)


def _is_extension(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and _has_texts(value, "service", "file"))


def _is_command(value: object) -> bool:
    is_list = isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value)
    return isinstance(value, str) or is_list


_TEXT = _Type(_is_text, "text")
_TEXTS = _Type(_are_texts, "a list of texts")
_SERVICE = {
    "image": _TEXT,
    "container_name": _TEXT,
    "working_dir": _TEXT,
    "network_mode": _TEXT,
    "ipc": _TEXT,
    "pid": _TEXT,
    "links": _TEXTS,
    "volumes_from": _TEXTS,
    "build": _Type(_is_build, "a folder, or a table with context and dockerfile"),
    "command": _Type(_is_command, "a command, or a list of its words"),
    "environment": _Type(_is_environment, "a list of NAME=VALUE, or a table of texts and numbers"),
    "networks": _Type(_are_networks, "a list of names, or a table of networks"),
    "volumes": _Type(_are_mounts, "a list of mounts"),
    "depends_on": _Type(_are_dependencies, "a list of services, or a table of them"),
    "extends": _Type(_is_extension, "a service, or a table with service and file"),
}
