"""The bundled samples, proven: the reference solution passes, doing nothing fails, and every cheat fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.bare import reward_of
from termarena.sandbox.namespace import NamespaceDriver
from termarena.tasks import load_dataset, load_task, needs_of
from termarena.tasks.lint import lint
from termarena.tasks.simple import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.sandbox import Driver

DATASET = load_dataset("samples")
TASKS = {task.id.removeprefix("termarena/"): task for task in DATASET}
CHEATS = [(name, cheat.path) for name, task in TASKS.items() for cheat in task.cheats]
LONG_CHEATS = {
    ("backup-rotate", "by-file-time.sh"),
    ("backup-rotate", "no-real-lock.sh"),
    ("broken-build", "all-headers.sh"),
    ("broken-build", "drop-duplicate.sh"),
    ("broken-build", "rebuild-always.sh"),
    ("bytecode-vm", "python-inside.sh"),
    ("csv-to-columnar", "all-strings.sh"),
    ("csv-to-columnar", "simplify-input.sh"),
    ("fibonacci-server", "not-started.sh"),
    ("firewall-audit", "random-packets.sh"),
    ("service-supervisor", "canned-example.sh"),
    ("service-supervisor", "start-all-at-once.sh"),
    ("version-resolver", "greedy.sh"),
    ("version-resolver", "one-after-the-other.sh"),
}
"""They take longest. Every sample has quicker ones, the first of which CI tries; all are tried with the long counts."""
QUICK_CHEATS = {name: cheat for name, cheat in reversed(CHEATS) if (name, cheat) not in LONG_CHEATS}
ALLOWED_TOOLS = {"sh", "bash", "python3", "gcc", "make", "sqlite3", "awk", "sed", "grep", "find", "tar", "gzip", "sort"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    made = NamespaceDriver(home=tmp_path_factory.mktemp("home"))
    yield made
    asyncio.run(made.aclose())


def _needed(name: str) -> pytest.MarkDecorator:
    bare = TASKS[name].environment.bare
    return pytest.mark.needs("user-namespaces", *(bare.requires if bare else ()))


def _cheat(named: tuple[str, str]) -> object:
    marks = [_needed(named[0]), *([] if QUICK_CHEATS[named[0]] == named[1] else [pytest.mark.soak])]
    return pytest.param(*named, marks=marks)


def test_the_set_is_what_it_promises() -> None:
    assert DATASET.broken == ()
    assert len(TASKS) >= 14
    assert {"hello-world", "fibonacci-server", "csv-to-columnar"} <= TASKS.keys()
    categories = {task.metadata.category for task in DATASET}
    assert categories >= {*CATEGORIES[:8], "git", "debugging", "text_processing"}
    difficulties = [task.metadata.difficulty for task in DATASET]
    assert set(difficulties) == {"easy", "medium", "hard"}
    assert difficulties.count("hard") >= 4


@pytest.mark.parametrize("name", TASKS)
def test_a_sample_is_clean_and_asks_for_little(name: str) -> None:
    task = TASKS[name]
    assert [finding.message for finding in (*task.findings, *lint(task)) if finding.severity != "info"] == []
    assert task.environment.bare is not None
    assert set(task.environment.bare.requires) <= ALLOWED_TOOLS
    assert {need.capability for need in needs_of(task)} == {"network-none"}
    assert task.environment.context.get("Dockerfile") is not None
    assert len(task.cheats) >= 2
    assert task.id == f"termarena/{Path(task.provenance.path).name}"


def test_the_samples_are_graded_from_what_is_installed() -> None:
    """Installed next to this test or not, a sample has the same digest when it is loaded by its folder."""
    task = TASKS["hello-world"]
    assert load_task(task.provenance.path).digest == task.digest


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [pytest.param(name, marks=_needed(name)) for name in TASKS])
async def test_the_reference_solution_passes(driver: Driver, name: str) -> None:
    assert await reward_of(driver, TASKS[name], "solution/solve.sh") == "1"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [pytest.param(name, marks=_needed(name)) for name in TASKS])
async def test_doing_nothing_fails(driver: Driver, name: str) -> None:
    assert await reward_of(driver, TASKS[name], None) == "0"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "cheat"), [*map(_cheat, CHEATS)])
async def test_a_cheat_fails(driver: Driver, name: str, cheat: str) -> None:
    assert await reward_of(driver, TASKS[name], f"cheats/{cheat}") == "0"


def test_the_long_cheats_are_there_and_no_sample_has_only_such() -> None:
    assert set(CHEATS) >= LONG_CHEATS
    assert {name for name, _ in set(CHEATS) - LONG_CHEATS} == TASKS.keys()
