"""Runs beside each other: verdicts, and what is said where there can be none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from support.made_runs import Made, made_run
from termarena.analysis import ComparisonOptions, Pair, compare_runs
from termarena.core.errors import MissingExtra, UsageError
from termarena.core.run_folder import RunFolder
from termarena.runs.config_lock import Origin
from termarena.runs.journal import Journal
from termarena.runs.plan import RunOptions
from termarena.runs.reading import RunView, read_run
from termarena.stats import RankSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Make = Callable[..., RunView]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A run by its name, its outcomes, and whatever `Made` takes."""

    def make(name: str, outcomes: Mapping[str, str], **made: object) -> RunView:
        return made_run(tmp_path / name, outcomes, Made(**made))  # type: ignore[arg-type]  # the fields of Made

    return make


def the_pair(first: RunView, second: RunView, **options: object) -> Pair:
    found = compare_runs([first, second], ComparisonOptions(**options))  # type: ignore[arg-type]  # its fields
    assert len(found.pairs) == 1
    return found.pairs[0]


def tasks(letters: str, number: int) -> dict[str, str]:
    return {f"task-{place:02}": letters for place in range(number)}


def test_a_clear_difference_is_a_verdict(make: Make) -> None:
    pair = the_pair(make("a", tasks("111", 8)), make("b", tasks("001", 8)))
    assert (pair.word, pair.why, pair.shared) == ("better", "", 8)
    assert pair.difference is not None
    assert pair.difference.effect == pytest.approx(2 / 3)
    assert pair.p_adjusted == pair.difference.test.p == 2 / 256
    assert the_pair(make("c", tasks("001", 8)), make("d", tasks("111", 8))).word == "worse"


def test_a_run_and_its_like_cannot_be_told_apart(make: Make) -> None:
    outcomes = {"a": "10", "b": "01", "c": "11", "d": "00", "e": "10", "f": "10", "g": "10"}
    pair = the_pair(make("a", outcomes), make("b", outcomes | {"a": "00", "b": "11"}))
    assert pair.word == "cannot tell"
    assert pair.why == "they differ at 2 of 7 tasks, and fewer than 6 can never tell"


def test_one_task_cannot_tell_and_divides_by_nothing(make: Make) -> None:
    pair = the_pair(make("a", {"only": "11111"}), make("b", {"only": "00000"}))
    assert (pair.word, pair.shared, pair.detectable) == ("cannot tell", 1, None)
    assert pair.why == "they differ at 1 of 1 tasks, and fewer than 6 can never tell"


def test_runs_on_different_datasets_are_refused_with_what_they_hold(make: Make) -> None:
    first, second = make("a", {"x": "1"}, dataset="one"), make("b", {"y": "1", "z": "1"}, dataset="two")
    with pytest.raises(UsageError, match=r"no task in common \(a has 1 of one; b has 2 of two\)"):
        compare_runs([first, second])


def test_runs_that_overlap_in_part_are_compared_on_what_they_share(make: Make) -> None:
    first = make("a", tasks("11", 8) | {"only-a": "11", "only-a-too": "11"})
    second = make("b", tasks("00", 8) | {"only-b": "00"})
    pair = the_pair(first, second)
    assert (pair.word, pair.shared) == ("better", 8)
    assert (pair.left_out.only_first, pair.left_out.only_second) == (2, 1)


def test_tasks_that_changed_between_the_runs_are_left_out(make: Make) -> None:
    second = make("b", tasks("00", 8), digests={"task-00": "task1:other", "task-01": "task1:other"})
    pair = the_pair(make("a", tasks("11", 8)), second)
    assert (pair.shared, pair.left_out.changed, pair.unverified) == (6, 2, 0)


def test_runs_whose_tasks_have_all_changed_are_refused(make: Make) -> None:
    first, second = make("a", {"x": "1"}), make("b", {"x": "1"}, digests={"x": "task1:other"})
    with pytest.raises(UsageError, match="of 1 that share a name, all have changed"):
        compare_runs([first, second])


