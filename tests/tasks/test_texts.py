from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.folders import harbor, simple, terminal_bench_1
from termarena.core.errors import TaskFormatError
from termarena.tasks import load_task
from termarena.tasks.texts import asked, without_canary

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Do it.\n", "Do it.\n"),
        ("# canary 1\n\nDo it.\n", "Do it.\n"),
        ("<!-- CANARY 1 -->\r\n# Canary 2\n\n \n  # canary 3\nDo it.\n", "Do it.\n"),
        ("# A title\n# canary\n", "# A title\n# canary\n"),
        ("\n# canary\nDo it.", "\n# canary\nDo it."),
        ("<!-- canary", "<!-- canary"),
        ("\ufeff# canary\n\ufeff# canary\n\ufeffDo it.", "Do it."),
        ("# canary", ""),
    ],
)
def test_leading_canaries_are_hidden(text: str, left: str) -> None:
    assert without_canary(text) == left
    assert without_canary(left) == left


def test_three_thousand_canaries_end_no_recursion() -> None:
    assert without_canary("<!-- canary -->\n\n" * 3000 + "Do it.") == "Do it."


def test_a_long_line_of_canaries_costs_linear_time() -> None:
    text = "<!--" + "canary" * 200_000
    assert without_canary(text) == text


CANARIES = "# canary 1\n\n<!-- canary 2 -->\n"


@pytest.mark.parametrize("kind", ["terminal-bench-1", "harbor", "simple"])
def test_only_canaries_are_no_instruction(tmp_path: Path, kind: str) -> None:
    if kind == "terminal-bench-1":
        terminal_bench_1(tmp_path, task_yaml=f"instruction: {json.dumps(CANARIES)}\ndifficulty: easy\n")
    elif kind == "harbor":
        harbor(tmp_path, instruction_md=CANARIES)
    else:
        simple(tmp_path, instruction_txt=CANARIES)
    with pytest.raises(TaskFormatError, match="canary"):
        load_task(tmp_path)


@pytest.mark.parametrize("text", [None, "", " \n", "\ufeff"])
def test_nothing_is_no_instruction(text: str | None) -> None:
    with pytest.raises(TaskFormatError) as caught:
        asked(text, file="task.yaml", field="instruction")
    assert caught.value.field == "instruction"
