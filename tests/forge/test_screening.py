"""Every gate refuses what it should, with evidence; the rest is kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.own_recordings import FOLDER, SESSIONS
from support.transcripts import transcript
from termarena.forge.reading import read
from termarena.forge.screening import Gate, ScreenPlan, ScreenRules, screen, screen_file, screen_files
from termarena.forge.screening.likeness import Known, Likeness, sketch_of
from termarena.forge.sharding import Where
from termarena.forge.transcript import Facts

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.forge.screening import Screening

GOOD = ("mkdir work", "seq 5 > work/list", ("sort -r work/list > work/down", ""), ("cat work/down", "5\n4\n3\n2\n1"))


def _drops(screening: Screening) -> set[tuple[Gate, str]]:
    return {(finding.gate, finding.rule) for finding in screening.findings if finding.effect == "drop"}


def test_a_plain_session_is_kept() -> None:
    screening = screen(transcript(*GOOD))
    assert screening.kept
    assert screening.quality is not None
    assert screening.quality.total >= 7
    assert screening.findings == ()


@pytest.mark.parametrize(
    ("line", "gate", "rule"),
    [
        ("rm -rf /", Gate.SAFETY, "removes"),
        ("cd / && rm -rf *", Gate.SAFETY, "removes"),
        ("base64 -d notes | sh", Gate.SAFETY, "runs-hidden"),
        ("curl -s https://example.org/i.sh | sh", Gate.SAFETY, "pipes-to-shell"),
        ("ssh ada@build.example.org make", Gate.REPRODUCIBILITY, "remote-host"),
        ("scp a.txt ada@build.example.org:", Gate.REPRODUCIBILITY, "remote-host"),
        ("git clone git@git.example.org:team/tool.git", Gate.REPRODUCIBILITY, "private-repository"),
        ("git push ssh://git@git.example.org/team/tool.git main", Gate.REPRODUCIBILITY, "private-repository"),
        ("kubectl apply -f pod.yaml", Gate.REPRODUCIBILITY, "cloud"),
        ("firefox index.html", Gate.REPRODUCIBILITY, "gui"),
        ("matlab -batch run", Gate.REPRODUCIBILITY, "proprietary"),
        ("brew install jq", Gate.REPRODUCIBILITY, "macos"),
        ("sudo reboot", Gate.REPRODUCIBILITY, "power"),
        ("wget http://build.corp/tool.tar.gz", Gate.REPRODUCIBILITY, "private-address"),
        ("curl -O http://10.1.2.3/x", Gate.REPRODUCIBILITY, "private-address"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_its_evidence(line: str, gate: Gate, rule: str) -> None:
    screening = screen(transcript(*GOOD, line))
    assert (gate, rule) in _drops(screening)
    (finding,) = [finding for finding in screening.findings if finding.rule == rule]
    assert finding.evidence[0].where == "command 5"
    assert finding.evidence[0].excerpt in line


def test_where_a_session_went_and_what_it_typed_elsewhere_count() -> None:
    base = transcript(*GOOD, "cd /", "echo at the top", "rm -rf *", "shutil.rmtree('/')")
    lost = tuple(command.model_copy(update={"cwd": None}) for command in base.commands)
    typed = (*lost[:-1], lost[-1].model_copy(update={"shell": False}))
    found = [one for one in screen(base.model_copy(update={"commands": typed})).findings if one.effect == "drop"]
    told = [(one.rule, one.evidence[0].where) for one in found]
    assert told == [("removes", "command 7"), ("scripts-harm", "command 8")]
    assert found[0].reason == "it removes * (/*) with everything in it"


@pytest.mark.parametrize(
    "line", ["rsync -a work/ copy/", "ssh localhost true", "curl -s http://127.0.0.1:8000/", "git push ../other.git"]
)
def test_what_stays_on_the_machine_is_kept(line: str) -> None:
    assert screen(transcript(*GOOD, line)).kept


def test_the_network_and_containers_are_told_and_do_not_refuse() -> None:
    screening = screen(transcript(*GOOD, "wget https://example.org/a.tar.gz", "docker build ."))
    assert screening.kept
    assert {finding.rule for finding in screening.findings} == {"network", "containers"}


def test_short_sessions_and_sessions_without_effect_are_refused() -> None:
    assert (Gate.LENGTH, "too-short") in _drops(screen(transcript("touch a", "touch b", "exit")))
    assert (Gate.LENGTH, "changes-nothing") in _drops(screen(transcript("ls", "cat x", "git status", "echo hi")))
    many = [f"touch file-{number}" for number in range(81)]
    assert (Gate.LENGTH, "too-long") in _drops(screen(transcript(*many)))
    assert screen(transcript(*many), ScreenRules(most_commands=90)).kept


def test_other_machines_and_other_languages_are_refused() -> None:
    windows = transcript(*GOOD, facts=Facts(shell="powershell", system="windows"))  # noqa: S604 - a name
    assert (Gate.REPRODUCIBILITY, "windows") in _drops(screen(windows))
    base = transcript(*GOOD)
    foreign = base.model_copy(
        update={"commands": tuple(command.model_copy(update={"shell": False}) for command in base.commands)}
    )
    assert (Gate.SURFACE, "not-a-shell") in _drops(screen(foreign))
    prose = transcript("Welcome to this demo", "First we make a folder", "And now we are done", "mkdir x")
    assert (Gate.QUALITY, "prose") in _drops(screen(prose))
    broken = transcript("if (( then", "for do done ((", "touch a", "touch b")
    assert (Gate.SAFETY, "unparsed") in _drops(screen(broken))


def test_full_screen_programs_are_refused_and_pagers_are_told() -> None:
    less = read(FOLDER / "less-and-back.cast")
    assert screen(less).kept
    assert "pager" in {finding.rule for finding in screen(less).findings}
    editor = less.model_copy(
        update={
            "commands": tuple(
                command.model_copy(update={"text": command.text.replace("less", "vim")}) for command in less.commands
            )
        }
    )
    assert (Gate.SURFACE, "full-screen") in _drops(screen(editor))
    assert screen(editor, ScreenRules(allow_full_screen=True)).kept
    unknown = transcript(*GOOD, alternate_screen=True)
    assert (Gate.SURFACE, "full-screen") in _drops(screen(unknown))


@pytest.mark.parametrize(
    ("line", "rule", "reason"),
    [
        ("watch -n 1 kubectl get pods", "pager", "watch took the screen to show something"),
        ("tree | less", "pager", "less took the screen to show something"),
        ("cd src && sudo vim main.c", "full-screen", "vim took the whole screen"),
        ("ssh host top", "full-screen", "ssh took the whole screen"),
    ],
)
def test_who_took_the_screen(line: str, rule: str, reason: str) -> None:
    base = transcript(*GOOD, line, alternate_screen=True)
    taken = base.commands[-1].model_copy(update={"interactive": True})
    found = screen(base.model_copy(update={"commands": (*base.commands[:-1], taken)})).findings
    assert [(one.rule, one.reason) for one in found if one.gate is Gate.SURFACE] == [(rule, reason)]


def test_sessions_inside_of_tmux_are_refused_by_name() -> None:
    inside = transcript(alternate_screen=True)
    assert (Gate.SURFACE, "multiplexer") in _drops(screen(inside))
    attached = transcript(*GOOD, "tmux attach -t work", alternate_screen=True)
    taken = attached.commands[-1].model_copy(update={"interactive": True})
    found = screen(attached.model_copy(update={"commands": (*attached.commands[:-1], taken)}))
    assert [finding.reason for finding in found.findings if finding.rule == "multiplexer"] == [
        "tmux held the screen: lines typed inside of it are not read"
    ]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.cast").write_bytes(b"\0\1\2")
    assert _drops(screen_file(tmp_path / "a.cast")) == {(Gate.READABLE, "unreadable")}
    assert _drops(screen_file(tmp_path / "none.cast")) == {(Gate.READABLE, "unreadable")}


def test_of_recordings_that_are_alike_the_best_is_kept(tmp_path: Path) -> None:
    first = (FOLDER / "tar-backup.cast").read_text()
    (tmp_path / "a.cast").write_text(first)
    (tmp_path / "b.cast").write_text(first)
    header, _, body = first.partition("\n")
    (tmp_path / "c.cast").write_text(json.dumps({**json.loads(header), "title": ""}) + "\n" + body)
    (tmp_path / "d.cast").write_text((FOLDER / "permissions.cast").read_text())
    found = {
        screening.source: screening
        for screening in screen_files(sorted(tmp_path.iterdir()), ScreenPlan(where=Where(1)))
    }
    kept = {name.rpartition("/")[2] for name, screening in found.items() if screening.kept}
    assert kept == {"a.cast", "d.cast"}
    assert _drops(found[str(tmp_path / "c.cast")]) == {(Gate.DUPLICATES, "alike")}


def test_likeness_survives_small_changes_and_tells_others_apart() -> None:
    likeness = Likeness(0.85)
    commands = [f"make part-{letter} && cp part-{letter} out/" for letter in "abcdefghijklmnopqrstuvwxyz"]
    one = sketch_of(transcript(*commands))
    two = sketch_of(transcript(*commands[:-1], "touch end"))
    other = sketch_of(transcript(*(command.replace("make", "gcc") for command in commands)))
    assert likeness.seen_before("one", "1", one) is None
    assert likeness.seen_before("other", "3", other) is None
    like = likeness.seen_before("two", "2", two)
    assert like is not None
    assert like[0] == "one"
    assert 0.85 <= like[1] < 1


def test_recordings_of_known_tasks_are_refused() -> None:
    session = next(session for session in SESSIONS if session.name == "tar-backup")
    plan = ScreenPlan(known=Known(["#!/bin/bash\n" + "\n".join(session.typed)]), where=Where(1))
    found = list(screen_files([session.path, FOLDER / "permissions.cast"], plan))
    assert [screening.kept for screening in found] == [True, False] or [s.kept for s in found] == [False, True]
    (refused,) = [screening for screening in found if not screening.kept]
    assert _drops(refused) == {(Gate.CONTAMINATION, "known-task")}
    assert refused.source == str(session.path)


@pytest.mark.slow
def test_processes_give_the_same_as_one() -> None:
    paths = [session.path for session in SESSIONS[:20]]
    alone = list(screen_files(paths, ScreenPlan(where=Where(1))))
    assert list(screen_files(paths, ScreenPlan(where=Where(2)))) == alone
    assert sum(screening.kept for screening in alone) >= 18


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_our_own_recordings_are_kept(session: object) -> None:
    screening = screen_file(session.path)  # type: ignore[attr-defined]  # a Session
    assert screening.kept, screening.reasons
