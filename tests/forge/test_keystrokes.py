"""Lines that were entered where no mark and no bracketed paste tell: typed, recalled, pasted, completed."""

from __future__ import annotations

import time

import pytest

from support.made_casts import keys, read_made, texts

PROMPT = "me@box:~$ "
LS = [(0.0, PROMPT), *keys("ls"), (0.3, "\r\n"), (0.1, "a.txt\r\n"), (0.0, PROMPT)]


def test_a_line_out_of_the_history_is_entered_too() -> None:
    found = read_made(
        *LS, (1.0, "make all"), (0.5, "\r\n"), (0.1, "done\r\n"), (0.0, PROMPT), (1.0, "ls"), (0.5, "\r\n")
    )
    assert [(c.text, c.output) for c in found.commands] == [("ls", "a.txt"), ("make all", "done"), ("ls", "")]
    assert {command.confidence for command in found.commands} == {0.75}


def test_a_line_out_of_the_history_that_was_changed() -> None:
    edited = [(1.0, "make all"), (0.5, "\b\x1b[K"), (0.3, "\b\x1b[K"), (0.3, "\b\x1b[K"), *keys("test"), (0.4, "\r\n")]
    assert texts(read_made(*LS, *edited, (0.1, "ok\r\n"), (0.0, PROMPT)).commands) == ["ls", "make test"]


def test_lines_that_were_pasted_are_entered_too() -> None:
    pasted = [(1.0, "mkdir out\r\n"), (0.0, PROMPT), (0.0, "cp a.txt out\r\n"), (0.0, PROMPT)]
    assert texts(read_made(*LS, *pasted).commands) == ["ls", "mkdir out", "cp a.txt out"]


def test_a_line_below_a_list_of_completions_that_was_given_up() -> None:
    shown = (0.3, f"\r\nmain.c  main.h\r\n{PROMPT}vim main")
    found = read_made(*LS, *keys("vim main"), shown, shown, (1.0, "\b\x1b[K"), (0.3, "^C\r\n"), (0.0, PROMPT))
    assert texts(found.commands) == ["ls"]


def test_a_list_of_completions_in_the_middle_of_a_line() -> None:
    listed = [(0.3, "\r\none.js  two.js\r\n"), (0.0, f"{PROMPT}run test/ --exit" + "\b" * 7)]
    rest = [(1.0, "\x1b[1@t"), (0.2, "\x1b[1@w"), (0.2, "\x1b[4@o.js"), (0.5, "\r\n"), (0.1, "ok\r\n"), (0.0, PROMPT)]
    found = read_made(*LS, *keys("run test/ --exit"), (0.2, "\b" * 7), *listed, *rest)
    assert texts(found.commands) == ["ls", "run test/two.js --exit"]


