"""Prompts as people have them: popular themes, in text alone, where nothing but their look tells what was typed."""

from __future__ import annotations

import itertools
import json
import time

import pytest

from termarena.forge.reading import read_bytes

TYPED = ["mkdir -p src/lib", "cd src", "echo 'a b' > lib/a.txt", "git init -q .", "git commit -qm one", "cd .."]
SIGN = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
_STYLES = {
    # Outside of a repository, and inside of one.
    "robbyrussell": ("➜  work ", "➜  src git:(main) ✗ "),
    "demo-magic": ("➜ work ", "➜ src "),
    "arrow alone": ("➜ ", "➜ "),
    "lambda": ("λ work → ", "λ src → "),
    "powerline": (" ann \ue0b0 ~/work \ue0b0 ", " ann \ue0b0 ~/work/src \ue0b0 "),
    "agnoster": (" ann@box \ue0b0 ~/work \ue0b0 ", " ann@box \ue0b0 ~/work/src \ue0b0 \ue0a0 main \ue0b0 "),
    "starship": (f"\nwork\n{SIGN} ", f"\nsrc on \ue0a0 main [!?]\n{SIGN} "),
    "bash-git-prompt": ("✔ 10:00:01 [box] work $ ", "✘-1 10:00:02 [box] src [main …2] $ "),
    "root's own shell": ("bash-5.2# ", "bash-5.2# "),
    "kali, as root": ("\n┌──(root㉿box)-[~/work]\n└─# ", "\n┌──(root㉿box)-[~/work/src]\n└─# "),
    "virtual environment": ("(venv) ann@box:~/work$ ", "(venv) ann@box:~/work/src (main)$ "),
    "msys": ("\nann@box MINGW64 ~/work\n$ ", "\nann@box MINGW64 ~/work/src (main)\n$ "),
    "ys": ("\n# ann @ box in ~/work [10:00:01] \n$ ", "\n# ann @ box in ~/work/src on git:main [10:00:02] \n$ "),
    "codespaces": ("@ann ➜ /workspaces/work $ ", "@ann ➜ /workspaces/work/src (main) $ "),
    "macOS": ("ann@box work % ", "ann@box src % "),
    "fish": ("ann@box ~/work> ", "ann@box ~/w/src (main)> "),
}


@pytest.mark.parametrize("style", _STYLES)
def test_what_was_typed_behind_a_popular_prompt(style: str) -> None:
    outside, inside = _STYLES[style]
    said = ["", "one\n", "one\ntwo words\n", "", "1\n", "one\ntwo\nthree\n"]
    shown = "".join(f"{inside if 2 <= at <= 5 else outside}{text}\n{said[at]}" for at, text in enumerate(TYPED))
    found = read_bytes(shown.encode(), source="recording.txt")
    assert [command.text for command in found.commands] == TYPED
    assert [command.output for command in found.commands] == [text.rstrip("\n") for text in said]


def test_lines_of_a_page_are_no_prompts() -> None:
    page = "# Install\nrun it twice\n# Use\nas it says\n> a word\n> of somebody\n50% done\n60% done\n1 > 0\n2 > 1\n"
    assert read_bytes(page.encode(), source="recording.txt").commands == ()


def test_a_long_text_keeps_its_beginning() -> None:
    text = "$ make\n" + "\tbuilding\n" * 40_000 + "$ ls\nout\n"
    found = read_bytes(text.encode(), source="recording.txt")
    assert [command.text for command in found.commands] == ["make", "ls"]
    assert found.commands[0].output.count("\tbuilding") == 40_000


def _cast(*pieces: tuple[float, str]) -> bytes:
    lines = [json.dumps({"version": 2, "width": 80, "height": 24})]
    at_s = 0.0
    for silence_s, text in pieces:
        at_s += silence_s
        lines.append(json.dumps([at_s, "o", text]))
    return "\n".join(lines).encode()


ON, OFF = "\x1b[?2004h", "\x1b[?2004l"
SHOWN = ["ls -l", "mkdir out", "cp a out/b"]


def test_a_script_that_types_for_its_viewers_is_what_it_types() -> None:
    typed = [piece for text in SHOWN for piece in ((0.5, "$ "), *((0.05, key) for key in text), (0.2, "\r\nsaid\r\n"))]
    raw = _cast((0, f"{ON}me@box:~$ "), (1, "./demo.sh"), (0.1, f"\r\n{OFF}\r"), *typed, (0.1, f"{ON}me@box:~$ "))
    found = read_bytes(raw, source="a.cast")
    assert [(command.text, command.output) for command in found.commands] == [(text, "said") for text in SHOWN]


