from __future__ import annotations

import itertools
import json

import pytest

from termarena.cli import output
from termarena.cli.output import Column, print_json, print_line, print_table, print_text, progress, report_failure, say


def test_a_piped_table_has_one_unbroken_line_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 100
    print_table(["task", Column("count", align="right"), "about"], [("a", 1, long), ("bb", 22, None)])
    assert capsys.readouterr().out.splitlines() == [
        "task  count  about",
        f"a         1  {long.rstrip()}",
        "bb       22",
    ]


def test_what_looks_like_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["[bold]x"], [("[red]y[/red]",), (":smile:",)])
    assert capsys.readouterr().out.splitlines() == ["[bold]x", "[red]y[/red]", ":smile:"]


def test_wide_characters_stay_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["a", "b"], [("日本", "x"), ("abcd", "y")])
    assert capsys.readouterr().out.splitlines()[1:] == ["日本  x", "abcd  y"]


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        print_table(["a", "b"], [("only one",)])


def test_control_characters_cannot_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("name\x1b[2J\x07\u202e\u200f\ttab\nline")
    say("\x9b1m")
    print_table(["x"], [("\x1b]0;title\x07",)])
    told = capsys.readouterr()
    assert told.out == "name\\x1b[2J\\x07\\u202e\\u200f\ttab\nline\nx\n\\x1b]0;title\\x07\n"
    assert told.err == "\\x9b1m\n"


def test_no_text_from_outside_can_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\nerror: all is lost\tnow\u2028\x85"
    spelled = r"a\nerror: all is lost\tnow\u2028\x85"
    print_line(name)
    print_table(["x", "y"], [(name, 1)])
    say(name)
    report_failure({"kind": "UsageError", "message": name, "hint": name}, as_json=False)
    told = capsys.readouterr()
    assert [line.split("  ")[0].rstrip() for line in told.out.splitlines()] == [spelled, "x", spelled]
    assert told.err.splitlines() == [spelled, f"error: {spelled}", f"hint: {spelled}"]


ODD = "é\x1b\x7f\x9b\u202e\udce9\n"


def test_json_is_printable_ascii_and_refuses_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": ODD})
    written = capsys.readouterr().out
    assert written.isascii()
    assert written.replace("\n", "").isprintable()
    assert json.loads(written) == {"name": ODD}
    with pytest.raises(ValueError, match="JSON compliant"):
        print_json(float("nan"))


def test_an_error_as_json_is_json_whatever_it_holds(capsys: pytest.CaptureFixture[str]) -> None:
    report_failure({"kind": "UsageError", "message": ODD}, as_json=True)
    told = capsys.readouterr().err
    assert told.isascii()
    assert json.loads(told)["error"]["message"] == ODD


def test_progress_in_a_log_is_a_line_per_quarter(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(output, "monotonic", lambda: float(next(ticks)))
    with progress("loading", total=1000) as shown:
        for _ in range(1000):
            shown.advance()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[1:] == ["loading: 500 of 1000", "loading: 750 of 1000", "loading: 1000 of 1000"]


def test_quick_work_leaves_no_word_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("loading", total=4) as shown:
        for _ in range(4):
            shown.advance()
    assert capsys.readouterr() == ("", "")


def test_progress_without_a_total_is_silent_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("fetching", unit="bytes") as shown:
        shown.move_to(5000, None)
        shown.advance(3)
        shown.move_to(0, 0)
    assert capsys.readouterr() == ("", "")
