"""How commands are found in a stream: each kind of evidence, in the forms that shells and plug-ins give it."""

from __future__ import annotations

import pytest

from support.made_casts import keys, read_made, texts
from termarena.forge.transcript import Tier

A, B, D = "\x1b]133;A\x07", "\x1b]133;B\x07", "\x1b]133;D;0\x07"
ON, OFF = "\x1b[?2004h", "\x1b[?2004l"
ZSH = "\r\x1b[0m\x1b[27m\x1b[24m\x1b[J"


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_mark_that_events_cut_in_two(cut: int) -> None:
    mark = "\x1b]133;C\x07"
    found = read_made(
        (0, f"{A}$ {B}"), (1, "ls"), (0.1, "\r\n" + mark[:cut]), (0, mark[cut:] + "a b\r\n" + D), (0, f"{A}$ {B}")
    )
    assert [(c.text, c.output, c.exit_status, c.tier) for c in found.commands] == [("ls", "a b", 0, Tier.MARKS)]


def test_the_command_that_a_mark_tells_is_taken() -> None:
    kitty = "\x1b]133;C;cmdline_url=printf%20%27a%0Ab%27\x1b\\"
    found = read_made((0, f"{A}$ {B}"), (1, "printf 'a\r\n> b'\r\n" + kitty), (0, "a\r\nb\r\n" + D))
    assert found.commands[0].text == "printf 'a\nb'"
    vscode = "\x1b]633;E;echo a\\x3b echo b;nonce\x07\x1b]633;C\x07"
    marks = [mark.replace("133", "633") for mark in (A, B, D)]
    found = read_made((0, f"{marks[0]}$ {marks[1]}"), (1, "echo a; echo b\r\n" + vscode), (0, "a\r\nb\r\n" + marks[2]))
    assert found.commands[0].text == "echo a; echo b"


def test_the_directory_is_told_in_several_ways() -> None:
    for told in ("\x1b]7;file://box/a%20b\x07", "\x1b]633;P;Cwd=/a b\x07", "\x1b]1337;CurrentDir=/a b\x07"):
        found = read_made((0, f"{told}{A}$ {B}"), (1, "ls\r\n\x1b]133;C\x07"), (0, D))
        assert found.commands[0].cwd == "/a b"


def test_lines_inside_of_a_marked_command() -> None:
    inner = [
        (0.1, f"{ON}>>> "),
        *((1, "x = 1"), (0.1, f"\r\n{OFF}\r")),
        (0.1, f"{ON}>>> "),
        (1, "quit()"),
        (0.1, f"\r\n{OFF}\r"),
    ]
    found = read_made((0, f"{A}$ {B}"), (1, "python3\r\n\x1b]133;C\x07Python\r\n"), *inner, (0.1, D + f"{A}$ {B}"))
    assert [(c.text, c.shell, c.tier) for c in found.commands] == [
        ("python3", True, Tier.MARKS),
        ("x = 1", False, Tier.PASTE),
        ("quit()", False, Tier.PASTE),
    ]


def test_bash_with_bracketed_paste() -> None:
    found = read_made(
        (0, f"{ON}me@box:~$ "), (1, "lss"), (0.2, "\b\x1b[K"), (0.5, f"\r\n{OFF}\r"), (0.1, "file\r\n"),
        (0, f"{ON}me@box:~$ "), (1, "cd x"), (0.5, f"\r\n{OFF}\r"), (0, f"{ON}me@box:~/x$ "),
    )  # fmt: skip
    assert [(c.text, c.output) for c in found.commands] == [("ls", "file"), ("cd x", "")]


def test_a_command_that_comes_together_with_its_prompt() -> None:
    found = read_made(
        (0, f"{ON}me@box:~$ "),
        (1, "one\r\n" + OFF + "\r"),
        (0.1, f"{ON}me@box:~$ two three\r\n{OFF}\r"),
        (0.1, f"{ON}me@box:~$ "),
    )
    assert texts(found.commands) == ["one", "two three"]


