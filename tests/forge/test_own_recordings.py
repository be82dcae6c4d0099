"""Reading gives back what was typed in our own recordings: real shells, every format, every kind of evidence."""

from __future__ import annotations

from collections import Counter

import pytest

from support.own_recordings import FOLDER, SESSIONS, Session
from termarena.forge.reading import read
from termarena.forge.transcript import Tier

TIERS = {"marks": Tier.MARKS, "plain-marks": Tier.MARKS, "paste": Tier.PASTE, "prompt": Tier.PROMPT}
# Its Python switches bracketed paste off: within a marked command nothing tells what was typed into it.
SILENT_INTERPRETER = "python-session"


def _recovered(session: Session) -> list[str]:
    commands = [command.text for command in read(session.path).commands]
    return commands[:-1] if commands[-1:] == ["exit"] else commands


def test_there_are_enough_of_them_and_they_are_small() -> None:
    assert len(SESSIONS) >= 30
    assert {session.shell for session in SESSIONS} == {"bash", "zsh", "fish"}
    assert {session.form for session in SESSIONS} == {"1", "2", "3", "typescript", "txt"}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2_000_000


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_every_command_is_recovered_exactly(session: Session) -> None:
    wanted = list(session.typed)
    if session.name == SILENT_INTERPRETER:
        wanted = [line for line in wanted if line not in ("2 ** 10", "exit()")]
    assert _recovered(session) == wanted


def test_nine_of_ten_commands_are_recovered_exactly() -> None:
    typed = sum(len(session.typed) for session in SESSIONS)
    found = sum((Counter(session.typed) & Counter(_recovered(session))).total() for session in SESSIONS)
    assert typed > 200
    assert found / typed >= 0.98


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_the_evidence_is_the_best_there_is(session: Session) -> None:
    transcript = read(session.path)
    tier = Tier.TEXT if session.form == "txt" else TIERS[session.evidence]
    assert {command.tier for command in transcript.commands} == {tier}
    assert transcript.version == session.form
    assert transcript.title == session.title
    assert transcript.trouble == ()


def test_marks_tell_status_and_directory() -> None:
    transcript = read(FOLDER / "gcc-broken-fixed.cast")
    assert [command.exit_status for command in transcript.commands][:4] == [0, 1, 0, 0]
    assert {command.cwd for command in transcript.commands} == {"/app"}
    notes = read(FOLDER / "git-first-commit.cast").commands
    assert (notes[0].cwd, notes[1].cwd) == ("/app", "/app/notes")


def test_outputs_are_those_of_their_commands() -> None:
    found = {command.text: command.output for command in read(FOLDER / "grep-errors.cast").commands}
    assert found["grep -n WARN app.log"] == "3:WARN slow"
    assert found["cat errors.txt which.txt"] == "2\ndisk\nnet"
    cleared = {command.text: command.output for command in read(FOLDER / "clear-between.cast").commands}
    assert cleared["cat five.txt"] == "1\n2\n3\n4\n5"
    assert "5\n4\n3\n2\n1" in read(FOLDER / "clear-between.cast").text


def test_a_full_screen_program_is_seen_and_leaves_no_output() -> None:
    transcript = read(FOLDER / "less-and-back.cast")
    assert transcript.alternate_screen
    (less,) = [command for command in transcript.commands if command.text == "less many.txt"]
    assert (less.interactive, less.output) == (True, "")
    assert [command.interactive for command in transcript.commands if command.text != "less many.txt"] == [False] * 4


def test_lines_of_an_interpreter_are_not_the_shells() -> None:
    commands = read(FOLDER / "sqlite-session.cast").commands
    assert [command.shell for command in commands] == [True, False, False, False, False, True, True, True]


def test_facts_of_the_machine() -> None:
    facts = read(FOLDER / "git-first-commit.cast").facts
    assert (facts.shell, facts.user, facts.host) == ("bash", "root", "sandbox")
    assert facts.recorded_at == "2023-11-14T22:13:20Z"