@pytest.mark.parametrize("is_typed", [True, False])
def test_a_line_that_ends_at_the_edge_of_the_screen(is_typed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """readline writes a blank to come to the next row, and goes up again for the Enter key."""
    line = "echo " + "x" * (40 - len(PROMPT) - 5)
    entered = (
        [*keys(line[:-1]), (0.1, line[-1] + " \r"), (0.3, "\x1b[A\r\n")] if is_typed else [(1, f"{line} \r\x1b[A\r\n")]
    )
    found = read_made((0.0, PROMPT), *entered, (0.1, "one\r\ntwo\r\n"), *LS, width=40)
    assert [(c.text, c.output) for c in found.commands] == [(line, "one\ntwo"), ("ls", "a.txt")]
    assert f"{PROMPT}{line}\none\n" in found.text


def test_a_demonstration_that_shows_no_prompt() -> None:
    lines = ("# First a folder:", "mkdir out", "# and a file in it", "touch out/a", "ls out")
    typed = [event for line in lines for event in ((0.01, line[0]), *keys(line[1:]), (0.1, "\r\n"))]
    found = read_made(*typed, (0.1, "a\r\n"))
    assert texts(found.commands) == list(lines)
    assert found.commands[-1].output == "a"


def test_a_story_without_a_prompt_is_no_session() -> None:
    lines = ("Once upon a time", "there was a terminal", "that nobody typed into")
    assert read_made(*(event for line in lines for event in (*keys(line), (0.1, "\r\n")))).commands == ()


def test_a_session_in_a_window_of_screen_is_read() -> None:
    begin, end = "\x1b[?1049h\x1b[1;24r\x1b[H\x1b[2J", "\x1b[?1049l\r\n[screen is terminating]\r\n"
    pwd = [*keys("pwd"), (0.3, "\r\n"), (0.1, "/home/me\r\n"), (0.0, PROMPT)]
    status = (0.0, "\x1b[s\x1b[24;1H\x1b[7m a name \x1b[m\x1b[u")
    found = read_made(
        (0.0, begin), *LS, status, (0.0, "p"), *keys("wd"), (0.3, "\r\n/home/me\r\n"), *LS, *pwd, (0.1, end)
    )
    assert texts(found.commands) == ["ls", "pwd", "ls", "pwd"]
    assert (found.alternate_screen, found.inside_alternate) == (True, True)


def test_a_screen_that_is_drawn_is_not_read_as_lines() -> None:
    drawn = "".join(f"\x1b[{row};1H{PROMPT}ls {row}\r\n" for row in range(1, 20))
    found = read_made((0.0, "\x1b[?1049h"), (0.1, drawn), (1.0, "\x1b[?1049l"))
    assert (found.commands, found.inside_alternate) == ((), False)


def test_what_a_screen_without_lines_above_clears_is_kept() -> None:
    """`clear` of terminals that cannot erase those lines: to the corner, then all below it."""
    found = read_made(*LS, *keys("cat a.txt"), (0.3, "\r\n"), (0.1, "one\r\n"), (1.0, "\x1b[H\x1b[J"), *LS)
    assert [(c.text, c.output) for c in found.commands] == [("ls", "a.txt"), ("cat a.txt", "one"), ("ls", "a.txt")]


def test_lines_typed_into_a_program_of_its_own_are_no_demonstration() -> None:
    on, off = "\x1b[?2004h", "\x1b[?2004l"
    inner = [event for _ in range(4) for event in ((0.2, "far:/away> "), *keys("pwd"), (0.2, "\r\n/away\r\n"))]
    found = read_made((0.0, f"{on}{PROMPT}"), (1.0, "far shell"), (0.2, f"\r\n{off}\r"), *inner, (0.1, f"{on}{PROMPT}"))
    assert texts(found.commands) == ["far shell"]


def test_keys_that_were_pressed_before_the_prompt_came() -> None:
    slow = [
        *keys("sleep 1"),
        (0.3, "\r\n"),
        (0.2, "m"),
        (0.1, "k"),
        (0.2, f"{PROMPT}mk"),
        *keys("dir x"),
        (0.3, "\r\n"),
    ]
    assert texts(read_made(*LS, *slow, (0.0, PROMPT)).commands) == ["ls", "sleep 1", "mkdir x"]


def test_the_name_of_a_window_is_no_text() -> None:
    named = "\x1bkme@box:~/src\x1b\\"
    found = read_made((0.0, named), *LS, (0.0, named + "\r" + PROMPT), *keys("pwd"), (0.3, "\r\n"))
    assert texts(found.commands) == ["ls", "pwd"]
    assert "src" not in found.text
    hidden = read_made((0.0, named + "$ "), *keys("ls"), (0.3, "\r\n$ "))
    assert (hidden.facts.user, hidden.facts.host) == ("me", "box")


def test_what_a_pager_wipes_away_is_no_key() -> None:
    paged = [*keys("more a"), (0.3, "\r\n"), (0.1, "one\r\n--More--(50%)"), (1.0, "\r\x1b[K"), (0.0, PROMPT)]
    found = read_made(
        *LS, *paged, *keys("vim a.txt"), (0.3, "\r\n"), (0.1, "\x1b[?1049h~"), (1, "\x1b[?1049l"), (0.1, PROMPT)
    )
    assert [(c.text, c.interactive) for c in found.commands] == [("ls", False), ("more a", False), ("vim a.txt", True)]


def test_marks_that_never_end_are_passed_over_in_a_moment() -> None:
    began_s = time.process_time()
    assert texts(read_made(*LS, *keys("pwd"), (0.3, "\x1b]" * 40_000 + "\r\n"), (0.1, PROMPT)).commands)[0] == "ls"
    assert time.process_time() - began_s < 3
