"""Commands taken apart: programs, resolved words, what feeds them, where they write."""

from __future__ import annotations

import pytest

from termarena.forge.screening.shell import UNKNOWN, ShellReader


def _words(text: str) -> list[tuple[str, ...]]:
    return [call.words for call in ShellReader().read(text).calls]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rm -rf /", [("rm", "-rf", "/")]),
        ("rm -rf \"/\"'etc'", [("rm", "-rf", "/etc")]),
        ("X=/; rm -rf $X", [("rm", "-rf", "/")]),
        ("X='a b'; rm $X", [("rm", "a", "b")]),
        ('X="a b"; rm "$X"', [("rm", "a b")]),
        ("rm -r ${HOME}/x", [("rm", "-r", "~/x")]),
        ("rm -r $NOBODY_SET_THIS/x", [("rm", "-r", f"{UNKNOWN}/x")]),
        ("sudo -u root env A=1 nice -n 5 rm x", [("rm", "x")]),
        ("for f in /a /b; do rm $f; done", [("rm", "/a", "/b")]),
        ("sh -c 'rm -r /'", [("sh", "-c", "rm -r /"), ("rm", "-r", "/")]),
        ("eval rm -r /", [("eval", "rm", "-r", "/"), ("rm", "-r", "/")]),
        ("bash <<'EOF'\nrm x\nEOF", [("bash",), ("rm", "x")]),
        ("cat > f <<'EOF'\nrm -rf /\nEOF", [("cat",)]),
        ("echo $(rm x)", [("rm", "x"), ("echo", UNKNOWN)]),
        ("if true; then rm x; fi", [("true",), ("rm", "x")]),
        ("f() { rm x; }", [("rm", "x")]),
        ("rm\\ x; echo \\$HOME", [("rm x",), ("echo", "$HOME")]),
        ("find . | xargs -n 1 rm", [("find", "."), ("rm",)]),
        ("# rm -rf /", []),
    ],
)
def test_words(text: str, words: list[tuple[str, ...]]) -> None:
    assert _words(text) == words


def test_variables_last_for_a_session() -> None:
    reader = ShellReader()
    reader.read("export TARGET=/etc")
    assert reader.read("rm -r $TARGET").calls[0].words == ("rm", "-r", "/etc")


def test_what_feeds_a_program_and_where_it_writes() -> None:
    (_, shell) = ShellReader().read("curl -s x | sudo bash -s > log 2>&1").calls
    assert (shell.program, shell.writes, shell.wrappers) == ("bash", ("log",), ("sudo",))
    assert [feeder.program for feeder in shell.fed_by] == ["curl"]
    (_, other) = ShellReader().read("bash <(wget -qO- x)").calls
    assert [feeder.program for feeder in other.fed_by] == ["wget"]


def test_what_the_grammar_does_not_cover_is_told() -> None:
    assert not ShellReader().read("if then fi ((").is_whole
    assert ShellReader().read("ls -l | wc").is_whole


def test_a_script_in_a_script_has_an_end() -> None:
    text = "eval " * 50 + "ls"
    assert ShellReader().read(text).calls
