"""Values of a compose file: commands, variables, sizes and times, and the words for what is not followed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import CapabilityMissing, TaskFormatError
from termarena.sandbox.images.expansion import BadSubstitution, expand
from termarena.sandbox.units import bytes_of, nanoseconds_of
from termarena.tasks.checking import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["Place", "filled", "parse_env_file", "unsupported"]

_MASKS: Final = (("$$", "\x00"), ('"', "\x01"), ("'", "\x02"), ("\\", "\x03"))
"""Letters that mean themselves in a compose file, and not in a Dockerfile, whose variables are the same otherwise."""
_NO_ESCAPE: Final = "\x04"


def unsupported(place: str, why: str) -> CapabilityMissing:
    """What another driver may do, to be raised before anything starts."""
    return CapabilityMissing(f"`{place}` of its compose file", driver="namespace", why=why, hint="use --driver docker")


class Place:
    """A value of the file with the path to it, for errors."""

    __slots__ = ("path", "source", "value")

    def __init__(self, source: str, path: str, value: Any) -> None:  # noqa: ANN401 - any part of a document
        """`source` is the file, `path` dotted."""
        self.source = source
        self.path = path
        self.value = value

    def at(self, key: str) -> Place:
        """A field of a table; one that is not there is empty."""
        return Place(self.source, f"{self.path}.{key}", self.table().get(key))

    def wrong(self, expected: str) -> TaskFormatError:
        """An error for the caller to raise."""
        return TaskFormatError(self.source, field=self.path, found=shown(self.value), expected=expected)

    def refused(self, why: str) -> CapabilityMissing:
        """An error for the caller to raise."""
        return unsupported(self.path, why)

    def table(self) -> dict[str, Any]:
        """An empty one for nothing."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong("a table")
        return self.value

    def items(self) -> list[Place]:
        """The items of a list; a single text is one."""
        if self.value is None:
            return []
        values = self.value if isinstance(self.value, list) else [self.value]
        return [Place(self.source, f"{self.path}.{at}", one) for at, one in enumerate(values)]

    def text(self) -> str:
        """A text, or a number as one."""
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            raise self.wrong("a text")
        return str(self.value)

    def flag(self) -> bool:
        """Yes or no; no for nothing."""
        if self.value is None or isinstance(self.value, bool):
            return bool(self.value)
        if str(self.value).lower() in ("true", "false"):
            return str(self.value).lower() == "true"
        raise self.wrong("true or false")

    def number(self) -> float:
        """A number above nought, also in quotes."""
        found = self._parsed(float, "a number above nought")
        if not 0 < found < float("inf"):
            raise self.wrong("a number above nought")
        return found

    def size_bytes(self) -> int:
        """`512m` and its like."""
        return self._parsed(bytes_of, "a size such as 512m")

    def seconds(self) -> float:
        """`1m30s` and its like."""
        return self._parsed(nanoseconds_of, "a duration such as 1m30s") / 1e9

    def _parsed(self, parse: Callable[[str], T], expected: str) -> T:
        try:
            return parse(self.text())
        except (ValueError, OverflowError) as error:
            raise self.wrong(expected) from error

    def words(self) -> tuple[str, ...] | None:
        """A command as its words; None for nothing."""
        if self.value is None:
            return None
        if isinstance(self.value, list):
            return tuple(one.text() for one in self.items())
        return tuple(self._parsed(shlex.split, "a command whose quotes are closed"))

    def pairs(self) -> dict[str, str | None]:
        """A table, or a list of `NAME=VALUE`; None for a name alone."""
        if isinstance(self.value, dict):
            return {name: None if value is None else _told(value) for name, value in self.value.items()}
        found: dict[str, str | None] = {}
        for one in self.items():
            name, equals, value = one.text().partition("=")
            found[name] = value if equals else None
        return found

    def only(self, known: Iterable[str], *, why: str = "embedded sandboxes do not follow it") -> None:
        """Refuse every field of the table but these."""
        for name in self.table().keys() - set(known):
            if not name.startswith("x-"):
                raise self.at(name).refused(why)


def _told(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def filled(value: Any, values: Mapping[str, str], *, source: str) -> Any:  # noqa: ANN401 - any part of a document
    """A part of the file with `${NAME}` and its forms filled in; an unknown name is empty.

    Raises `TaskFormatError` for a form that is none, or a value that is insisted on and missing.
    """
    if isinstance(value, str):
        return _filled_text(value, values, source) if "$" in value else value
    if isinstance(value, list):
        return [filled(one, values, source=source) for one in value]
    if isinstance(value, dict):
        return {name: filled(one, values, source=source) for name, one in value.items()}
    return value


def _filled_text(text: str, values: Mapping[str, str], source: str) -> str:
    for letters, mask in _MASKS:
        text = text.replace(letters, mask)
    try:
        made = expand(text, values, escape=_NO_ESCAPE)
    except BadSubstitution as error:
        raise TaskFormatError(source, found=str(error), expected="a variable as compose knows it") from error
    for letters, mask in _MASKS:
        made = made.replace(mask, "$" if letters == "$$" else letters)
    return made


def parse_env_file(text: str, values: Mapping[str, str]) -> dict[str, str]:
    """The variables of an `env_file`: `NAME=VALUE` by line, quotes taken off; a name alone is looked up in `values`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not name or name.startswith("#"):
            continue
        if not equals:
            found |= {name: values[name]} if name in values else {}
        elif value[:1] in ("'", '"') and value.find(value[0], 1) > 0:
            found[name] = value[1 : value.find(value[0], 1)]
        else:
            found[name] = value.partition(" #")[0].rstrip()
    return found
