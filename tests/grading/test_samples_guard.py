"""The part of the samples' tests that runs programs of a solution as nobody."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from grading.bench import Bench

COPIES = sorted(Path(str(files("termarena.tasks"))).glob("samples/*/tests/guard.py"))
ASKS = """\
import sys
sys.path.insert(0, "/tests")
import guard
status, said, _ = guard.run(["/usr/bin/id", "-u"], "/")
sys.exit(said != b"65534\\n")
"""


def test_every_sample_has_the_same() -> None:
    assert len({path.read_text() for path in COPIES}) == 1
    assert len(COPIES) > 1


@pytest.mark.needs("user-namespaces", "python3")
@pytest.mark.parametrize("left", ["true", "chmod 700 /tmp", "chmod 700 /app"])
async def test_no_state_makes_programs_of_a_solution_run_as_root(bench: Bench, left: str) -> None:
    script = "#!/bin/sh\npython3 -I -B /tests/asks.py; echo $((1 - $?)) >/logs/verifier/reward.txt\n"
    task = bench.harbor(script, tests__asks_py=ASKS, tests__guard_py=COPIES[0].read_text())
    verdict = await bench.sealed(task, left)
    assert (verdict.reward, verdict.fault) == (1.0, None), bench.output
