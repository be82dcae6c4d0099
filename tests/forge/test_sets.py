"""Sets of tasks: what is exported and what stays behind, what people say of it, what is counted, what is forgotten."""

from __future__ import annotations

import json
import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.sessions import command, session
from termarena.core.errors import NotFound, TaskFormatError, UsageError
from termarena.forge.counting import count_sets, programs_of
from termarena.forge.exporting import ExportPlan, export
from termarena.forge.forgetting import take_down
from termarena.forge.funnel import funnel_html, funnel_markdown
from termarena.forge.ledger import Ledger, Outcome
from termarena.forge.retrieving.shelf import Origin, Shelf, digest_of
from termarena.forge.reviewing import Flaw, Reviews
from termarena.forge.spans import spans_of
from termarena.forge.yields import yields_of
from termarena.stats import agreement_of
from termarena.tasks.dataset import load_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TASK = """\
schema_version = "1.4"
source = "{source}"
[task]
name = "forge/{name}"
[metadata]
category = "text_processing"
terminalworld_category = "data-analysis"
recorded_at = "2026-01-01"
license = "unknown: ask"
"""


def task(folder: Path, name: str, solution: str = "sort a > b\n") -> Path:
    files = {
        "task.toml": TASK.format(name=name, source=name),
        "instruction.md": f"Sort the {name}.\n",
        "environment/Dockerfile": "FROM debian\n",
        "solution/solve.sh": solution,
        "tests/test.sh": "exit 1\n",
    }
    for path, text in files.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)
    return folder / name


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "forge") as opened:
        yield opened


def admit(ledger: Ledger, name: str, *, source: str = "", licence: str | None = None, span: int = 10) -> Outcome:
    folder = task(ledger.folder / "tasks", name)
    trials = [{"kind": "AllPassing"}, {"kind": "Nop"}, {"kind": "Partial"}, {"kind": "Partial"}]
    digest = digest_of(name.encode())
    found = {"recording": {"digest": digest}, "licence": licence, "spans": {"environment/files/1": span}}
    evidence = ledger.keep({**found, "trials": trials})
    names = (digest, "key", source or f"/home/me/{name}.cast", f"The {name} | x")
    outcome = Outcome(*names, "admitted", "prove", "", name, str(folder), 1.0, 0.9, 1.0, evidence, "2026-01-01")
    assert ledger.write(outcome)
    return outcome


def test_a_set_has_tasks_manifest_card_and_lineage_and_loads(ledger: Ledger, tmp_path: Path) -> None:
    admit(ledger, "names", source="https://casts.example/a/1", licence="CC-BY-4.0", span=5000)
    admit(ledger, "words")
    done = export(ExportPlan(tmp_path / "set", "me/set"), ledger, {digest_of(b"names"): ("ann", "bob")})
    assert done.left_out == ()
    assert [one.task for one in done.tasks] == ["words", "names"]
    names = next(one for one in done.tasks if one.task == "names")
    assert names.trials == {"AllPassing": 1, "Nop": 1, "Partial": 2}
    loaded = load_dataset(tmp_path / "set")
    assert sorted(one.id for one in loaded) == ["forge/names", "forge/words"]
    assert not loaded.findings
    assert tomllib.loads((tmp_path / "set" / "dataset.toml").read_text())["dataset"]["name"] == "me/set"
    card = (tmp_path / "set" / "README.md").read_text()
    assert "[The names \\| x](https://casts.example/a/1) | CC-BY-4.0" in card
    assert "1 of them were" in card
    assert "| words.cast | unknown |" in card
    assert "/home/me" not in card + (tmp_path / "set" / "lineage.json").read_text()


def test_long_spans_stay_behind_unless_a_licence_is_known(ledger: Ledger, tmp_path: Path) -> None:
    admit(ledger, "long", span=1001)
    admit(ledger, "licensed", licence="MIT", span=9000)
    done = export(ExportPlan(tmp_path / "set"), ledger, {})
    assert [one.task for one in done.tasks] == ["licensed"]
    assert done.left_out[0].reason.startswith("environment/files/1 holds 1001 characters of the recording in a row")
    assert not (tmp_path / "set" / "long").exists()
    wide = export(ExportPlan(tmp_path / "set", longest_span=2000), ledger, {})
    assert len(wide.tasks) == 2
    verified = export(ExportPlan(tmp_path / "set", verified="only"), ledger, {digest_of(b"licensed"): ("a", "b")})
    assert [one.task for one in verified.tasks] == ["licensed"]
    assert sorted(path.name for path in (tmp_path / "set").iterdir() if path.is_dir()) == ["licensed"]


