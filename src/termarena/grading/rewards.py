"""Reward files: what Harbor's tests leave in `/logs/verifier`, read without trust."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["REWARD_BYTES", "REWARD_FILES", "BadReward", "parse_reward", "parse_told", "primary_reward"]

REWARD_FILES: Final = ("reward.json", "reward.txt")
"""The first that exists counts, as in Harbor, also if it is bad."""
REWARD_BYTES: Final = 1 << 16
MOST_REWARDS: Final = 1000
SHOWN: Final = 80
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# One way to write each: no line that others began or went on with ("1." before a 0) is another number.
_TOLD: Final = re.compile(r"(0|1|0\.\d*[1-9])\n", re.ASCII)


class BadReward(ValueError):
    """A reward file that does not hold finite numbers; the message says what it holds."""


def parse_reward(name: str, content: bytes) -> Mapping[str, float]:
    """The named rewards in `reward.json` (a flat table of finite numbers) or `reward.txt` (one, called `reward`).

    Raises `BadReward` for everything else: empty, NaN, Infinity, a string, true, a nested table, more than 64 KiB, and
    several numbers of which none is called `reward` and one is above 1: `{"passed": 3, "failed": 2}`.
    """
    if len(content) > REWARD_BYTES:
        raise BadReward(f"{name} is larger than {REWARD_BYTES >> 10} KiB")
    try:
        text = content.decode().strip()
    except UnicodeDecodeError as error:
        raise BadReward(f"{name} is not text") from error
    if not text:
        raise BadReward(f"{name} is empty")
    return _table(name, text) if name.endswith(".json") else {"reward": _plain_number(name, text)}


def parse_told(content: bytes) -> Mapping[str, float]:
    """The reward that was told through a pipe: one line with a number from 0 to 1 in its shortest form, called
    `reward`. Raises `BadReward` for everything else."""
    text = content[: REWARD_BYTES + 1].decode("utf-8", "replace")
    if len(content) > REWARD_BYTES or not _TOLD.fullmatch(text):
        expected = "one line with a number from 0 to 1 in its shortest form (1, not 1.0)"
        raise BadReward(f"the reward's pipe brought {_shown(text)} instead of {expected}")
    return {"reward": float(text)}


def primary_reward(rewards: Mapping[str, float]) -> float:
    """The one number of a grading: what is called `reward`, else the only one there is, else their mean."""
    return rewards["reward"] if "reward" in rewards else math.fsum(rewards.values()) / len(rewards)


def _plain_number(name: str, text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise BadReward(f"{name} holds {_shown(text)}, which is not a finite number")
    return _finite(name, float(text))


def _table(name: str, text: str) -> dict[str, float]:
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadReward(f"{name} holds no table of finite numbers: {error}") from error
    if not isinstance(found, dict) or not 0 < len(found) <= MOST_REWARDS:
        raise BadReward(f"{name} holds {_shown(text)} instead of a table of numbers")
    rewards = {str(key): _finite(name, value) for key, value in found.items()}
    if "reward" not in rewards and len(rewards) > 1 and max(rewards.values()) > 1:
        raise BadReward(f"{name} holds {_shown(text)}: none is called reward, and a mean of such numbers is no score")
    return rewards


def _refuse_constant(word: str) -> NoReturn:
    raise BadReward(f"{word} is not a finite number")


def _finite(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadReward(f"{name} holds {_shown(repr(value))} where a number belongs")
    try:
        number = float(value)
    except OverflowError as error:
        raise BadReward(f"{name} holds a number beyond all bounds") from error
    if not math.isfinite(number):
        raise BadReward(f"{name} holds {number}, which is not finite")
    return number


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
