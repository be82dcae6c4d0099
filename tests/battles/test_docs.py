"""The white agent of examples/, which the page shows, and the page's configuration, as they stand there."""

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
WHITE = Path(__file__).parents[2] / "examples" / "white_agent.py"


def block(language: str, beginning: str) -> str:
    found: list[str] = re.findall(rf"```{language}\n(.*?\n)```\n", PAGE.read_text(), re.DOTALL)
    return next(text for text in found if text.startswith(beginning))


@pytest.fixture
def white() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(WHITE), str(port)])  # noqa: S603 - our own example
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
    assert "<!-- copy: examples/white_agent.py -->" in PAGE.read_text()
    assert 30 < len([line for line in WHITE.read_text().splitlines() if line.strip()]) <= 60


def test_the_configuration_of_the_page_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(block("toml", "driver"))
    assert read_config(path) == GreenConfig()
    path.write_text(block("toml", "name"))
    assert read_card(path).name == "Our referee"
