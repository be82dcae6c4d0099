"""Drawings: what is said in them, and what has no room."""

from __future__ import annotations

from termarena.arena.drawing import Point, Range, scatter


def _point(label: str, cost_usd: float, mean: float, *, is_ours: bool = False) -> Point:
    return Point(label, cost_usd, Range(mean, mean - 0.05, mean + 0.05), href="/agents/x", is_ours=is_ours)


def test_names_that_would_lie_on_each_other_are_told_when_pointed_at() -> None:
    near = [_point(f"agent {number}", 0.1, 0.5 + number / 1000) for number in range(5)]
    drawn = scatter([*near, _point("far", 0.001, 0.1), _point("this run", 0.1, 0.5, is_ours=True)])
    assert drawn.count("<circle") == drawn.count("<title>") == 7
    assert [name in drawn for name in (">this run</text>", ">far</text>", ">agent 0</text>")] == [True, True, False]


def test_what_costs_nothing_or_is_not_known_is_not_drawn() -> None:
    assert scatter([]) == ""
    assert scatter([_point("free", 0.0, 0.5), Point("unknown", 1.0, Range(None, None, None))]) == ""
    drawn = scatter([_point('<b>&"', 1.0, 0.5)])
    assert "<b>" not in drawn
    assert 'data-label="&lt;b&gt;&amp;&#34;"' in drawn
