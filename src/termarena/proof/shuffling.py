"""A plugin for pytest: tests in an order by a seed. It goes into sandboxes as it is, so nothing of ours is in it.

Modules change places, and so do the tests of each: what they share in between stays together.
"""

from __future__ import annotations

import os
import random
from typing import Any

MARK = "termarena-order"


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Put them in the order of the seed in TERMARENA_ORDER."""
    order = random.Random(int(os.environ.get("TERMARENA_ORDER", "1")))  # noqa: S311 - an order, not a secret
    modules: dict[str, list[Any]] = {}
    for item in items:
        modules.setdefault(item.nodeid.split("::")[0], []).append(item)
    names = sorted(modules)
    order.shuffle(names)
    for name in names:
        order.shuffle(modules[name])
    items[:] = [item for name in names for item in modules[name]]


def pytest_unconfigure(config: Any) -> None:  # noqa: ANN401 - its type is pytest's, which need not be here
    """Say so, at the very end of the output."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"{MARK} {os.environ.get('TERMARENA_ORDER', '1')}")
