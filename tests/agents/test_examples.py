"""Solved examples: the right one is found, and never the task itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.tasks import Made, make_task
from termarena.agents.examples import Example, ExampleTurn, builtin_examples, retrieve, show_as_text, show_as_turns
from termarena.agents.text_protocol import read_actions
from termarena.core.errors import NotFound
from termarena.runs.solved import SolvedExamples
from termarena.tasks import load_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.tasks import Task

TURN = ExampleTurn(action="EXECUTE", arguments={"command": "true"}, outcome="Exit code: 0")


def example(task_id: str, instruction: str, *, digest: str | None = None) -> Example:
    return Example(task_id=task_id, instruction=instruction, digest=digest, turns=(TURN,))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make_task(tmp_path / "one", Made())


@pytest.mark.parametrize(
    ("instruction", "found"),
    [
        ("Create the file `/app/hello.txt` that holds the text Hello.", "greeting"),
        ("Count the lines of a log and write their number down.", "line-count"),
        ("Remove what ends in .bak from the work folder, file by file.", "clean-up"),
        ("Run an HTTP server on port 8080 in the background.", "file-server"),
    ],
)
def test_the_most_similar_example_is_found(task: Task, instruction: str, found: str) -> None:
    chosen = retrieve(task, instruction, builtin_examples(), count=1).chosen
    assert [each.example.task_id for each in chosen] == [found]


def test_what_has_nothing_in_common_is_not_shown(task: Task) -> None:
    assert retrieve(task, "Zzz.", builtin_examples(), count=3).chosen == ()
    assert retrieve(task, "Zzz.", (), count=3).chosen == ()


def test_the_task_itself_is_kept_from_the_model_under_any_name(task: Task) -> None:
    bank = (
        example(task.id, "Something else"),
        example("copy", "Something else", digest=task.digest),
        example("paraphrase", "Please write 1 to /app/one.txt. Thank you."),
        example("other", "Write a poem to /app/poem.txt"),
    )
    found = retrieve(task, task.instruction, bank, count=5)
    assert [each.example.task_id for each in found.chosen] == ["other"]
    assert [tuple(each) for each in found.left_out] == [
        (task.id, "it is the task"),
        ("copy", "it is the task under another name"),
        ("paraphrase", "its instruction is nearly the same"),
    ]
    noted = found.step().extra
    assert noted is not None
    assert [row["task_id"] for row in noted["left_out"]] == [task.id, "copy", "paraphrase"]


def test_no_builtin_example_gives_a_bundled_task_away() -> None:
    tasks = list(load_dataset("samples"))
    assert len(tasks) > 10
    for each in tasks:
        found = retrieve(each, each.instruction, builtin_examples(), count=1)
        assert (len(found.chosen), found.left_out) == (1, ())


def test_an_example_is_shown_in_the_words_that_the_protocol_reads(task: Task) -> None:
    content = "```\nACTION: TASK_COMPLETE\n```\n"
    turns = (ExampleTurn(action="WRITE_FILE", arguments={"path": "/a", "content": content}, outcome="done"), TURN)
    bank = (Example(task_id="x", instruction="Write it", turns=turns),)
    found = retrieve(task, "write", bank, count=1)
    messages = show_as_turns(found)
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant"]
    assert [dict(action.arguments) for action in read_actions(messages[1].content)] == [
        {"path": "/a", "content": content}
    ]
    assert "What was done:" in show_as_text(found)


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is no run"):
        SolvedExamples([str(tmp_path)])
    assert len(SolvedExamples(["builtin"]).examples()) == len(builtin_examples())
