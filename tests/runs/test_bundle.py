"""Packed runs: what a real one is found to be, and what is seen of one that was changed."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from running import termarena
from support.tasks import Made, make_task
from termarena.core.errors import BadBundle, RunBusy, RunNotWritable
from termarena.core.run_folder import RunFolder
from termarena.runs.bundle import pack_run
from termarena.runs.journal import Journal, JournalReader, Tail
from termarena.runs.locking import hold
from termarena.runs.unpacking import BundleLimits, unpack
from termarena.runs.verifying import Verification, verify_run
from termarena.tasks import load_task

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from termarena.tasks import Task

SCRIPT = "case $(pwd) in *) echo 1 >/app/one.txt ;; esac\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `tasks`, and with `run`, in which a script solved `easy` and not `odd`, twice each."""
    folder = tmp_path_factory.mktemp("bundle")
    make_task(folder / "tasks" / "easy")
    make_task(folder / "tasks" / "odd", Made(tests="#!/bin/sh\necho 0 >/logs/verifier/reward.txt\n"))
    (folder / "script.sh").write_text(SCRIPT)
    done = termarena(
        *("run", "--path", "tasks", "--agent", "script:script.sh", "--driver", "namespace", "-k", "2", "--out", "run"),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(place: Path, tmp_path: Path) -> RunFolder:
    """The run, as a copy to be changed."""
    shutil.copytree(place / "run", tmp_path / "run")
    return RunFolder(tmp_path / "run")


def verified(run: RunFolder, tmp_path: Path, tasks: dict[str, Task] | None = None) -> Verification:
    """Pack it, unpack it elsewhere, and look."""
    packed = pack_run(run, tmp_path / "packed.tar.gz")
    into = tmp_path / "unpacked"
    into.mkdir()
    return verify_run(RunFolder(into), unpack(packed.path, into), tasks)


def broken(found: Verification) -> set[str]:
    return {finding.rule for finding in found.findings if finding.severity == "broken"}


def own_tasks(place: Path) -> dict[str, Task]:
    return {name: load_task(place / "tasks" / name) for name in ("easy", "odd")}


# A run that nobody touched.


def test_a_run_as_it_is_contradicts_itself_nowhere(place: Path, run: RunFolder, tmp_path: Path) -> None:
    found = verified(run, tmp_path, own_tasks(place))
    assert {(finding.severity, finding.rule) for finding in found.findings} == {("unranked", "host-root")}
    assert found.is_sound
    assert not found.is_rankable
    assert found.view is not None
    assert found.view.counts[:3] == (4, 2, 2)


def test_the_same_run_gives_the_same_file(run: RunFolder, tmp_path: Path) -> None:
    first = pack_run(run, tmp_path / "first.tar.gz").path.read_bytes()
    again = RunFolder(shutil.copytree(run.path, tmp_path / "elsewhere" / "run"))
    assert pack_run(again, tmp_path / "second.tar.gz").path.read_bytes() == first


def test_without_states_it_is_smaller_and_still_sound(run: RunFolder, tmp_path: Path) -> None:
    packed = pack_run(run, tmp_path / "small.tar.gz", with_states=False)
    assert not any(name.endswith("state.snapshot") for name in packed.manifest.files)
    (tmp_path / "small").mkdir()
    assert verify_run(RunFolder(tmp_path / "small"), unpack(packed.path, tmp_path / "small")).is_sound


def test_the_command_line_packs_and_verifies(place: Path, tmp_path: Path) -> None:
    packed = termarena("pack", "run", "--out", str(tmp_path / "b.tar.gz"), "--json", cwd=place)
    done = termarena("verify", str(tmp_path / "b.tar.gz"), "--path", "tasks", "--json", cwd=place)
    told = json.loads(done.stdout)
    assert (done.returncode, told["is_sound"], told["is_rankable"], told["accuracy"]) == (0, True, False, 0.5)
    assert told["chain"] == json.loads(packed.stdout)["chain"]
    shown = termarena("verify", str(tmp_path / "b.tar.gz"), cwd=place)
    assert "sound, and not to be ranked" in shown.stdout
    assert "and 3 more" in shown.stdout


def test_a_run_that_is_being_carried_out_is_not_packed(run: RunFolder, tmp_path: Path) -> None:
    with hold(run), pytest.raises(RunBusy):
        pack_run(run, tmp_path / "b.tar.gz")
    with pytest.raises(RunNotWritable):
        pack_run(run, tmp_path / "no" / "where.tar.gz")
    assert not list(tmp_path.glob("**/*.tmp"))


# Runs that were changed before they were packed.


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def rewrite(run: RunFolder, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """A journal with other events, whole and numbered as if it had been written so."""
    events = [change(event.fields) for event in JournalReader(run.journal)]
    run.journal.unlink()
    with Journal(run.journal, Tail()) as journal:
        for fields in filter(None, events):
            own = {name: value for name, value in fields.items() if name not in ("seq", "at", "event", "crc")}
            journal.append(fields["event"], own, at=fields["at"])


def claim_solved(document: dict[str, Any]) -> None:
    document |= {"outcome": "solved", "reward": 1.0, "failure_mode": "NONE"}


def test_a_result_that_the_journal_does_not_tell_is_seen(run: RunFolder, tmp_path: Path) -> None:
    edit(run.attempt("odd", 1).result, claim_solved)
    assert {"result-differs", "outcome"} <= broken(verified(run, tmp_path))


def test_a_journal_that_the_results_do_not_give_is_seen(run: RunFolder, tmp_path: Path) -> None:
    def change(fields: dict[str, Any]) -> dict[str, Any]:
        if fields["event"] == "trial_finished" and fields["task_id"] == "odd":
            claim_solved(fields)
        return fields

    rewrite(run, change)
    assert broken(verified(run, tmp_path)) == {"result-differs"}


def test_a_verdict_that_the_tests_did_not_leave_is_seen(run: RunFolder, tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        claim_solved(document)
        document["verdict"] |= {"reward": 1.0, "raw_reward": 1.0}

    edit(run.attempt("odd", 1).result, change)
    assert "reward" in broken(verified(run, tmp_path))


@pytest.mark.parametrize(("is_told", "wanted"), [(False, "broken"), (True, "unranked")])
def test_a_grading_by_tests_that_nobody_knows_is_seen(
    run: RunFolder, tmp_path: Path, *, is_told: bool, wanted: str
) -> None:
    def change(document: dict[str, Any]) -> None:
        document |= {"task_digest": "task1:made-up", "regraded_at": "2026-11-15T10:00:00.000Z"}

    def regraded(fields: dict[str, Any]) -> dict[str, Any]:
        is_this = (fields["event"], fields.get("task_id"), fields.get("attempt")) == ("trial_finished", "easy", 1)
        return fields | {"event": "trial_regraded"} if is_this and is_told else fields

    edit(run.attempt("easy", 1).result, change)
    rewrite(run, regraded)
    found = verified(run, tmp_path)
    assert ("task-digest", wanted) in {(finding.rule, finding.severity) for finding in found.findings}


def test_a_trial_that_was_left_out_is_seen(run: RunFolder, tmp_path: Path) -> None:
    shutil.rmtree(run.attempt("odd", 2).path)

    def change(fields: dict[str, Any]) -> dict[str, Any] | None:
        return None if (fields.get("task_id"), fields.get("attempt")) == ("odd", 2) else fields

    rewrite(run, change)
    found = verified(run, tmp_path)
    assert ("unranked", "missing-attempts") in {finding[:2] for finding in found.findings}


def test_a_folder_that_was_left_out_is_seen(run: RunFolder, tmp_path: Path) -> None:
    shutil.rmtree(run.attempt("odd", 2).path)
    assert broken(verified(run, tmp_path)) == {"no-result"}


def test_a_second_chance_after_a_score_is_seen(run: RunFolder, tmp_path: Path) -> None:
    events = list(JournalReader(run.journal))
    started = next(event for event in events if event.name == "trial_started" and event.fields["task_id"] == "odd")
    with Journal(run.journal, Tail(len(events), run.journal.stat().st_size)) as journal:
        journal.append("trial_started", {"task_id": "odd", "attempt": started.fields["attempt"], "retry": 1})
    assert "second-chance" in broken(verified(run, tmp_path))


def test_a_second_chance_under_a_number_further_on_is_seen(run: RunFolder, tmp_path: Path) -> None:
    events = list(JournalReader(run.journal))
    with Journal(run.journal, Tail(len(events), run.journal.stat().st_size)) as journal:
        journal.append("trial_started", {"task_id": "odd", "attempt": 1, "retry": 2})
    assert "second-chance" in broken(verified(run, tmp_path))


def test_a_pass_without_a_verdict_is_seen(run: RunFolder, tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        claim_solved(document)
        document["verdict"] = None

    edit(run.attempt("odd", 1).result, change)
    assert "outcome" in broken(verified(run, tmp_path))


def test_another_image_in_the_tasks_place_is_not_ranked(run: RunFolder, tmp_path: Path) -> None:
    edit(run.attempt("easy", 1).result, lambda document: document["sandbox"].update(substitutes=["debian:12"]))
    assert ("unranked", "substitutes") in {finding[:2] for finding in verified(run, tmp_path).findings}


def test_a_task_that_the_verifier_does_not_have_is_seen(place: Path, run: RunFolder, tmp_path: Path) -> None:
    found = verified(run, tmp_path, {"easy": own_tasks(place)["easy"]})
    told = [finding.message for finding in found.findings if finding[:2] == ("unranked", "task-differs")]
    assert told == ["1 tasks of it are none of the verifier's, odd for one"]


@pytest.mark.parametrize("fields", [{}, {"task_id": "odd", "attempt": []}, {"task_id": {}, "attempt": 1, "retry": ""}])
def test_events_of_another_shape_are_told_and_stop_nothing(
    run: RunFolder, tmp_path: Path, fields: dict[str, Any]
) -> None:
    size = run.journal.stat().st_size
    with Journal(run.journal, Tail(len(list(JournalReader(run.journal))), size)) as journal:
        journal.append("trial_interrupted", fields)
    assert "unreadable" in broken(verified(run, tmp_path))


def test_records_that_are_nested_without_end_are_told(run: RunFolder, tmp_path: Path) -> None:
    run.attempt("easy", 1).tool_calls.write_text("[" * 200_000)
    assert "unreadable" in broken(verified(run, tmp_path))


def test_other_limits_are_seen(place: Path, run: RunFolder, tmp_path: Path) -> None:
    edit(run.attempt("easy", 1).result, lambda document: document["limits"].update(agent_timeout_s=3000.0))
    assert broken(verified(run, tmp_path, own_tasks(place))) == {"limits"}


def test_another_task_is_seen(place: Path, run: RunFolder, tmp_path: Path) -> None:
    other = make_task(tmp_path / "easy", Made(tests="#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n"))
    found = verified(run, tmp_path, {**own_tasks(place), "easy": other})
    assert ("unranked", "task-differs") in {finding[:2] for finding in found.findings}


def test_tests_in_the_agents_tree_are_seen(run: RunFolder, tmp_path: Path) -> None:

    def change(document: dict[str, Any]) -> None:
        document["changes"] = [{**document["changes"][0], "path": "/tests/test.sh"}, *document["changes"]]
        document["total"] += 1

    edit(run.attempt("easy", 1).changes, change)
    assert broken(verified(run, tmp_path)) == {"tests-in-tree"}


def test_a_report_of_another_score_is_seen(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "run", tmp_path / "run")
    edit(tmp_path / "run" / "report.json", lambda document: document.update(accuracy=1.0))
    termarena("pack", "run", "--out", "b.tar.gz", cwd=tmp_path)
    done = termarena("verify", "b.tar.gz", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert "report" in {finding["rule"] for finding in json.loads(done.stdout)["findings"]}


def test_a_line_of_the_journal_that_was_edited_is_seen(run: RunFolder, tmp_path: Path) -> None:
    packed = pack_run(run, tmp_path / "b.tar.gz")
    edited = run.journal.read_bytes().replace(b'"unsolved"', b'"solved"  ')
    changed = repacked(packed.path, {"journal.jsonl": edited}, tmp_path)
    (tmp_path / "into").mkdir()
    found = verify_run(RunFolder(tmp_path / "into"), unpack(changed, tmp_path / "into"))
    assert broken(found) == {"changed-file", "unreadable"}
    assert found.view is None


# Files that were changed after they were packed, and archives that are made to do harm.


def members_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {member.name: file.read() for member in archive if (file := archive.extractfile(member))}


def repacked(path: Path, changes: dict[str, bytes], tmp_path: Path) -> Path:
    out = tmp_path / "changed.tar.gz"
    with tarfile.open(out, "w:gz") as archive:
        for name, content in {**members_of(path), **changes}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out


def test_a_file_that_was_changed_in_the_bundle_is_named(run: RunFolder, tmp_path: Path) -> None:
    packed = pack_run(run, tmp_path / "b.tar.gz").path
    name = next(name for name in members_of(packed) if name.endswith("metrics.json"))
    content = members_of(packed)[name]
    changed = repacked(packed, {name: content[:-1] + b" "}, tmp_path)
    (tmp_path / "into").mkdir()
    found = verify_run(RunFolder(tmp_path / "into"), unpack(changed, tmp_path / "into"))
    assert {"changed-file", "chain"} <= broken(found)
    assert any(name in finding.message for finding in found.findings)


def hostile(tmp_path: Path, name: str, *, type_: bytes = tarfile.REGTYPE, table: dict[str, Any] | None = None) -> Path:
    """A bundle with one member that should not be there."""
    listed = {name: {"size_bytes": 1, "sha256": "0"}} if table is None else table
    manifest = {
        "schema_version": 1,
        "kind": "bundle",
        "run_id": "r",
        "termarena": "1",
        "events": 0,
        "chain": "",
        "has_states": True,
        "files": listed,
    }
    out = tmp_path / "hostile.tar.gz"
    with tarfile.open(out, "w:gz") as archive:
        content = json.dumps(manifest).encode()
        first = tarfile.TarInfo("bundle.json")
        first.size = len(content)
        archive.addfile(first, io.BytesIO(content))
        member = tarfile.TarInfo(name)
        member.type = type_
        member.linkname = "/etc/passwd"
        member.size = 1 if type_ == tarfile.REGTYPE else 0
        archive.addfile(member, io.BytesIO(b"x") if type_ == tarfile.REGTYPE else None)
    return out


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("../outside", tarfile.REGTYPE),
        ("trials/../../outside", tarfile.REGTYPE),
        ("/tmp/outside", tarfile.REGTYPE),  # noqa: S108 - a path in an archive
        ("trials//x", tarfile.REGTYPE),
        ("a\nb", tarfile.REGTYPE),
        ("trials/x", tarfile.SYMTYPE),
        ("trials/x", tarfile.LNKTYPE),
        ("trials/x", tarfile.CHRTYPE),
        ("trials/x", tarfile.DIRTYPE),
    ],
)
def test_an_archive_that_is_made_to_do_harm_is_refused(tmp_path: Path, name: str, type_: bytes) -> None:
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(BadBundle):
        unpack(hostile(tmp_path, name, type_=type_), into)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hostile.tar.gz", "into"]
    assert list(into.iterdir()) == []


def test_a_file_that_no_table_lists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    with pytest.raises(BadBundle, match="not a file of its table"):
        unpack(hostile(tmp_path, "trials/x", table={}), tmp_path / "into")


@pytest.mark.parametrize(
    ("table", "problem"), [(["a", "a/b"], "a file in it and a folder"), (["x" * 300], "names the path")]
)
def test_names_that_cannot_be_written_are_refused(tmp_path: Path, table: list[str], problem: str) -> None:
    (tmp_path / "into").mkdir()
    listed = {name: {"size_bytes": 1, "sha256": "0"} for name in table}
    with pytest.raises(BadBundle, match=problem):
        unpack(hostile(tmp_path, table[0], table=listed), tmp_path / "into")


@pytest.mark.parametrize("is_first", [True, False])
def test_a_header_that_fills_the_memory_is_not_read(tmp_path: Path, *, is_first: bool) -> None:
    bomb = tarfile.TarInfo("headers")
    bomb.type = tarfile.XHDTYPE
    bomb.size = 32 << 20
    start = gzip.decompress(hostile(tmp_path, "trials/x").read_bytes())
    end = 0 if is_first else 2 * 512
    assert start[512:513] == b"{"
    (tmp_path / "bomb.tar.gz").write_bytes(
        gzip.compress(start[:end] + bomb.tobuf() + bytes(bomb.size) + start[end:], 1)
    )
    (tmp_path / "into").mkdir()
    with pytest.raises(BadBundle, match="more stands between its files"):
        unpack(tmp_path / "bomb.tar.gz", tmp_path / "into")


def test_more_than_the_limits_is_refused_before_it_is_written(run: RunFolder, tmp_path: Path) -> None:
    packed = pack_run(run, tmp_path / "b.tar.gz").path
    for number, limits in enumerate(
        (BundleLimits(files=3), BundleLimits(file_bytes=10), BundleLimits(total_bytes=100))
    ):
        into = tmp_path / str(number)
        into.mkdir()
        with pytest.raises(BadBundle, match="more than is taken"):
            unpack(packed, into, limits)
        assert list(into.iterdir()) == []


@pytest.fixture(scope="module")
def archive(place: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The run as a bundle, not compressed."""
    packed = pack_run(RunFolder(place / "run"), tmp_path_factory.mktemp("archive") / "b.tar.gz")
    return gzip.decompress(packed.path.read_bytes())


def files_below(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_refused_or_told(
    place: Path, archive: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    at = data.draw(st.integers(0, len(archive) - 1))
    flipped = bytes([archive[at] ^ data.draw(st.integers(1, 255))])
    damaged = data.draw(st.sampled_from([archive[:at], archive[:at] + flipped + archive[at + 1 :]]))
    (folder / "d.tar.gz").write_bytes(gzip.compress(damaged, 1))
    into = folder / "into"
    into.mkdir()
    try:
        found = verify_run(RunFolder(into), unpack(folder / "d.tar.gz", into))
    except BadBundle:
        return
    # A byte between the members, or of a header's owner and time, is no byte of the run.
    assert not found.is_sound or files_below(into) == files_below(place / "run")
