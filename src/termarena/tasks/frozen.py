"""Tables that cannot be changed: a dict in every way but that one, so that they compare and become JSON as dicts do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

__all__ = ["FrozenDict", "freeze"]

Key = TypeVar("Key")
Value = TypeVar("Value")


class FrozenDict(dict[Key, Value]):
    """Tasks that share a document share its tables; one that could be changed would change them all."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a task is immutable: make another one with model_copy")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict[Key, Value]], tuple[dict[Key, Value]]]:
        """Unpickling fills a dict item by item, which this one refuses."""
        return FrozenDict, (dict(self),)


# Asked first: a look at the abstract `Mapping` costs ten times as much.
_PLAIN = frozenset({str, int, float, bool, type(None)})


def freeze(value: Any) -> Any:  # noqa: ANN401 - any value of a document
    """The same value with every table frozen and every list a tuple."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict or isinstance(value, Mapping):
        return FrozenDict({name: freeze(item) for name, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(freeze(item) for item in value)
    return value
