"""`volumes` and `tmpfs` of a service, in the short form and in the long one."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from termarena.sandbox.namespace.services.model import Memory, Use, Volume
from termarena.sandbox.namespace.services.values import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GIVEN", "read_declared", "read_given", "read_lent", "read_memories", "read_uses"]

MODES: Final = frozenset({"ro", "rw", "z", "Z", "nocopy", "cached", "delegated", "consistent"})
LONG: Final[Mapping[str, tuple[str, ...]]] = {
    "volume": ("type", "source", "target", "read_only", "volume", "consistency"),
    "bind": ("type", "source", "target", "read_only", "bind", "consistency"),
    "tmpfs": ("type", "target", "tmpfs"),
}
GIVEN: Final[Mapping[str, str]] = {"secrets": "/run/secrets", "configs": ""}
"""Where files of these sections are, unless a service says otherwise."""
PLACES: Final = ("/", "/proc", "/sys", "/dev")


def read_declared(volumes: Place) -> frozenset[str]:
    """The names of the section `volumes`; refuses what is not simply an empty folder."""
    for name in volumes.table():
        one = volumes.at(name)
        one.only(("driver", "name", "labels"))
        if one.at("driver").value not in (None, "local"):
            raise one.at("driver").refused("a volume is a folder in memory that ends with the sandbox")
    return frozenset(volumes.table())


def read_given(section: Place) -> dict[str, Volume]:
    """The files of the section `secrets` or `configs` by name; refuses what is not simply a file of the task."""
    found = {}
    for name in section.table():
        one = section.at(name)
        one.only(("file", "name", "labels"), why="a secret or a config is a file beside the compose file here")
        found[name] = _bound(one.at("file"), one.at("file").text())
    return found


def read_lent(uses: Place, files: Mapping[str, Volume], *, kind: str) -> list[Use]:
    """Where a service has these files, read-only. As with Compose, owner and mode are those of the file."""
    found = []
    for item in uses.items():
        table = item.value if isinstance(item.value, dict) else {"source": item.text()}
        one = Place(item.source, item.path, table)
        one.only(("source", "target", "uid", "gid", "mode"))
        name = one.at("source").text()
        if name not in files:
            raise one.wrong(f"one of the file's own section {kind}; it has: {', '.join(sorted(files)) or 'none'}")
        target = str(one.at("target").value or name)
        at = target if target.startswith("/") else f"{GIVEN[kind]}/{target}"
        found.append(Use(files[name], _absolute(one, at), is_writable=False, fills=False))
    return found


def read_uses(volumes: Place, *, service: str, declared: frozenset[str]) -> tuple[tuple[Use, ...], tuple[Memory, ...]]:
    """What a service mounts. Raises `TaskFormatError`, and `CapabilityMissing` for a path outside the task's folder."""
    uses: list[Use] = []
    memories: list[Memory] = []
    for one in volumes.items():
        found = _long(one, service) if isinstance(one.value, dict) else _short(one, service)
        if isinstance(found, Memory):
            memories.append(found)
            continue
        if found.volume.source is None and found.volume.name not in declared and not _is_unnamed(found.volume):
            raise one.wrong(f"a volume of the file's own section; it has: {', '.join(sorted(declared)) or 'none'}")
        uses.append(found)
    return tuple(uses), tuple(memories)


def read_memories(tmpfs: Place) -> tuple[Memory, ...]:
    """The folders of `tmpfs`."""
    return tuple(_memory(one) for one in tmpfs.items())


def _memory(one: Place) -> Memory:
    target, _, options = one.text().partition(":")
    found = Memory(_absolute(one, target))
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        place = Place(one.source, f"{one.path}.{key}", value)
        if key == "size":
            found = Memory(found.at, place.size_bytes(), found.mode)
        elif key == "mode":
            found = Memory(found.at, found.size_bytes, _octal(place))
        elif key not in ("rw", "exec", "noexec", "nosuid", "nodev", "suid"):
            raise place.refused("a folder in memory has a size and a mode")
    return found


def _octal(place: Place) -> int:
    try:
        return int(place.text(), 8) & 0o7777
    except ValueError as error:
        raise place.wrong("an octal mode") from error


def _short(one: Place, service: str) -> Use:
    parts = one.text().split(":")
    if len(parts) == 1:
        return Use(_unnamed(service, one), _absolute(one, parts[0]))
    source, target, *modes = parts
    words = {word for mode in modes for word in mode.split(",")}
    if unknown := sorted(words - MODES):
        raise Place(one.source, f"{one.path}:{unknown[0]}", one.value).refused("its mode is not known")
    volume = _bound(one, source) if source.startswith((".", "/", "~")) else Volume(source)
    fills = volume.source is None and "nocopy" not in words
    return Use(volume, _absolute(one, target), is_writable="ro" not in words, fills=fills)


def _long(one: Place, service: str) -> Use | Memory:
    kind = one.at("type").value
    if not isinstance(kind, str) or kind not in LONG:
        raise one.at("type").refused(f"a mount is one of {', '.join(LONG)}")
    one.only(LONG[kind])
    at = _absolute(one.at("target"), one.at("target").text())
    if kind == "tmpfs":
        options = one.at("tmpfs")
        options.only(("size", "mode"))
        size = options.at("size")
        mode = options.at("mode")
        made = Memory(at) if size.value is None else Memory(at, size.size_bytes())
        return made if mode.value is None else Memory(at, made.size_bytes, int(mode.number()) & 0o7777)
    one.at("bind").only(("create_host_path", "propagation", "selinux"))
    one.at("volume").only(("nocopy",))
    source = one.at("source")
    if kind == "bind":
        volume = _bound(source, source.text())
    else:
        volume = _unnamed(service, one) if source.value is None else Volume(source.text())
    fills = kind == "volume" and not one.at("volume").at("nocopy").flag()
    return Use(volume, at, is_writable=not one.at("read_only").flag(), fills=fills)


def _unnamed(service: str, one: Place) -> Volume:
    return Volume(f"{service} {one.path}")


def _is_unnamed(volume: Volume) -> bool:
    return " " in volume.name


def _bound(one: Place, source: str) -> Volume:
    """A file or a folder beside the compose file; whether a link leads out of there is seen when it is copied."""
    path = posixpath.normpath(source)
    if posixpath.isabs(path) or path.startswith(("..", "~")):
        raise one.refused(f"{source} lies outside the task's folder")
    return Volume(f"./{path}", source=path)


def _absolute(one: Place, path: str) -> str:
    at = posixpath.normpath(path)
    if not at.startswith("/") or at in PLACES or at.startswith(("/proc/", "/sys/")):
        raise one.wrong("an absolute path that is not the root, /proc, /sys or /dev")
    return at
