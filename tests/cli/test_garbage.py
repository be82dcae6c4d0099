"""When a command looks for garbage: not while it starts or ends, and as ever in between."""

from __future__ import annotations

import json
import subprocess
import sys

# In an interpreter of its own: thresholds and callbacks are the process's.
REPORT = """
import atexit, gc, json, sys
searches = []
gc.callbacks.append(lambda phase, about: searches.append(phase) if phase == "stop" else None)
gc.set_threshold(700, 10, 10)
told = {}
atexit.register(lambda: sys.stdout.write(json.dumps({**told, "frozen_at_end": gc.get_freeze_count()})))
from termarena.cli.garbage import collect_as_usual, collect_late
searches.clear()
collect_late()
collect_late()
"""


def _told(steps: str) -> dict[str, object]:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", REPORT + steps], capture_output=True, text=True, check=True
    )
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_a_start_is_searched_once_it_is_larger_than_any_and_then_everything_is_as_usual() -> None:
    told = _told("""
kept = [[] for _ in range(50_000)]
told["searches_at_start"] = len(searches)
kept += [[] for _ in range(100_000)]
told["threshold_then"] = gc.get_threshold()
told["searches_then"] = len(searches)
collect_as_usual()
told["frozen_then"] = gc.get_freeze_count()
""")
    frozen_at_end = told.pop("frozen_at_end")
    searches_then = told.pop("searches_then")
    assert told == {"searches_at_start": 0, "threshold_then": [700, 10, 10], "frozen_then": 0}
    assert isinstance(searches_then, int)
    assert searches_then > 1
    assert isinstance(frozen_at_end, int)
    assert frozen_at_end > 150_000


def test_what_a_start_has_made_is_not_searched_again() -> None:
    told = _told("""
kept = [[] for _ in range(50_000)]
collect_as_usual()
told["is_frozen"] = gc.get_freeze_count() > 50_000
told["threshold"] = gc.get_threshold()
told["callbacks"] = len(gc.callbacks)
""")
    assert told.pop("frozen_at_end") is not None
    assert told == {"is_frozen": True, "threshold": [700, 10, 10], "callbacks": 1}