def test_a_first_key_that_comes_very_soon_belongs_to_the_command() -> None:
    lines: list[tuple[float, str]] = []
    for text in ("git status", "git diff", "make"):
        lines += [(0.1, f"{ON}me@box:~$ "), (1, text), (0.2, f"\r\n{OFF}\r")]
    lines += [(0.1, f"{ON}me@box:~$ "), (0.05, "g"), (1, "it log"), (0.2, f"\r\n{OFF}\r")]
    assert texts(read_made(*lines).commands) == ["git status", "git diff", "make", "git log"]


def test_zsh_prompts_right_prompts_and_unfinished_lines() -> None:
    mark = "\x1b[1m\x1b[7m%\x1b[27m\x1b[1m\x1b[0m" + " " * 79 + "\r \r"
    prompt = f"{mark}{ZSH}box% \x1b[K{ON}"
    right = "\x1b[60C12:30\x1b[65D"
    found = read_made(
        (0, prompt + right),
        (1, "printf abc"),
        (0.3, f"{OFF}\r\r\n"),
        (0.1, "abc"),
        (0, prompt),
        (1, "true"),
        (0.3, f"{OFF}\r\r\n"),
    )
    assert [(c.text, c.output) for c in found.commands] == [("printf abc", "abc"), ("true", "")]


def test_zsh_that_draws_a_shorter_prompt_over_the_old_one() -> None:
    sign = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
    long, short = f"{ZSH}~/a/b on main {sign} \x1b[K", f"\r{ZSH}{sign} "
    events: list[tuple[float, str]] = []
    for text, output in (("ls", "a\r\n"), ("pwd", "/a/b\r\n")):
        events += [
            (0.1, long),
            (0.001, ON),
            (1, text),
            (0.3, f"\r\n\x1b[A{OFF}{short}{text}\x1b[K"),
            (0.001, "\r\r\n"),
            (0.1, output),
        ]
    found = read_made(*events, (0.1, long + ON))
    assert [(c.text, c.output) for c in found.commands] == [("ls", "a"), ("pwd", "/a/b")]


def test_interrupted_and_empty_lines_are_no_commands() -> None:
    found = read_made(
        (0, f"{ON}$ "), (1, "sleep^C"), (0.1, f"\r\n{OFF}\r"), (0, f"{ON}$ "), (1, f"\r\n{OFF}\r"),
        (0, f"{ON}$ "), (1, "true"), (0.1, f"\r\n{OFF}\r"),
    )  # fmt: skip
    assert texts(found.commands) == ["true"]


def test_typing_without_marks_and_without_paste() -> None:
    events = [(0.0, "me@box:~$ "), (1.0, "l"), *keys("s -l"), (0.3, "\r\n"), (0.1, "total 0\r\n"), (0.0, "me@box:~$ ")]
    events += [(1.0, "p"), *keys("wd"), (0.3, "\r\n/home\r\nme@box:~$ ")]
    found = read_made(*events)
    assert [(c.text, c.output, c.tier) for c in found.commands] == [
        ("ls -l", "total 0", Tier.PROMPT),
        ("pwd", "/home", Tier.PROMPT),
    ]


def test_a_list_of_completions_is_no_end_of_a_line() -> None:
    events = [(0.0, "me@box:~$ "), (1.0, "c"), *keys("d /p"), (0.3, "\r\nproc/ public/\r\nme@box:~$ cd /p")]
    events += [
        (1.0, "u"),
        *keys("blic"),
        (0.3, "\r\n"),
        (0.0, "me@box:/public$ "),
        (1.0, "l"),
        *keys("s"),
        (0.3, "\r\n"),
    ]
    assert texts(read_made(*events).commands) == ["cd /public", "ls"]


def test_a_prompt_that_tells_the_branch_is_as_sure_as_others() -> None:
    events: list[tuple[float, str]] = []
    for prompt, text in (
        ("~/a (main)$ ", "git add ."),
        ("~/a (main *2) ✗ $ ", "git commit"),
        ("~/a$ ", "cd x"),
        ("~/a$ ", "ls"),
    ):
        events += [(0.1, ON + prompt), (1, text), (0.2, f"\r\n{OFF}\r")]
    found = read_made(*events)
    assert texts(found.commands) == ["git add .", "git commit", "cd x", "ls"]
    assert {command.confidence for command in found.commands} == {0.85}