def test_a_folder_that_holds_something_else_is_not_written_to(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no task is admitted"):
        export(ExportPlan(tmp_path / "set"), ledger, {})
    admit(ledger, "names")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="no name of a set"):
        export(ExportPlan(tmp_path / "set", "my set"), ledger, {})
    with pytest.raises(UsageError, match="no exported set"):
        export(ExportPlan(tmp_path / "mine"), ledger, {})
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_takedown_reaches_shelf_tasks_sets_and_their_papers(ledger: Ledger, tmp_path: Path) -> None:
    address = "https://casts.example/a/1"
    outcome = admit(ledger, "names", source=address)
    admit(ledger, "words")
    shelf = Shelf(tmp_path / "recordings" / "casts.example")
    shelf.put("1", Origin(address=address, file="recording.txt", digest=outcome.recording), {"recording.txt": b"names"})
    other = Origin(address="https://casts.example/a/2", file="recording.txt", digest=digest_of(b"other"))
    shelf.put("2", other, {"recording.txt": b"other"})
    export(ExportPlan(tmp_path / "set"), ledger, {})
    done = take_down(address, ledger, tmp_path / "recordings")
    assert len(done.removed) == 4  # the task, its copy in the set, the evidence, the folder on the shelf
    assert list(shelf.names()) == ["2"]
    for paper in ("README.md", "dataset.toml", "lineage.json"):
        assert "names" not in (tmp_path / "set" / paper).read_text()
        assert "words" in (tmp_path / "set" / paper).read_text()
    assert not (tmp_path / "set" / "names").exists()
    assert ledger.is_blocked_source(address)
    only_retrieved = take_down("https://casts.example/a/2", ledger, tmp_path / "recordings")
    assert only_retrieved.recording == digest_of(b"other")
    assert list(shelf.names()) == []
    assert ledger.is_blocked(digest_of(b"other"))
    with pytest.raises(NotFound):
        take_down("https://casts.example/a/3", ledger, tmp_path / "recordings")


def test_a_task_with_a_repository_that_nobody_may_pass_on_stays_behind(ledger: Ledger, tmp_path: Path) -> None:
    for name, licence in (("bare", "none found"), ("free", "LICENSE")):
        folder = admit(ledger, name, licence="MIT").folder
        assert folder is not None
        with open(f"{folder}/task.toml", "a") as file:  # noqa: PTH123 - its place is a text
            row = f'url = "https://git.example/{name}", commit = "0", license_file = "{licence}"'
            file.write(f"repositories = [{{ {row} }}]\n")
    done = export(ExportPlan(tmp_path / "set"), ledger, {})
    assert [one.task for one in done.tasks] == ["free"]
    assert "https://git.example/bare, in which no licence file" in done.left_out[0].reason


def test_what_nobody_measured_stays_behind_and_stops_no_other_task(ledger: Ledger, tmp_path: Path) -> None:
    admit(ledger, "names")
    unmeasured, gone = admit(ledger, "words"), admit(ledger, "lines")
    ledger.write(unmeasured._replace(evidence=ledger.keep({"licence": None, "trials": []})))
    ledger.drop_evidence(gone.evidence)
    done = export(ExportPlan(tmp_path / "set"), ledger, {})
    assert [one.task for one in done.tasks] == ["names"]
    assert [one.reason.partition(",")[0] for one in done.left_out] == [
        f"the evidence {gone.evidence[:12]} is not there as it was written",
        "nobody measured what it holds of its recording",
    ]


def test_papers_of_a_set_that_name_a_folder_elsewhere_remove_nothing(ledger: Ledger, tmp_path: Path) -> None:
    admit(ledger, "names")
    export(ExportPlan(tmp_path / "set"), ledger, {})
    (tmp_path / "mine").mkdir()
    papers = tmp_path / "set" / "lineage.json"
    papers.write_text(papers.read_text().replace('"task": "names"', '"task": "../mine"'))
    with pytest.raises(UsageError, match=r"names '\.\./mine' as a folder"):
        export(ExportPlan(tmp_path / "set"), ledger, {})
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("prefix", ["sha256:", ""])
def test_a_takedown_by_its_digest_reaches_what_was_made_of_it(ledger: Ledger, tmp_path: Path, prefix: str) -> None:
    outcome = admit(ledger, "names", source="https://casts.example/a/1")
    shelf = Shelf(tmp_path / "recordings" / "casts.example")
    origin = Origin(address=outcome.source, file="recording.txt", digest=outcome.recording)
    shelf.put("1", origin, {"recording.txt": b"names"})
    take_down(prefix + outcome.recording.removeprefix("sha256:"), ledger, tmp_path / "recordings")
    assert ledger.latest() == []
    assert not (ledger.folder / "tasks" / "names").exists()
    assert list(shelf.names()) == []


