"""Recordings of our own become tasks: a few here, all of them in `make soak`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.own_recordings import SESSIONS
from termarena.forge.intake import transcripts_in
from termarena.forge.ledger import Ledger
from termarena.forge.making import MakingConfig
from termarena.forge.working import Order, work
from termarena.sandbox.drivers import open_driver

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.own_recordings import Session
    from termarena.forge.ledger import Outcome

pytestmark = pytest.mark.needs("user-namespaces")


async def _outcomes(sessions: Sequence[Session], folder: Path) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    transcripts = list(transcripts_in([session.path for session in sessions]))
    names = {transcript.digest: session.name for transcript, session in zip(transcripts, sessions, strict=True)}
    driver = open_driver("namespace", home=folder / "home")
    order = Order(transcripts, folder / "tasks", MakingConfig(), slots=2)
    try:
        with Ledger(folder / "forge") as ledger:
            await work(order, ledger, driver, lambda one, _: found.update({names[one.recording]: one}))
    finally:
        await driver.aclose()
    return found


@pytest.mark.soak
@pytest.mark.needs("git", "sqlite3", "jq")
@pytest.mark.timeout(600)
async def test_sessions_of_three_kinds_become_tasks(tmp_path: Path) -> None:
    wanted = ("git-conflict", "sqlite-session", "jq-fish")
    found = await _outcomes([session for session in SESSIONS if session.name in wanted], tmp_path)
    assert {name: (one.state, one.reason) for name, one in found.items() if one.state != "admitted"} == {}
    assert sorted(found) == sorted(wanted)
    assert min(one.mutation_score or 0 for one in found.values()) >= 0.8
    merge = (tmp_path / "tasks" / (found["git-conflict"].task_id or "") / "solution" / "solve.sh").read_text()
    assert "git merge blue\n} || true" in merge


@pytest.mark.soak
async def test_most_of_our_sessions_become_tasks_whose_tests_are_strong(tmp_path: Path) -> None:
    found = await _outcomes(SESSIONS, tmp_path)
    strong = [one for one in found.values() if one.state == "admitted" and (one.mutation_score or 0) >= 0.8]
    assert len(found) >= 30
    assert len(strong) >= 0.7 * len(found), {name: one.reason for name, one in found.items() if one.state != "admitted"}