def test_progress_of_programs_is_not_typing() -> None:
    events = [(0.0, "$ "), (1.0, "m"), *keys("ake"), (0.3, "\r\n"), *keys("....."), (0.1, "\r\n"), (0.0, "$ ")]
    events += [(1.0, "l"), *keys("s"), (0.3, "\r\n$ ")]
    assert texts(read_made(*events).commands) == ["make", "ls"]


def test_output_that_was_cleared_is_kept() -> None:
    found = read_made(
        (0, f"{A}$ {B}"),
        (1, "cat secret\r\n\x1b]133;C\x07"),
        (0, "abc\r\n" + D),
        (0, "\x1b[H\x1b[2J\x1b[3J"),
        (0, "end"),
    )
    assert found.commands[0].output == "abc"
    assert "abc" in found.text
    assert found.text.count("abc") == 1


def test_the_alternate_screen_is_seen_in_every_form() -> None:
    for number in ("47", "1047", "1049", "1049;25"):
        found = read_made(
            (0, f"{A}$ {B}"),
            (1, "vi\r\n\x1b]133;C\x07"),
            (0, f"\x1b[?{number}h~\r\n~ inside"),
            (1, f"\x1b[?{number}l{D}"),
        )
        assert found.alternate_screen
        assert (found.commands[0].interactive, found.commands[0].output) == (True, "")
        assert "inside" not in found.text
    assert read_made((0, "\x1b[?1049hnever left")).alternate_screen
    assert not read_made((0, "\x1b[?25l\x1b[?1000h plain")).alternate_screen


def test_a_screen_drawn_without_the_alternate_one() -> None:
    drawing = "".join(f"\x1b[{row};1Hrow {row}" for row in range(1, 20)) + "\x1b[22;1H\r\n"
    bar = "".join(f"\x1b[24;1H{part}%\x1b[1A" for part in range(50)) + "\r\n"
    for output, is_drawn in ((drawing, True), (bar, False)):
        found = read_made((0, f"{A}$ {B}"), (1, "tool\r\n\x1b]133;C\x07"), (0.1, output + D))
        assert [command.interactive for command in found.commands] == [is_drawn]
        typed = read_made(
            (0, "$ "),
            (1, "t"),
            *keys("ool"),
            (0.3, "\r\n"),
            (0.1, output + "$ "),
            (1, "l"),
            *keys("s"),
            (0.3, "\r\n$ "),
        )
        assert [command.interactive for command in typed.commands][:1] == [is_drawn]


def test_wide_characters_and_long_lines() -> None:
    text = "echo " + "日本語 " * 30 + "x" * 100
    found = read_made((0, f"{ON}$ "), (1, text), (0.1, f"\r\n{OFF}\r"), (0.1, f"{ON}$ "))
    assert found.commands[0].text == text


def test_a_terminal_that_changes_its_size() -> None:
    found = read_made(
        (0, f"{ON}$ "),
        (1, "echo " + "x" * 90),
        (0.1, "r", "60x20"),
        (0.1, f"\r\n{OFF}\r"),
        (0.1, "out\r\n"),
        (0, f"{ON}$ "),
    )
    assert (found.commands[0].text, found.commands[0].output) == ("echo " + "x" * 90, "out")


def test_a_recorded_command_and_recorded_keys() -> None:
    found = read_made((0, "building\r\n"), (1, "x", "2"), command="make all")
    assert [(c.text, c.output, c.exit_status, c.tier) for c in found.commands] == [
        ("make all", "building", 2, Tier.INPUT)
    ]
    assert read_made((0, "hello"), command="/bin/bash").commands == ()
    found = read_made((0, "i", "l"), (0.1, "i", "sx\x7f\r"), (1, "i", "cat fi\t\r"), (1, "o", "x"))
    assert texts(found.commands) == ["ls"]


def test_facts_of_windows_and_macos() -> None:
    found = read_made((0, "PS C:\\Users\\ada> "), (1, "dir\r\n"), env={"SHELL": "powershell.exe"})
    assert (found.facts.shell, found.facts.system) == ("powershell", "windows")
    assert read_made((0, "$ ls\r\n/opt/homebrew/bin\r\n")).facts.system == "macos"
