"""What a session holds beside its own commands: remarks, programs from nowhere, messages out of editors."""

from __future__ import annotations

import pytest

from support.sessions import command, session
from termarena.core.errors import RecordingRefused
from termarena.forge.draft import synthesize
from termarena.forge.messages import created_empty, with_message
from termarena.forge.strangers import strangers_in

COMMITTED = """\
[main (root-commit) f3934a2] First: it's a start
 1 file changed, 0 insertions(+), 0 deletions(-)
 create mode 100644 index.html
"""


def _roles(*commands: str) -> list[tuple[str, str]]:
    told = [command(text, status=None) for text in commands]
    return [(step.role.value, step.reason) for step in synthesize(session("A demonstration", *told)).steps]


def test_remarks_are_no_part_of_a_task_and_not_typed_again() -> None:
    found = _roles("Let us make a folder", "let the computer type for you", "mkdir out", "touch out/a b")
    assert found[:2] == [("dropped", "is a remark")] * 2
    assert [role for role, _ in found[2:]] == ["solve", "solve"]


@pytest.mark.parametrize("text", ["make all tests", "touch the end", "mkdir a b c", "cp this that there"])
def test_commands_of_plain_words_are_no_remarks(text: str) -> None:
    assert _roles(text, "touch z")[0] == ("solve", "")


def test_a_program_from_nowhere_is_left_out_and_named() -> None:
    told = session(
        "Copies",
        command("nosuchtool --check a.txt", "fine\n", None),
        "cp a.txt b.txt",
        "nosuchtool b.txt && cp b.txt c.txt",
    )
    draft = synthesize(told)
    assert strangers_in(draft.steps) == ("nosuchtool",)
    assert draft.solution.splitlines()[3:] == ["cp a.txt b.txt"]
    assert "nosuchtool" not in draft.requires
    with pytest.raises(RecordingRefused, match="its work is done by nosuchtool, which Debian does not have"):
        synthesize(session("Nothing else", "cd x", "nosuchtool run"))


@pytest.mark.parametrize(
    "before",
    ["pip install nosuchtool", 'nosuchtool() { cp "$@"; }', "alias nosuchtool=cp", "npm install -g nosuchtool"],
)
def test_a_program_that_the_session_brings_is_none_from_nowhere(before: str) -> None:
    draft = synthesize(session("Brought", before, "nosuchtool a b", "touch c"))
    assert strangers_in(draft.steps) == ()
    assert "nosuchtool a b" in draft.solution


def test_a_message_that_was_written_in_an_editor_is_the_one_that_git_tells() -> None:
    typed = command("git commit", COMMITTED, None).model_copy(update={"interactive": True})
    draft = synthesize(session("A first commit", "mkdir site && cd site", "git init", "git add .", typed))
    assert draft.solution.splitlines()[-1] == """git commit -m 'First: it'"'"'s a start'"""
    assert [(given.path, given.content) for given in draft.inputs] == [("/app/site/index.html", "")]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("git commit", ""),
        ("git commit", "Aborting commit due to empty commit message.\n"),
        ("git commit --amend", COMMITTED),
        ("git commit -m x", COMMITTED),
        ("git commit && git push", COMMITTED),
        ("git rebase -i HEAD~2", COMMITTED),
    ],
)
def test_where_git_tells_no_message_none_is_made_up(text: str, output: str) -> None:
    assert with_message(text, output) is None


def test_files_are_empty_only_where_a_commit_says_so_of_all() -> None:
    assert created_empty(COMMITTED) == ["index.html"]
    assert created_empty(COMMITTED.replace("0 insertions", "3 insertions")) == []
    assert created_empty(COMMITTED.replace("1 file", "2 files")) == []
    for name, is_text in {
        "src/a b.c": True, ".gitkeep": True, "lib/README": True, "a.png": False, "a.out": False, "main": False,
        '"\\303\\244.txt"': False, "../up.txt": True,
    }.items():  # fmt: skip
        assert created_empty(COMMITTED.replace("index.html", name)) == ([name] if is_text else []), name


def test_a_file_that_bat_shows_is_given() -> None:
    rule = "─" * 7 + "┬" + "─" * 20
    shown = (
        f"{rule}\n       │ File: a.c\n{rule}\n   1   │ int main(void)\n   2   │\n   3   │   {{ return 0; }}\n{rule}\n"
    )
    told = session("A program", command("bat a.c", shown), "cp a.c b.c")
    assert [(given.path, given.content) for given in synthesize(told).inputs] == [
        ("/app/a.c", "int main(void)\n\n  { return 0; }\n")
    ]
    ranged = session("A part", command("bat -r 5:6 a.c", "   5   │ x\n   6   │ y\n"), "cp a.c b.c")
    assert synthesize(ranged).inputs == ()


def test_nothing_but_plain_words_runs_where_a_network_is() -> None:
    """Inputs are made while an image is built: what could run a session's own code stays out of that."""
    first = ["export LD_PRELOAD=/app/x.so", "source ./env.sh", "eval ls", "f() { date; }", "mkdir in", "cd in"]
    draft = synthesize(session("Sorted", *first, "printf 'b\\na\\n' > names", "sort names > sorted"))
    assert draft.preparation == "#!/bin/bash\nset -e\ncd /app\nmkdir in\ncd in\nprintf 'b\\na\\n' > names\n"
    assert "LD_PRELOAD" in draft.solution
