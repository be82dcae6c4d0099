"""The walk-through of docs/forge-making.md: a person's own session becomes a task that an agent can be run on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.person import Person

if TYPE_CHECKING:
    from pathlib import Path

AT_PROMPT = r"\x1b\]133;B"
TYPED = (
    "printf 'milk 3\\nbread 2\\ntea 9\\n' > prices.txt",
    "cat prices.txt",
    "sort -k2 -n prices.txt | tail -n 1 > dearest.txt",
    "mkdir done && mv dearest.txt done/",
)


@pytest.mark.needs("user-namespaces")
@pytest.mark.timeout(300)
def test_record_then_forge_then_run(tmp_path: Path) -> None:
    home, desk = tmp_path / "home", tmp_path / "desk"
    desk.mkdir()
    with Person("record", "../mine.cast", "--shell", "/bin/bash", home=home, cwd=desk) as person:
        for line in TYPED:
            person.until(AT_PROMPT)
            person.type(line + "\r")
        person.until(AT_PROMPT)
        person.type("exit\r")
        person.until("what did you do")
        person.type("Find the dearest thing\r")
        assert person.process.wait(60) == 0

    env = {"TERMARENA_HOME": str(home)}
    done = termarena("forge", "run", "mine.cast", "--out", "tasks", "--json", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    [outcome] = json.loads(done.stdout)
    assert (outcome["state"], outcome["title"]) == ("admitted", "Find the dearest thing"), outcome["reason"]

    folder = tmp_path / "tasks" / outcome["task_id"]
    assert (folder / "solution" / "solve.sh").read_text().splitlines()[3:] == list(TYPED[2:])
    instruction = (folder / "instruction.md").read_text()
    assert "/app/done/dearest.txt" in instruction
    assert str(desk) not in "".join(path.read_text() for path in folder.rglob("*") if path.is_file())

    ran = termarena("run", "--path", "tasks", "--agent", "oracle", "-o", "run", cwd=tmp_path, env=env)
    assert ran.returncode == 0, ran.stderr
    assert json.loads((tmp_path / "run" / "report.json").read_text())["solved"] == 1
