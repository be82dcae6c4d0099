"""Secrets in events that come one by one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from termarena.core.scrub import Scrubber
from termarena.core.scrub_events import EventScrubber, TextEvent

steady = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
SECRET = "correct-horse-battery"  # noqa: S105 - an example
SCRUBBER = Scrubber({"MY_KEY": SECRET, "LONGER_KEY": f"{SECRET}-staple"})
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEow' * 9}\n-----END RSA PRIVATE KEY-----"
PIECES = [
    *(SECRET, f"{SECRET}-stap", f"{SECRET}-staple", SECRET[:7], "sk-proj-abcDEF123456_7890abcd", "risk-" + "a" * 30),
    *("Bearer abcdefgh12345678==", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2Q", "AKIAIOSFODNN7EXAMPLE", PEM, PEM[:60]),
    *("$ ls\r\n", "é", " ", "s", "-----", "plain text"),
]


@steady
@given(st.lists(st.sampled_from(PIECES), max_size=6), st.lists(st.integers(0, 200), max_size=40))
def test_however_a_text_comes_it_is_scrubbed_as_if_it_came_at_once(pieces: list[str], cuts: list[int]) -> None:
    whole = "".join(pieces)
    borders = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    clean = SCRUBBER.scrub(whole)
    screen, shown = EventScrubber(SCRUBBER), ""
    for number, (start, end) in enumerate(pairwise(borders)):
        shown += "".join(event.text for event in screen.add(TextEvent(number, "o", whole[start:end])))
        assert clean.startswith(shown)  # at no time has anything come through that a secret begins with
    assert shown + "".join(event.text for event in screen.rest()) == clean


def test_kinds_are_kept_apart_and_in_order_at_their_times() -> None:
    screen = EventScrubber(SCRUBBER)
    letters = [(n / 100, "oi"[n % 2], SECRET[n // 2]) for n in range(2 * len(SECRET))]
    events = [TextEvent(0, "o", "$ "), *(TextEvent(*letter) for letter in letters)]
    shown = [one for event in events for one in screen.add(event)]
    assert shown == events[:1]
    shown += [one for event in (TextEvent(0.8, "i", "\r"), TextEvent(0.9, "o", "\r\n$ ")) for one in screen.add(event)]
    assert [event.at_s for event in shown] == [*(event.at_s for event in events), 0.8, 0.9]
    for code, rest in (("o", ("$ ", "\r\n$ ")), ("i", ("", "\r"))):
        assert "".join(event.text for event in shown if event.code == code) == "[secret MY_KEY]".join(rest)


@pytest.mark.parametrize(
    "secret",
    [
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2Q",
        "sk-proj-abc-task-DEF123456_7890abcd",
        f"{PEM[:60]}\n{PEM}",
    ],
)
def test_a_secret_that_holds_its_own_beginning_once_more_waits_from_the_first(secret: str) -> None:
    screen = EventScrubber(SCRUBBER)
    shown = [one for n, letter in enumerate(f"{secret}\n") for one in screen.add(TextEvent(n, "i", letter))]
    assert "".join(event.text for event in shown) == SCRUBBER.scrub(f"{secret}\n")
    assert "[secret" in SCRUBBER.scrub(secret)


@pytest.mark.parametrize("begun", ["-----BEGIN ", "sk-", "Bearer ", "eyJ"])
def test_what_never_becomes_a_secret_does_not_wait_for_ever(begun: str) -> None:
    screen = EventScrubber(SCRUBBER)
    shown = [event.at_s for n in range(200) for event in screen.add(TextEvent(n, "o", begun + "a" * 500))]
    assert {*range(150)} <= {*shown}


@pytest.mark.parametrize(("apart_s", "behind"), [(0.001, 1000), (0.5, 11)])
def test_a_letter_that_may_begin_a_secret_holds_back_no_other_kind_for_ever(apart_s: float, behind: int) -> None:
    screen = EventScrubber(SCRUBBER)
    assert list(screen.add(TextEvent(0, "i", "s"))) == []
    told = [TextEvent(apart_s * (n + 1), "o", f"line {n}\n") for n in range(behind + 5)]
    shown = [[*screen.add(event)] for event in told]
    assert shown == [*([] for _ in range(behind - 1)), told[:behind], *([event] for event in told[behind:])]
    late = [*screen.add(TextEvent(9999, "i", "k-proj-abcDEF123456_7890abcd")), *screen.add(TextEvent(9999, "i", "\r"))]
    assert "".join(event.text for event in late) == "[secret api-key]\r"
    assert [event.at_s for event in late] == [told[-1].at_s, 9999, 9999]


def test_what_overtook_comes_before_what_follows_of_the_same_kind() -> None:
    screen = EventScrubber(SCRUBBER)
    events = [(0, "i", "cs"), (1, "o", "x\n"), (9, "o", "y\n"), (10, "i", "t\r"), (11, "o", "z\n")]
    shown = [one for event in events for one in screen.add(TextEvent(*event))]
    assert shown == [(0, "i", "c"), (1, "o", "x\n"), (9, "o", "y\n"), (9, "i", "s"), (10, "i", "t\r"), (11, "o", "z\n")]


def test_a_text_that_is_whole_waits_for_nothing() -> None:
    screen = EventScrubber(SCRUBBER, whole=frozenset({"m"}))
    events = [TextEvent(0, "m", "tests"), TextEvent(1, "o", "$ \n"), TextEvent(2, "m", f"k-proj {SECRET}-stap")]
    shown = [one.text for event in events for one in screen.add(event)]
    assert shown == ["tests", "$ \n", "k-proj [secret MY_KEY]-stap"]