def test_a_takedown_that_was_interrupted_goes_on_by_the_same_name(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = admit(ledger, "names", source="https://casts.example/a/1")
    export(ExportPlan(tmp_path / "set"), ledger, {})
    shelf = Shelf(tmp_path / "recordings" / "casts.example")
    origin = Origin(address=outcome.source, file="recording.txt", digest=outcome.recording)
    shelf.put("1", origin, {"recording.txt": b"names"})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("termarena.forge.exporting.write_record", full)
        with pytest.raises(OSError, match="No space"):
            take_down("names", ledger, tmp_path / "recordings")
    assert ledger.is_blocked(outcome.recording)
    take_down("names", ledger, tmp_path / "recordings")
    assert list(shelf.names()) == []
    assert "names" not in (tmp_path / "set" / "lineage.json").read_text()


def test_a_takedown_reaches_tasks_where_papers_or_other_tasks_of_a_set_are_broken(
    ledger: Ledger, tmp_path: Path
) -> None:
    for name in ("names", "words", "lines"):
        admit(ledger, name)
    export(ExportPlan(tmp_path / "set"), ledger, {})
    shutil.rmtree(tmp_path / "set" / "lines")
    take_down("names", ledger, tmp_path / "recordings")
    assert 'name = "forge/words"' in (tmp_path / "set" / "dataset.toml").read_text()
    (tmp_path / "set" / "lineage.json").write_text("{")
    with pytest.raises(TaskFormatError):
        take_down("words", ledger, tmp_path / "recordings")
    assert not (tmp_path / "set" / "words").exists()
    assert [one.task_id for one in ledger.latest()] == ["lines"]


def test_spans_in_tests_and_in_files_too_large_to_look_at_are_seen(tmp_path: Path) -> None:
    shown = session("Show", command("cat a", "one 1\ntwo 2\nthree 3\n"))
    (tmp_path / "test_state.py").write_text("    expected = 1\nx = (\n    'one 1\\n'\n    'two 2\\n')\n".lstrip())
    (tmp_path / "lines.py").write_text("x = ['two 2', 'three 3']\n")
    (tmp_path / "large").write_bytes(b"x" * ((1 << 20) + 1))
    (tmp_path / "1.bundle").write_bytes(b"x" * ((1 << 20) + 1))
    assert spans_of(shown, tmp_path) == {
        "test_state.py": len("one 1two 2"),
        "lines.py": len("two 2three 3"),
        "large": (1 << 20) + 1,
    }


def test_spans_are_runs_of_whole_lines_of_one_command_or_its_output(tmp_path: Path) -> None:
    shown = session("Show", command("cat a", "one\ntwo\nthree\n"), command("cat b", "four\n"), "sort a > b")
    (tmp_path / "given").write_text("x\none\n  two\nthree\nfour\n")
    (tmp_path / "solve.sh").write_text("sort a > b\ncat b\n")
    (tmp_path / "other").write_text("nothing of it\n\n\n")
    assert spans_of(shown, tmp_path) == {"given": len("onetwothree"), "solve.sh": len("sort a > b")}


def test_two_who_agree_verify_and_a_third_decides_between_two_who_do_not(ledger: Ledger) -> None:
    for name in ("names", "words", "lines"):
        admit(ledger, name)
    reviews = Reviews(ledger)
    assert [one.task for one in reviews.queue("ann")] == ["lines", "names", "words"]
    assert reviews.judge("words", "ann", accepts=True).standing == "waiting"
    assert [one.task for one in reviews.queue("bob")] == ["words", "lines", "names"]
    assert "words" not in [one.task for one in reviews.queue("ann")]
    assert reviews.judge("words", "bob", accepts=True).standing == "accepted"
    reviews.judge("names", "ann", accepts=True)
    assert reviews.judge("names", "bob", accepts=False, flaws=[Flaw.UNCLEAR], note="which?").standing == "disputed"
    with pytest.raises(UsageError, match="one of the two"):
        reviews.resolve("names", "bob", accepts=False)
    with pytest.raises(UsageError, match="needs no further review"):
        reviews.judge("names", "cleo", accepts=True)
    assert reviews.resolve("names", "cleo", accepts=False).standing == "rejected"
    with pytest.raises(UsageError, match="nothing to decide"):
        reviews.resolve("words", "cleo", accepts=False)
    with pytest.raises(UsageError, match="needs a reason"):
        reviews.judge("lines", "ann", accepts=False)
    assert sorted(reviews.pairs()) == [(True, False), (True, True)]
    verified = [one for one in reviews.all() if one.standing == "accepted"]
    assert [(one.task, one.accepted_by) for one in verified] == [("words", ("ann", "bob"))]


def test_a_task_that_is_made_differently_is_reviewed_anew_and_a_takedown_takes_its_reviews(ledger: Ledger) -> None:
    outcome = admit(ledger, "names")
    reviews = Reviews(ledger)
    for who in ("ann", "bob"):
        reviews.judge("names", who, accepts=True)
    (ledger.folder / "tasks" / "names" / "instruction.md").write_text("Another.\n")
    assert reviews.all()[0].standing == "waiting"
    ledger.take_down(outcome)
    assert ledger.rows("select * from reviews") == []


@pytest.mark.parametrize(
    ("pairs", "kappa"),
    [
        ([(1, 1)] * 20 + [(1, 0)] * 5 + [(0, 1)] * 10 + [(0, 0)] * 15, 0.4),  # the example of Wikipedia's page
        ([(1, 1), (0, 0)], 1.0),
        ([(1, 0), (0, 1)], -1.0),
        ([(1, 1), (1, 1)], None),
        ([], None),
    ],
)
def test_kappa_is_agreement_beyond_chance(pairs: list[tuple[int, int]], kappa: float | None) -> None:
    found = agreement_of(pairs).kappa
    assert found is None if kappa is None else found == pytest.approx(kappa)


def test_counts_and_what_another_set_does_not_have(tmp_path: Path) -> None:
    task(tmp_path / "a", "one", "set -e\ncd x\nsort a | uniq -c > b\ngit init\n")
    task(tmp_path / "a", "two", "sort a > b\n")
    task(tmp_path / "b", "other", "/usr/bin/sort x\nmake\n")
    found = count_sets([tmp_path / "a"], [tmp_path / "b"])
    assert (found.tasks, found.programs) == (2, {"sort": 2, "uniq": 1, "git": 1})
    assert (found.absent, found.against_programs) == (("git", "uniq"), 2)
    assert found.absent_share == pytest.approx(2 / 3)
    assert (found.categories, found.licences, found.calls_median) == ({"text_processing": 2}, {"unknown": 2}, 2.0)
    assert count_sets([tmp_path / "a"]).absent_share is None
    assert sorted(programs_of("A=1 sudo -u x tar cf a b; echo $(date)")) == ["date", "echo", "tar"]


def test_the_funnel_narrows_and_shows_foreign_text_as_text() -> None:
    def one(digest: str, state: str, gate: str, reason: str) -> Outcome:
        names = (digest, "k", f"{digest}.cast", "")
        return Outcome(*names, state, gate, reason, None, None, None, None, 1.0, "", "t")  # type: ignore[arg-type]

    rows = [one(str(n), "refused", "screen", "it | runs <script>") for n in range(3)] + [
        one("x", "admitted", "prove", "")
    ]
    yields = yields_of(rows, (4, 1, 2.0))
    page, text = funnel_html(yields), funnel_markdown(yields)
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert 'width="520"' in page
    assert 'width="130"' in page  # a quarter is left
    assert "it \\| runs \\<script\\>" in text
    assert [line.split()[-1] for line in text.splitlines() if "█" in line] == ["4", "1", "1"]
    assert (yields.last_taken, yields.last_known) == (4, 1)


def test_the_commands_of_sets(ledger: Ledger, tmp_path: Path) -> None:
    admit(ledger, "names")
    judged = termarena("forge", "review", "judge", "names", "reject", "--as", "ann", "--flaw", "odd", cwd=tmp_path)
    assert judged.returncode == 2
    assert "there is: unclear" in judged.stderr
    for who in ("ann", "bob"):
        done = termarena("forge", "review", "judge", "names", "accept", "--as", who, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["standing"] == "accepted"
    status = json.loads(termarena("forge", "review", "status", "--json", cwd=tmp_path).stdout)
    assert status["agreement"]["observed"] == 1.0
    exported = termarena("forge", "export", "set", "--verified", "--json", cwd=tmp_path)
    assert [one["verified_by"] for one in json.loads(exported.stdout)["tasks"]] == [["ann", "bob"]]
    assert json.loads(termarena("forge", "stats", "set", "--json", cwd=tmp_path).stdout)["programs"] == {"sort": 1}
    assert termarena("forge", "status", "--html", cwd=tmp_path).stdout.startswith("<!DOCTYPE html>")
