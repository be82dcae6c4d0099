"""Slicing a session: what solves, what only looks, what is given, what is left out."""

from __future__ import annotations

import subprocess

import pytest

from support.sessions import COMMITTING, COUNTING, EDITING, SORTING, command, session
from termarena.core.errors import RecordingRefused
from termarena.forge.draft import synthesize
from termarena.forge.steps import Role
from termarena.forge.transcript import Command, Facts, Tier


def test_files_written_out_first_become_inputs() -> None:
    draft = synthesize(SORTING)
    assert [step.role for step in draft.steps] == [Role.INPUT, Role.READ, Role.SOLVE, Role.READ]
    assert draft.solution == "#!/bin/bash\nset -e\ncd /app\nsort -u names.txt > sorted.txt\n"
    assert draft.preparation is not None
    assert "zoe\nanna\nbob\nanna\nEOF" in draft.preparation


def test_what_a_session_only_prints_goes_to_a_file_and_what_it_shows_is_given() -> None:
    draft = synthesize(COUNTING)
    assert "{\ngrep -c ERROR app.log\n} > /app/answer.txt" in draft.solution
    assert [(given.path, given.content) for given in draft.inputs] == [
        ("/app/app.log", "INFO start\nERROR disk\nINFO go\nERROR net\n")
    ]


def test_commands_that_were_not_there_and_looks_are_left_out_and_the_folder_is_kept() -> None:
    draft = synthesize(
        session("Look", "cd sub", command("gti add x", "gti: not found", 127), "touch a", command("ls", "a"))
    )
    assert draft.solution.splitlines()[3:] == ["cd sub", "touch a"]
    dropped = [step for step in draft.steps if step.role is Role.DROPPED]
    assert [(step.text, step.reason) for step in dropped] == [("gti add x", "failed with status 127")]


def test_a_command_that_failed_may_have_left_something_and_does_not_stop_the_script() -> None:
    draft = synthesize(session("Conflict", "git init", command("git merge blue", "CONFLICT", 1), "git add a"))
    assert draft.solution.splitlines()[3:] == ["git init", "{", "git merge blue", "} || true", "git add a"]


def test_paths_of_the_recorded_machine_become_the_tasks() -> None:
    facts = Facts(user="anna", home="/home/anna", host="box")
    draft = synthesize(
        session(
            "Paths",
            command("cp /home/anna/project/a ~/project/b", cwd="/home/anna/project"),
            command("cp b /home/anna/else", cwd="/home/anna/project"),
            facts=facts,
        )
    )
    assert draft.workdir == "/app"
    assert draft.solution.splitlines()[3:] == ["cp /app/a /app/b", "cp b /root/else"]


def test_lines_typed_into_a_program_become_its_input() -> None:
    typed = command("create table t(a);").model_copy(update={"shell": False})
    draft = synthesize(session("Database", "sqlite3 a.db", typed))
    assert "sqlite3 a.db <<'INPUT'\ncreate table t(a);\nINPUT" in draft.solution


def test_lines_that_only_the_output_shows_become_input_too() -> None:
    shown = command("python3 -q", ">>> open('a', 'w').write('x')\n1\n>>> exit()\n")
    draft = synthesize(session("Interpreter", shown))
    assert "python3 -q <<'INPUT'\nopen('a', 'w').write('x')\nINPUT" in draft.solution
    assert draft.steps[0].output == "1"


def test_an_interpreter_without_lines_is_not_waited_for() -> None:
    draft = synthesize(session("Interpreter", command("python3", ""), "touch a"))
    assert draft.steps[0].reason == "waits for lines that the recording does not show"


@pytest.mark.parametrize(
    ("transcript", "reason"),
    [
        (EDITING, "worked in by hand"),
        (session("Fetch", "wget https://example.com/a"), "needs a network"),
        (session("Look", command("ls", "a\n"), command("pwd", "/x\n")), "changes anything or computes"),
        (session("Empty"), "no command"),
        (session("Long", *["touch a"] * 300), "at most 200"),
    ],
)
def test_what_cannot_be_done_again_is_refused_with_its_reason(transcript: object, reason: str) -> None:
    with pytest.raises(RecordingRefused, match=reason) as refused:
        synthesize(transcript)  # type: ignore[arg-type]  # the table's type is wider
    assert refused.value.gate == "synthesize"


@pytest.mark.parametrize("transcript", [SORTING, COUNTING, COMMITTING], ids=lambda one: one.title)
def test_every_script_is_one_that_bash_can_read(transcript: object) -> None:
    draft = synthesize(transcript)  # type: ignore[arg-type]  # as above
    for script in filter(None, (draft.solution, draft.preparation)):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)  # noqa: S607 - any bash


def test_changes_of_the_shell_behind_the_last_step_are_left_out() -> None:
    draft = synthesize(session("Tail", "touch a", "cd /tmp", "export X=1"))
    assert draft.solution.splitlines()[3:] == ["touch a"]


@pytest.mark.parametrize(
    ("source", "told"),
    [("/home/anna/secret-project/a.cast", "a.cast"), ("https://example.org/a/1", "https://example.org/a/1")],
)
def test_a_task_names_its_recording_and_not_where_it_lay(source: str, told: str) -> None:
    assert synthesize(SORTING.model_copy(update={"source": source})).source == told


def test_a_line_that_is_the_word_itself_does_not_end_what_was_typed() -> None:
    typed = [
        command("sqlite3 a.db"),
        *(
            Command(text=text, output="", tier=Tier.MARKS, confidence=1.0, shell=False)
            for text in ("INPUT", "select 1;")
        ),
    ]
    draft = synthesize(session("Typed", *typed, "touch x"))
    assert draft.steps[0].text == "sqlite3 a.db <<'INPUT_2'\nINPUT\nselect 1;\nINPUT_2"
    assert draft.steps[0].line.is_sound
