"""A trial as its folder tells it, whatever the folder holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.arena_server import served
from support.made_attempts import COMMANDS, made_attempt
from support.made_runs import made_run
from termarena.arena import attempt as attempts
from termarena.arena.attempt import file_of, read_attempt
from termarena.arena.drawing import Point, Range, interval_bar, scatter
from termarena.arena.exporting import export_run
from termarena.core.records import write_record
from termarena.core.run_folder import AttemptFolder
from termarena.core.trajectory import ToolCall

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    made = AttemptFolder(tmp_path / "attempt-1")
    made_attempt(made, task="one")
    return made


def test_steps_stand_at_their_moment_in_the_recording(folder: AttemptFolder) -> None:
    seen = read_attempt(folder)
    assert [step.cast_s for step in seen.steps] == [0.0, *COMMANDS]
    assert [step.at_s for step in seen.steps] == [0.0, *(at + 2 for at in COMMANDS)]
    assert [call.told for step in seen.steps for call in step.calls] == list(COMMANDS.values())
    assert seen.steps[1].calls[0].output == "did ls\n"
    assert (seen.casts[0].cols, seen.casts[0].rows, seen.change_count) == (60, 12, 1)
    assert seen.problems == ()


def test_a_terminal_that_was_opened_is_told_by_its_size() -> None:
    sizes = {"cols": 160, "rows": 40, "shell_argv": ["/bin/sh"]}
    call = ToolCall(tool_call_id="c", function_name="terminal", arguments=sizes)
    assert attempts._told(call) == "160x40"  # noqa: SLF001 - whatever page shows it


def test_what_has_not_ended_is_not_shown(folder: AttemptFolder) -> None:
    folder.result.unlink()
    seen = read_attempt(folder)
    assert (seen.has_ended, seen.steps, seen.casts, seen.files) == (False, (), (), {})
    assert file_of(folder, "terminal.cast") is None


def test_only_files_of_an_attempt_are_given_out(folder: AttemptFolder, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (folder.path / "metrics.json").symlink_to(tmp_path / "secret")
    assert file_of(folder, "terminal.cast") == folder.cast()
    assert [file_of(folder, name) for name in ("metrics.json", "../secret", "state.snapshot", "result.json/")] == [
        None
    ] * 4


@pytest.mark.parametrize("name", ["trajectory.json", "tool_calls.json", "changes.json", "result.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"kind": "x"}', b"\xff\xfe", b'{"steps": [{"message": 7}]}'])
def test_a_file_that_holds_something_else_is_told(folder: AttemptFolder, name: str, content: bytes) -> None:
    (folder.path / name).write_bytes(content)
    seen = read_attempt(folder)
    assert [problem.partition(" ")[0] for problem in seen.problems] == [name]
    assert str(folder.path) not in seen.problems[0]


def test_a_recording_that_is_none_leaves_the_steps_without_a_moment(folder: AttemptFolder) -> None:
    folder.cast().write_bytes(b"no recording\n")
    seen = read_attempt(folder)
    assert (seen.casts[0].cols, seen.steps[1].cast_s, seen.steps[1].at_s) == (80, None, 3.0)


def test_long_work_is_cut_and_can_be_paged(folder: AttemptFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "STEPS_ON_A_PAGE", 2)
    first, rest = read_attempt(folder), read_attempt(folder, first_step=2)
    assert [step.number for step in first.steps] == [1, 2]
    assert [step.number for step in rest.steps] == [3, 4]
    assert first.step_count == 4
    monkeypatch.setattr(attempts, "CALL_TEXT", 5)
    assert read_attempt(folder).steps[1].calls[0].output == "did l\n\u2026 2 more characters in trajectory.json"


def test_a_recording_is_given_out_only_when_the_attempt_has_ended(tmp_path: Path) -> None:
    view = made_run(tmp_path / "runs" / "mine", {"one": "1"})
    made = view.folder.attempt("one", 1)
    made_attempt(made, task="one")
    with served(tmp_path / "runs") as server:
        path = "/api/runs/mine/trials/one/1/terminal.cast"
        assert server.client.get(path).status_code == 200
        assert "Replay" in server.page("/runs/mine/one/1")
        made.result.unlink()
        assert server.client.get(path).status_code == 404
        assert "Replay" not in server.page("/runs/mine/one/1")


def test_drawings_hold_numbers_and_escaped_names() -> None:
    shown = Range(0.5, 0.25, 0.75)
    assert 'aria-label="50.0 %, 95 % interval 25.0 % to 75.0 %"' in interval_bar(shown)
    assert interval_bar(Range(None, None, None)) == ""
    plot = scatter([Point("<b>", 0.1, shown, href='/a"b'), Point("free", 0.0, shown)])
    assert "&lt;b&gt;" in plot
    assert "<b>" not in plot
    assert '/a"b' not in plot
    assert "free" not in plot
    assert scatter([]) == ""


DEEP = b"[" * 100_000
ODD_CALLS = [
    "5",
    "null",
    '[{"id": ["x"]}]',
    '[{"id": "call-1", "duration_s": 1e999}]',
    '[{"id": "call-1", "arguments": []}]',
]


@pytest.mark.parametrize("calls", ODD_CALLS)
def test_calls_that_are_none_do_not_break_the_page(tmp_path: Path, calls: str) -> None:
    view = made_run(tmp_path / "runs" / "mine", {"one": "1"})
    folder = view.folder.attempt("one", 1)
    made_attempt(folder, task="one")
    folder.tool_calls.write_text(f'{{"kind": "tool_calls", "schema_version": 1, "calls": {calls}}}')
    with served(tmp_path / "runs") as server:
        assert "did ls" in server.page("/runs/mine/one/1")


@pytest.mark.parametrize(
    "content",
    [DEEP, b"{}\n" + DEEP + b"\n\n", b'{"timestamp": NaN}\n', b'{"timestamp": 1e999}\n', b'{"width": true}\n'],
)
def test_a_recording_that_is_none_does_not_break_the_page(tmp_path: Path, content: bytes) -> None:
    view = made_run(tmp_path / "runs" / "mine", {"one": "1"})
    folder = view.folder.attempt("one", 1)
    made_attempt(folder, task="one")
    folder.cast().write_bytes(content)
    with served(tmp_path / "runs") as server:
        assert "did ls" in server.page("/runs/mine/one/1")


def test_a_name_that_is_no_utf_8_is_shown_all_the_same(tmp_path: Path) -> None:
    view = made_run(tmp_path / "runs" / "mine", {"one": "1"})
    folder = view.folder.attempt("one", 1)
    made_attempt(folder, task="one")
    row = {"path": "/app/caf\udce9.txt", "change": "added", "kind": "file", "size": 1}
    write_record(folder.changes, "file-changes", {"total": 1, "changes": [row]})
    with served(tmp_path / "runs") as server:
        assert "/app/caf?.txt" in server.page("/runs/mine/one/1")
    assert export_run(view.folder, tmp_path / "pages").pages == 2
