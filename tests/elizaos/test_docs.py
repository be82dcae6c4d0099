"""The examples of docs/elizaos.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from running import PATIENCE_S

PAGE = Path(__file__).parents[2] / "docs" / "elizaos.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.needs("user-namespaces")
@pytest.mark.parametrize(("number", "told"), [(0, "1.0 1\n"), (1, "/usr\nvalue\n\n")])
def test_an_example_runs(number: int, told: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert len(BLOCKS) == 2
    script = BLOCKS[number] + ("" if number == 0 else "\n\nimport asyncio\n\nasyncio.run(look())\n")
    home = tmp_path_factory.getbasetemp() / "docs-home"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "TERMARENA_HOME": str(home), "DOCKER_HOST": "unix:///nowhere.sock"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, told), done.stderr
