"""`termarena green check`: what a preflight finds in good and bad white agents."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from battles.hostile import hostile_at
from battles.whites import SOLVES, White, white_at
from running import termarena
from termarena.battles.cards import WHITE_CARD
from termarena.battles.checking import check_white
from termarena.battles.serving import Place, serve
from termarena.battles.white import Bench, WhiteExecutor

if TYPE_CHECKING:
    from termarena.battles.checking import Found

NAMES = ["card", "versions", "greeting", "dry run", "timeout", "hint", "cancel", "at once"]


def by_name(found: tuple[Found, ...]) -> dict[str, str]:
    return {one.name: one.state for one in found}


async def test_an_agent_that_keeps_to_the_protocol_passes() -> None:
    async with white_at(White()) as url:
        found = await check_white(url)
        told = await asyncio.to_thread(termarena, "green", "check", url, "--json")
    assert [one.name for one in found] == NAMES
    assert {one.state for one in found} <= {"passed", "noted"}, found
    assert by_name(found)["dry run"] == "passed"
    assert (told.returncode, json.loads(told.stdout)["passed"]) == (0, True)


async def test_ours_passes() -> None:
    async with serve(WhiteExecutor(Bench("nop")), WHITE_CARD, Place()) as served:
        found = await check_white(served.url)
    assert {one.state for one in found} <= {"passed", "noted"}, found


async def test_one_that_talks_instead_of_asking_fails_the_dry_run() -> None:
    async with white_at(White(lambda _turn, _text: "I would list the files.")) as url:
        found = await check_white(url)
        told = await asyncio.to_thread(termarena, "green", "check", url)
    assert by_name(found)["dry run"] == "failed"
    assert "I would list the files" in next(one.message for one in found if one.name == "dry run")
    assert (told.returncode, "failed" in told.stdout) == (1, True)
    assert told.stderr == "hint: docs/battles.md says what a white agent is asked and answers\n"


async def test_one_that_takes_a_stopped_command_ill_fails_that_check() -> None:
    def sulks(_turn: int, text: str) -> dict[str, object]:
        if json.loads(text).get("timed_out"):
            raise RuntimeError("a command should not take so long")
        return SOLVES

    async with white_at(White(lambda turn, text: "hi" if text == "Hello" else sulks(turn, text))) as url:
        found = await check_white(url)
    assert by_name(found)["timeout"] == "failed"
    assert by_name(found)["dry run"] == "noted"


async def test_nobody_there_and_nobody_who_answers() -> None:
    found = await check_white("http://127.0.0.1:9", patience_s=1)
    assert by_name(found) == {"card": "failed"}
    async with hostile_at("silent") as hostile:
        found = await check_white(hostile.url, patience_s=1)
    assert by_name(found)["dry run"] == "failed"
    assert "no answer within 1 s" in next(one.message for one in found if one.name == "dry run")