def test_a_task_that_changed_during_a_run_is_left_out(make: Make) -> None:
    first = make("a", tasks("11", 8))
    folder = RunFolder(first.folder.path)
    with Journal(folder.journal, first.history.tail) as journal:
        journal.append("run_resumed", {"source": None, "changed": {"task-03": "task1:new"}})
    pair = the_pair(read_run(folder), make("b", tasks("00", 8)))
    assert (pair.shared, pair.left_out.changed) == (7, 1)


def test_digests_of_two_methods_say_nothing_of_each_other(make: Make) -> None:
    second = make("b", tasks("00", 8), digests=dict.fromkeys(tasks("", 8), "harbor-checksum:1"))
    pair = the_pair(make("a", tasks("11", 8)), second)
    assert (pair.shared, pair.unverified, pair.left_out.changed) == (8, 8, 0)


def test_unscored_trials_that_could_turn_a_verdict_keep_it_back(make: Make) -> None:
    first, second = make("a", tasks("1?", 8)), make("b", tasks("00", 8))
    pair = the_pair(first, second)
    assert pair.extremes is not None
    assert (pair.extremes.missing_first, pair.extremes.missing_second) == (8, 0)
    assert (pair.extremes.low, pair.extremes.high) == (0.5, 1.0)
    assert (pair.extremes.low_word, pair.extremes.high_word, pair.word) == ("better", "better", "better")
    weaker = the_pair(make("c", tasks("1??", 8)), make("d", tasks("0??", 8)))
    assert weaker.word == "cannot tell"
    assert weaker.why == "the 32 trials without a score could turn it"
    assert weaker.difference is not None
    assert weaker.difference.test.p < 0.05
    assert weaker.extremes is not None
    assert weaker.extremes.low == pytest.approx(-1 / 3)


def test_a_task_without_a_score_in_one_run_is_counted_and_not_dropped_in_silence(make: Make) -> None:
    first = make("a", tasks("11", 8) | {"task-00": "??"})
    pair = the_pair(first, make("b", tasks("00", 8)))
    assert (pair.shared, pair.left_out.without_score) == (7, 1)
    assert pair.extremes is not None
    assert pair.extremes.low == pytest.approx(7 / 8)


def test_trials_that_have_not_run_yet_count_as_missing(make: Make) -> None:
    found = compare_runs([make("a", tasks("1-", 8)), make("b", tasks("00", 8))])
    assert [(side.unscored, side.pending) for side in found.sides] == [(0, 8), (0, 0)]
    assert found.sides[0].bounds is not None
    assert (found.sides[0].bounds.low, found.sides[0].bounds.high) == (0.5, 1.0)
    assert found.pairs[0].extremes is not None


def test_zero_attempts_are_a_statement_and_no_division_by_zero(make: Make) -> None:
    found = compare_runs([make("a", tasks("--", 8)), make("b", tasks("00", 8))])
    pair = found.pairs[0]
    assert (pair.word, pair.why) == ("cannot tell", "there is no score of a")
    assert (pair.difference, pair.p_adjusted, pair.extremes, pair.shared) == (None, None, None, 0)
    assert found.sides[0].accuracy is None
    nothing = the_pair(make("c", tasks("??", 3)), make("d", tasks("--", 3)))
    assert nothing.why == "there is no score of c and none of d"


def test_scores_at_different_tasks_only_are_a_statement(make: Make) -> None:
    pair = the_pair(make("a", {"x": "1", "y": "?"}), make("b", {"x": "?", "y": "1"}))
    assert (pair.word, pair.why) == ("cannot tell", "no task has a score in both")


def test_changed_limits_are_told(make: Make) -> None:
    second = make("b", tasks("00", 8), options=RunOptions(timeout_multiplier=2, default_timeout_s=60))
    pair = the_pair(make("a", tasks("11", 8)), second)
    assert pair.cautions == (
        "time for tasks without a limit: not set and 60 s",
        "timeout multiplier: not set and 2",
    )
    assert the_pair(make("c", tasks("11", 8)), make("d", tasks("11", 8))).cautions == ()


def test_another_harness_with_limits_of_its_own_is_told(make: Make) -> None:
    limits = {"global_agent_timeout_sec": "600"}
    origin = Origin(tool="terminal-bench", version="0.2.18", name="r", path="/r", changed_limits=limits)
    pair = the_pair(make("a", tasks("11", 8)), make("b", tasks("00", 8), origin=origin, dataset="big"))
    assert "dataset: little and big" in pair.cautions
    assert "harness: termarena and terminal-bench" in pair.cautions
    assert "limit global_agent_timeout_sec: not set and 600" in pair.cautions


