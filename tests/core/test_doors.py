"""Doors that load lazily: nothing behind them before it is asked for, and everything that they promise then."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pytest

DOORS = [
    "termarena.grading",
    "termarena.models",
    "termarena.sandbox.fetches",
    "termarena.sandbox.terminal",
    "termarena.tasks",
    "termarena.tasks.lint",
]

LOADED = """
import json, sys
__import__(sys.argv[1])
print(json.dumps([name for name in sys.modules if name.startswith(sys.argv[1] + ".")]))
"""


@pytest.mark.parametrize("name", DOORS)
def test_a_door_loads_nothing_before_it_is_asked(name: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", LOADED, name], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("name", DOORS)
def test_a_door_has_every_name_that_it_promises(name: str) -> None:
    opened = import_module(name)
    assert opened.__all__
    for promised in opened.__all__:
        assert getattr(opened, promised) is vars(opened)[promised]


def test_a_name_that_is_not_behind_a_door_is_missed_as_anywhere() -> None:
    with pytest.raises(AttributeError, match=r"module 'termarena\.models' has no attribute 'Modell'"):
        _ = import_module("termarena.models").Modell
    with pytest.raises(ImportError, match="cannot import name 'Modell'"):
        exec("from termarena.models import Modell", {})  # noqa: S102 - the statement under test
