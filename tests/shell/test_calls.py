"""Commands taken apart: programs, resolved words, what feeds them, where they write."""

from __future__ import annotations

import time

import pytest

from termarena.shell.calls import UNKNOWN, Call
from termarena.shell.effects import changes_state, is_pager
from termarena.shell.reader import MOST_FEEDERS, MOST_NESTED_EVER, ShellReader
from termarena.shell.remembering import Memory
from termarena.shell.runners import LONGEST_COMMAND


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
        ("timeout -k 3 9 rm x", [("rm", "x")]),
        ("sudo --user bob rm x", [("rm", "x")]),
        ("sudo -i", [("sudo", "-i")]),
        ("cat < <(rm x)", [("cat",), ("rm", "x")]),
        ("bash <<< 'rm x'", [("bash",), ("rm", "x")]),
        ("echo rm x | sh", [("echo", "rm", "x"), ("sh",), ("rm", "x")]),
        ("cat <<'E' | bash\nrm x\nE", [("cat",), ("bash",), ("rm", "x")]),
        ("cat > f <<'E' && rm x\ny\nE", [("cat",), ("rm", "x")]),
        ("case x in a) ls;; esac | sort", [("ls",), ("sort",)]),
        ('a=(x "y z"); rm "${a[@]}" ${a[1]} "${a[*]}" $a', [("rm", "x", "y z", "y", "z", "x y z", "x")]),
        ('for f in a b; do rm "$f.c"; done', [("rm", "a.c", "b.c")]),
        ('E=; rm $E x "$E"', [("rm", "x", "")]),
        ("sudo -nu bob rm x", [("rm", "x")]),
        (
            "p=a/b/c.d; rm ${p%.d} ${p%%/*} ${p#*/} ${p##*/} ${p:2} ${p:0:1}",
            [("rm", "a/b/c", "a", "b/c.d", "c.d", "b/c.d", "a")],
        ),
        ("p=aXbX; rm ${p/X/y} ${p//X/y} ${p^^} ${p,,} ${p: -1}", [("rm", "aybX", "ayby", "AXBX", "axbx", "X")]),
        ("E=; rm ${E:-x} ${E-y} ${E:+z} ${N:-w}", [("rm", "x", "w")]),
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
    assert [source.program for source in other.made_of] == ["wget"]


def test_what_the_grammar_does_not_cover_is_told() -> None:
    assert not ShellReader().read("if then fi ((").is_whole
    assert ShellReader().read("ls -l | wc").is_whole


def test_a_script_in_a_script_has_an_end() -> None:
    text = "eval " * 50 + "ls"
    assert ShellReader().read(text).calls


def test_nesting_beyond_reading_is_told() -> None:
    assert not ShellReader().read("$(" * 5000 + "ls" + ")" * 5000).is_whole


@pytest.mark.parametrize(
    "text",
    [
        "A=xxxxxxxx; " + "A=$A$A; " * 20 + "rm $A",
        "find " + "a " * 900 + "-exec rm " + "{} " * 900 + r"\;",
        "A='" + "x " * 1000 + "'; eval " + "$A" * 1000,
    ],
    ids=["doubled", "found", "evaluated"],
)
def test_what_a_short_line_grows_into_has_an_end(text: str) -> None:
    called = ShellReader().read(text)
    assert not called.is_whole
    assert sum(len(word) for call in called.calls for word in call.words) < 4 * LONGEST_COMMAND


def test_a_long_pipeline_is_read_once() -> None:
    calls = ShellReader().read(" | ".join(["cat > f"] * 200)).calls
    assert [len(call.fed_by) for call in calls] == [min(before, MOST_FEEDERS) for before in range(200)]


def test_what_a_pipeline_holds_grows_with_its_length() -> None:
    found = ShellReader().read("|".join(["a"] * 2000))
    assert sum(len(call.fed_by) for call in found.calls) < 200_000
    assert not found.is_whole
    assert len(ShellReader().read("a | b | c").calls[2].fed_by) == 2


def test_a_long_function_is_looked_at_once() -> None:
    began_s = time.process_time()
    assert ShellReader().read("f() { " + "f " * 20_000 + "; }").bombs == ()
    assert time.process_time() - began_s < 3


def test_a_place_has_an_end() -> None:
    reader = ShellReader()
    reader.read("cd aaaaaaaaa;" * 1000)
    assert len(reader.memory.cwd) < 4200


def test_a_file_that_is_run_again_and_again_is_not_read_for_ever() -> None:
    reader = ShellReader()
    reader.read("echo '" + "true;" * 10_000 + "' > long.sh")
    reader.memory.nested = MOST_NESTED_EVER - 70_000
    assert [reader.read("bash long.sh").is_whole for _ in range(2)] == [True, False]


def test_what_is_written_line_by_line_is_not_copied_each_time() -> None:
    memory = Memory()
    call = Call(("echo",), "", ("a",))
    began_s = time.process_time()
    for _ in range(60_000):
        memory.wrote(call, "x" * 60, more=True)
    assert time.process_time() - began_s < 3
    assert memory.text_at("a") == "x" * 3_600_000


def test_a_here_document_and_where_its_line_writes() -> None:
    reader = ShellReader()
    (call,) = reader.read("cat <<'EOF' > f\none\nEOF").calls
    assert call.writes == ("f",)
    assert reader.memory.text_at("f") == "one\n"


@pytest.mark.parametrize(
    ("text", "cwd"),
    [
        ("cd /a/b; cd ../c", "/a/c"),
        ("cd a; cd -", "."),
        ("cd; cd x/../y", "~/y"),
        ("pushd /a; pushd b; popd", "/a"),
        ("(cd /a); sh -c 'cd /b'", "."),
        ("eval 'cd /b'", "/b"),
        ("cd $NOBODY_SET_THIS/x", f"{UNKNOWN}/x"),
        ("cd ../..; cd a", "../../a"),
        ("cd ${D:-/srv}", "/srv"),
    ],
)
def test_where_a_session_is(text: str, cwd: str) -> None:
    reader = ShellReader()
    reader.read(text)
    assert reader.memory.cwd == cwd


def test_many_options_in_one_word_are_taken_off_at_once() -> None:
    began_s = time.process_time()
    assert _words("env " + "-S" * 10_000 + "'rm x'") == [("rm", "x")]
    assert _words("env " + "--split-string=" * 2000 + "'rm x'") == [("rm", "x")]
    assert time.process_time() - began_s < 1


@pytest.mark.parametrize(
    ("text", "is_change"),
    [
        ("ls 2>&1", False),
        ("ls > /dev/stderr", False),
        ("ls > f", True),
        ("git log", False),
        ("git clone https://example.org/a.git", True),
        ("less f", False),
        ("vim f", True),
        ("sort -o f f", True),
        ("yq -i '.a = 1' f", True),
        ("find . | xargs rm", True),
        ("find . | xargs grep x", False),
        ("docker build --help", True),
        ("make --help", False),
        ("$UNKNOWN x", False),
    ],
)
def test_changes_of_a_call(text: str, is_change: bool) -> None:  # noqa: FBT001 - a column of a table
    assert any(map(changes_state, ShellReader().read(text).calls)) is is_change


def test_a_pager_shows_and_a_commit_writes() -> None:
    shown = {text: is_pager(ShellReader().read(text).calls[0]) for text in ("git log", "git commit", "man ls", "ls")}
    assert shown == {"git log": True, "git commit": False, "man ls": True, "ls": False}
