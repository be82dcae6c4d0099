"""Tasks about more than files, made in real sandboxes: a service, people, what the clock has to do with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.sessions import SHORT, command, session
from termarena.forge.bench import Bench, faketime_library
from termarena.forge.facts import tells_the_month
from termarena.forge.making import Making, MakingConfig

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs("user-namespaces")


@pytest.mark.timeout(600)
async def test_a_service_becomes_a_task_that_is_graded_while_it_runs(bench: Bench, tmp_path: Path) -> None:
    serving = session(
        "Serve a page",
        command("cat index.html", "hello\n"),
        command("python3 -m http.server 8123 > /dev/null 2>&1 &", "[1] 4321\n"),
    )
    making = Making(serving, bench, tmp_path / "work", MakingConfig(screen=SHORT))
    folder = await making.make(tmp_path / "out")
    assert ("serves", "8123", "HTTP 200\nhello\n") in [(one.probe, one.path, one.value) for one in making.facts]
    assert "answers an HTTP request for `/` on port 8123" in (folder / "instruction.md").read_text()
    words = ("run", "--path", str(folder), "--agent", "oracle", "--driver", "namespace", "--json")
    done = termarena(*words, env={"TERMARENA_HOME": str(tmp_path / "home")}, cwd=tmp_path)
    assert '"solved": 1' in done.stdout, done.stderr


async def test_people_are_told_by_name_and_not_by_number(bench: Bench, tmp_path: Path) -> None:
    joining = session("Join", "groupadd crew", "useradd -m -s /bin/sh -G crew bob", "echo x > f", "chown bob:crew f")
    making = Making(joining, bench, tmp_path / "work", MakingConfig(screen=SHORT))
    found = {(one.probe, one.path): one.value for one in await making.test()}
    assert found["owner", "/app/f"] == ["bob", "crew"]
    assert found["user", "bob"] == {"home": "/home/bob", "shell": "/bin/sh", "group": "bob", "groups": ["crew"]}
    assert found["group", "crew"] == ["bob"]
    assert not [path for _, path in found if path.startswith("/etc/")]


@pytest.mark.needs("faketime")
async def test_what_any_clock_decides_is_no_fact(bench: Bench, tmp_path: Path) -> None:
    assert faketime_library() is not None
    dated = session("Note the day", "date +%u > weekday.txt", "date +%Y-%m > month.txt", "echo x > k")
    making = Making(dated, bench, tmp_path / "work", MakingConfig(screen=SHORT))
    assert [one.path for one in await making.test()] == ["/app/k"]


def test_a_year_that_was_typed_does_not_come_from_the_clock() -> None:
    year = time.strftime("%Y", time.gmtime())
    assert tells_the_month(f"made in {year}", "echo made in $(date +%Y)")
    assert not tells_the_month(f"made in {year}", f"echo made in {year}")
    assert not tells_the_month(f"1{year}", "")
    assert tells_the_month(time.strftime("%Y-%m", time.gmtime()), "date +%Y-%m")
