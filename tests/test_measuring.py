"""What a measurement printed is kept with its circumstances, and the site's pages are made of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import measure
from measure import FOLDER, kept, shown

ROOT = Path(__file__).parent.parent
SCRIPT = """
import json, sys
print("what   took")
print("all  1.5 ms")
figures = {"took_ms": {"all": [1.5, 1.25]}, "many": list(range(9)), "is_met": True}
print(json.dumps({"kind": "made", "schema_version": 1, **figures}, indent=1))
sys.exit(int(sys.argv[1]))
"""


def _script(folder: Path, text: str = SCRIPT) -> Path:
    (folder / "made.py").write_text(text)
    return folder


@pytest.mark.parametrize("status", [0, 1])
def test_what_was_printed_is_kept_with_its_command(status: int, tmp_path: Path) -> None:
    assert measure.measure("made", [str(status)], _script(tmp_path)) == status
    output = kept("made", tmp_path)
    assert output is not None
    assert (output.command, output.status) == (f".venv/bin/python benchmarks/made.py {status}", status)
    assert "\nall  1.5 ms\n" in shown(output)
    assert ("an aim was missed" in shown(output)) == (status == 1)


def test_figures_without_words_are_a_table(tmp_path: Path) -> None:
    measure.measure("made", ["0"], _script(tmp_path, SCRIPT.replace('\nprint("', '\nstr("')))
    output = kept("made", tmp_path)
    assert output is not None
    page = shown(output)
    assert "| `took_ms.all` | 1.5, 1.25 |" in page
    assert "| `many` | 9 values, median 4 |" in page
    assert "| `is_met` | yes |" in page
    assert "schema_version" not in page


KILLED = "import os; print('half', flush=True); os.kill(os.getpid(), 9)"


@pytest.mark.parametrize("text", ["import sys; print('{}'); sys.exit(2)", "print('half'); raise ValueError", KILLED])
def test_what_was_not_measured_leaves_the_output_before(text: str, tmp_path: Path) -> None:
    measure.measure("made", ["0"], _script(tmp_path))
    before = kept("made", tmp_path)
    assert measure.measure("made", ["0"], _script(tmp_path, text)) != 0
    assert before is not None
    assert kept("made", tmp_path) == before


def test_every_script_is_told_of_and_every_output_is_of_one() -> None:
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    assert set(re.findall(r"^## `(\w+)\.py`: ", (FOLDER / "README.md").read_text(), re.MULTILINE)) == scripts
    outputs = [path.stem for path in (FOLDER / "output").glob("*.json")]
    assert outputs
    for name in outputs:
        output = kept(name)
        assert output is not None
        assert output.command.startswith(f".venv/bin/python benchmarks/{name}.py")
        assert name in scripts