def test_a_page_with_commands_in_it_is_not_what_was_typed() -> None:
    page = "".join(f"$ {text}\r\nsaid\r\n" for text in SHOWN)
    raw = _cast((0, f"{ON}me@box:~$ "), (1, "cat README"), (0.1, f"\r\n{OFF}\r"), (0.1, page), (0.1, f"{ON}me@box:~$ "))
    found = read_bytes(raw, source="a.cast")
    assert [command.text for command in found.commands] == ["cat README"]


def test_a_prompt_that_is_slow_to_come() -> None:
    pieces = [(0.1, ON), (0.2, "me@box ~> \x1b[K"), (1, "ls"), (0.2, f"\r\n{OFF}"), (0.1, "a\r\n")]
    raw = _cast((0, "Welcome to fish\r\n"), *pieces, *pieces, (0.1, ON), (0.2, "me@box ~> "))
    assert [(command.text, command.output) for command in read_bytes(raw, source="a.cast").commands] == [
        ("ls", "a")
    ] * 2


def test_what_was_printed_before_the_screen_was_cleared_is_kept() -> None:
    def typed(text: str) -> list[tuple[float, str]]:
        return [(0.5, "$ "), *((0.05, key) for key in text), (0.2, "\r\n")]

    raw = _cast(
        *typed("cat a"), (0.1, "one\r\ntwo\r\n"), (1, "\x1b[2J\x1b[H"), *typed("ls"), (0.1, "a\r\n"), (0.1, "$ ")
    )
    found = read_bytes(raw, source="a.cast").commands
    assert [(command.text, command.output) for command in found] == [("cat a", "one\ntwo"), ("ls", "a")]


def test_a_screen_that_is_cleared_again_and_again_is_kept_once() -> None:
    typed = [(0.5, "$ "), *((0.05, key) for key in "make"), (0.2, "\r\n")]
    printed = "".join(f"line {number}\r\n" for number in range(800))
    began_s = time.process_time()
    raw = _cast(*typed, (0.1, printed), (0.1, "\x1b[2J" * 10_000), (1, "$ "), (0.05, "l"), (0.05, "s"), (0.2, "\r\n"))
    found = read_bytes(raw, source="a.cast").commands
    assert [command.text for command in found] == ["make", "ls"]
    assert found[0].output.endswith("line 799")
    assert time.process_time() - began_s < 2


def test_a_screen_that_is_cleared_while_a_line_is_typed() -> None:
    prompt = f"\x1b[0m\x1b[27m\x1b[24m\x1b[J~/a {SIGN} \x1b[K"
    first = ((0, "\r" + prompt), (0.001, ON), (1, "ls"), (0.3, f"{OFF}\r\r\n"), (0.1, "a b\r\n"))
    second = (
        (0.01, "\r" + prompt),
        (0.001, ON),
        (1, "\x1b[H\x1b[2J" + prompt),
        (1, "git commit"),
        (0.3, f"{OFF}\r\r\n"),
    )
    found = read_bytes(_cast(*first, *second, (0.1, "done\r\n"), (0.01, "\r" + prompt + ON)), source="a.cast")
    assert [(command.text, command.output) for command in found.commands] == [("ls", "a b"), ("git commit", "done")]


@pytest.mark.parametrize(
    "line",
    ["~" + ">" * 20_000 + "$ ls", "➜  " + "[" * 40_000 + " ls", "➜  ~ git:(" + "[" * 40_000 + ") ls"],
    ids=["signs", "folder", "branch"],
)
def test_a_line_of_any_length_is_read_once(line: str) -> None:
    """A text has no screen, whose width bounds its lines."""
    began_s = time.process_time()
    read_bytes(f"{line}\n{line}\nme@box:~$ ls\na\n".encode(), source="a.txt")
    assert time.process_time() - began_s < 1


def test_many_kinds_of_lines_are_counted_once() -> None:
    signs = ["".join(chosen) for chosen in itertools.product("!?*=;,", repeat=5)][:4000]
    began_s = time.process_time()
    read_bytes("".join(f"{sign}# ls\n" for sign in (*signs, *signs)).encode(), source="a.txt")
    assert time.process_time() - began_s < 5