def test_rewards_see_what_solving_does_not(make: Make) -> None:
    first, second = make("a", tasks("hh", 8)), make("b", tasks("00", 8))
    assert the_pair(first, second).word == "cannot tell"
    pair = the_pair(first, second, metric="reward")
    assert (pair.word, pair.difference and pair.difference.effect) == ("better", 0.5)


def test_unequal_attempts_are_compared_by_their_means(make: Make) -> None:
    pair = the_pair(make("a", tasks("11111", 8)), make("b", tasks("01", 8)))
    assert pair.difference is not None
    assert pair.difference.effect == 0.5
    assert pair.extremes is None


def test_many_runs_are_corrected_and_ranked_in_sets(make: Make) -> None:
    runs = [make("low", tasks("000", 9)), make("high", tasks("111", 9)), make("middling", tasks("111", 9))]
    found = compare_runs(runs)
    assert [side.name for side in found.sides] == ["high", "middling", "low"]
    assert [side.ranks for side in found.sides] == [RankSet(1, 2), RankSet(1, 2), RankSet(3, 3)]
    assert [pair.word for pair in found.pairs] == ["cannot tell", "better", "better"]
    assert found.pairs[1].p_adjusted == pytest.approx(3 * 2 / 2**9)
    assert found.has_one_task_set


def test_a_correction_can_take_a_verdict_away(make: Make) -> None:
    first, second = make("a", tasks("1", 6)), make("b", tasks("0", 6))
    assert the_pair(first, second).word == "better"
    third = make("c", tasks("1", 6))
    pairs = {(pair.first, pair.second): pair for pair in compare_runs([first, second, third]).pairs}
    assert {pair.word for pair in pairs.values()} == {"cannot tell"}


def test_the_extremes_are_judged_as_strictly_as_the_pair(make: Make) -> None:
    """Alone the extreme would be significant; among three pairs it is not."""
    first, second = make("a", tasks("11", 7)), make("b", tasks("00", 6) | {"task-06": "0?"})
    alone = the_pair(first, second)
    assert alone.extremes is not None
    assert alone.extremes.low_word == "better"
    third = make("c", tasks("10", 7))
    among = compare_runs([first, second, third], ComparisonOptions(alpha=0.02)).pairs
    assert [pair.word for pair in among] == ["cannot tell"] * 3


def test_pairs_on_different_tasks_are_told(make: Make) -> None:
    runs = [make("a", tasks("1", 6)), make("b", tasks("1", 7)), make("c", tasks("1", 8))]
    assert not compare_runs(runs).has_one_task_set


def test_the_same_run_twice_is_refused(make: Make) -> None:
    run = make("a", {"x": "1"})
    with pytest.raises(UsageError, match="given twice"):
        compare_runs([run, run])
    with pytest.raises(UsageError, match="two runs or more"):
        compare_runs([run])


def test_two_runs_of_one_name_are_told_apart_by_their_place(tmp_path: Path) -> None:
    views = [made_run(tmp_path / place / "run", {"x": "1"}) for place in ("here", "there")]
    assert [side.name for side in compare_runs(views).sides] == [str(view.folder.path) for view in views]


def test_drawing_without_numpy_says_what_to_install(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    first, second = make("a", tasks("11", 8)), make("b", tasks("00", 8))
    assert the_pair(first, second).word == "better"
    with pytest.raises(MissingExtra, match="drawing permutations needs the package numpy") as caught:
        the_pair(first, second, permutations=1000)
    assert caught.value.hint == "pip install 'termarena[stats]'; in a clone: make setup"


def test_drawn_permutations_repeat_with_their_seed(make: Make) -> None:
    first, second = make("a", tasks("11", 8) | {"x": "00"}), make("b", tasks("00", 8) | {"x": "11"})
    drawn = [the_pair(first, second, permutations=5000, seed=seed).difference for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0] is not None
    assert drawn[2] is not None
    assert drawn[0].test.p != drawn[2].test.p
