"""The documentation's own white agent, and its configuration, as they stand there."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.trials import try_task
from termarena.battles.cards import read_card
from termarena.battles.checking import check_white
from termarena.battles.config import GreenConfig, read_config
from termarena.tasks import SAMPLES, load_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "battles.md"


def block(language: str, beginning: str) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?\n)```\n", PAGE.read_text(), re.DOTALL)
    return next(text for text in found if text.startswith(beginning))


@pytest.fixture
def white(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "white.py"
    path.write_text(re.search(r"```python\n(.*?\n)```\n\n### In an", PAGE.read_text(), re.DOTALL)[1])  # type: ignore[index]  # it is there
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(path), str(port)])  # noqa: S603 - our own page
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.needs("user-namespaces")
async def test_the_white_agent_of_the_page_solves_the_first_task(white: str, tmp_path: Path, home: Path) -> None:
    task = next(task for task in load_dataset(SAMPLES) if task.id.endswith("/hello-world"))
    result = await try_task(task, f"a2a:{white}", tmp_path / "attempt", home=home)
    assert result.outcome == "solved", result
    found = await check_white(white)
    assert {one.state for one in found} <= {"passed", "noted"}, found


def test_it_is_as_short_as_it_says() -> None:
    code = re.search(r"```python\n(.*?\n)```\n\n### In an", PAGE.read_text(), re.DOTALL)
    assert code is not None
    assert len([line for line in code[1].splitlines() if line.strip()]) <= 60


def test_the_configuration_of_the_page_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(block("toml", "driver"))
    assert read_config(path) == GreenConfig()
    path.write_text(block("toml", "name"))
    assert read_card(path).name == "Our referee"
