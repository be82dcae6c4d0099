"""What a solution leaves, and when a partial one leaves the same."""

from __future__ import annotations

import pytest

from termarena.forge.facts import leaves_the_same, state_of
from termarena.sandbox.contract import Change, FileChanges


def _state(**files: str | None) -> dict[str, str]:
    """Of files by their path, with what they hold; `__` is a slash, None is removed."""
    return state_of(
        FileChanges(
            tuple(
                Change(f"/app/{name.replace('__', '/')}", "added" if held else "removed", "file", 0o644, 0, 0, 1, held)
                for name, held in files.items()
            )
        )
    )


def test_what_differs_between_whole_runs_does_not_count() -> None:
    whole = [_state(out="1", stamp="monday"), _state(out="1", stamp="tuesday", spool="x")]
    assert leaves_the_same(_state(out="1", stamp="friday"), whole)
    assert leaves_the_same(_state(out="1", spool="y"), whole)
    assert not leaves_the_same(_state(out="2", stamp="monday"), whole)
    assert not leaves_the_same(_state(stamp="monday"), whole)


def test_a_file_that_the_whole_solution_never_leaves_is_a_difference() -> None:
    whole = [_state(out="1")] * 3
    assert not leaves_the_same(_state(out="1", scratch="left lying about"), whole)
    assert not leaves_the_same(_state(out="1", given=None), whole)


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({"logs__HEAD": "another"}, True),
        ({"refs__tags__v1": ""}, False),
        ({"config": "another"}, False),
        ({"objects__02__bb": ""}, False),
    ],
)
def test_repositories_are_compared_but_for_what_tells_the_time(changed: dict[str, str], *, is_same: bool) -> None:
    def repository(day: str, **other: str) -> dict[str, str]:
        names = {"config": "c", "refs__heads__main": day, "refs__tags__v1": day, "logs__HEAD": day, "index": day}
        held = {**names, "objects__01__aa": day, "objects__02__bb": day, **other}
        return _state(**{f".git__{name}": content for name, content in held.items() if content})

    whole = [repository("monday"), repository("tuesday")]
    assert leaves_the_same(repository("friday", **changed), whole) is is_same
