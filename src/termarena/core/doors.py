"""Doors that load what lies behind them when it is asked for: who wants one thing of a room waits for that one only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["door"]


def door(package: str, **behind: str) -> Callable[[str], object]:
    """The `__getattr__` of a package; `behind` has its modules, each with the names it holds, between spaces.

    A name that was asked for once is an attribute like any other from then on.
    """
    homes = {name: module for module, names in behind.items() for name in names.split()}

    def loaded(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(import_module(package), name, value)
        return value

    return loaded
