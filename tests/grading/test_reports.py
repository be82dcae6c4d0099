"""Reports that tests leave beside their reward."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from termarena.grading.reports import parse_ctrf, parse_junit, reported_tests
from termarena.grading.rewards import BadReward, parse_reward, primary_reward

if TYPE_CHECKING:
    from pathlib import Path

JUNIT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="5">
  <testcase classname="tests.test_a" name="test_one" time="0.5"><system-out>x</system-out></testcase>
  <testcase classname="tests.test_a" name="test_two"><failure message="1 != 2">long text</failure></testcase>
  <testcase name="test_three"><error message="boom"/></testcase>
  <testcase name="test_four"><skipped type="pytest.skip" message="no network"/></testcase>
  <testcase name="test_five"><skipped type="pytest.xfail"/></testcase>
</testsuite></testsuites>
"""


def test_junit_names_states_and_messages_are_kept() -> None:
    assert [(one.name, one.state, one.message, one.duration_s) for one in parse_junit(JUNIT)] == [
        ("tests.test_a::test_one", "passed", "", 0.5),
        ("tests.test_a::test_two", "failed", "1 != 2", None),
        ("test_three", "error", "boom", None),
        ("test_four", "skipped", "no network", None),
        ("test_five", "xfailed", "", None),
    ]


BOMB = b"""<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "xxxxxxxxxx"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;">]>
<testsuite><testcase name="&y;"/></testsuite>"""
OUTSIDE = b"""<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<testsuite><testcase name="a">&x;</testcase></testsuite>"""


@pytest.mark.parametrize("content", [BOMB, OUTSIDE, b"", b"<testsuite>", b"not xml", b"<a>" * 50_000, b"\xff\xfe"])
def test_hostile_xml_gives_no_results(content: bytes) -> None:
    assert parse_junit(content) == ()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"results": []}', b'{"results": {"tests": {}}}', b"[" * 100_000, b'{"results": 1}']
)
def test_what_is_no_ctrf_gives_no_results(content: bytes) -> None:
    assert parse_ctrf(content) == ()


def test_odd_rows_of_ctrf_are_never_passes() -> None:
    rows = [{"name": "a", "status": "PASSED"}, {"name": "b"}, {"status": "passed"}, 5, {"name": "c", "status": "other"}]
    found = parse_ctrf(json.dumps({"results": {"tests": rows}}).encode())
    assert [(one.name, one.state) for one in found] == [("a", "unknown"), ("b", "unknown"), ("c", "unknown")]


def test_ctrf_goes_before_xml_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_bytes(JUNIT)
    assert len(reported_tests(tmp_path)) == 5
    (tmp_path / "other.xml").symlink_to(tmp_path / "junit.xml")
    assert len(reported_tests(tmp_path)) == 5
    (tmp_path / "ctrf.json").write_text(json.dumps({"results": {"tests": [{"name": "a", "status": "passed"}]}}))
    assert [one.name for one in reported_tests(tmp_path)] == ["a"]
    assert reported_tests(tmp_path / "nowhere") == ()


def test_counts_are_not_averaged_into_a_score() -> None:
    with pytest.raises(BadReward, match="no score"):
        parse_reward("reward.json", b'{"passed": 3, "failed": 2}')
    assert parse_reward("reward.json", b'{"passed": 3, "reward": 0}') == {"passed": 3.0, "reward": 0.0}


def test_the_primary_reward() -> None:
    assert primary_reward({"reward": 0.25, "other": 1.0}) == 0.25
    assert primary_reward({"accuracy": 0.5}) == 0.5
    assert primary_reward({"a": 1.0, "b": 0.0, "c": 0.5}) == 0.5


def test_rewards_as_people_write_them() -> None:
    assert parse_reward("reward.txt", b" 0.5\n") == {"reward": 0.5}
    assert parse_reward("reward.txt", b"1e-3") == {"reward": 0.001}
    assert parse_reward("reward.txt", b"-1") == {"reward": -1.0}
    assert parse_reward("reward.json", b'{"a": 1, "b": -0.5}') == {"a": 1.0, "b": -0.5}
    for content in (b"1_0", b"0x1", b"\xff", b"1 # one", b"\xd9\xa1"):
        with pytest.raises(BadReward):
            parse_reward("reward.txt", content)
    with pytest.raises(BadReward):
        parse_reward("reward.json", b'{"reward": 1' + b"0" * 400 + b"}")
