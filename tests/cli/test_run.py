"""`termarena run` and what follows it, for real: processes, sandboxes, signals; every task is a folder of the test."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from running import PATIENCE_S, termarena
from support.folders import harbor
from support.person import Person
from support.tasks import LOOKS_FOR_ONE, Made, make_task
from termarena.cli.main import main
from termarena.core.run_folder import RunFolder
from termarena.runs.reading import read_run
from termarena.sandbox.terminal import read_cast

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.needs("user-namespaces")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One home for all tests here, so that the root file system is prepared once; and no engine anywhere."""
    return {"TERMARENA_HOME": str(tmp_path_factory.mktemp("home")), "DOCKER_HOST": "unix:///nowhere.sock"}


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Two tasks that can be solved, one of which does not load."""
    place = tmp_path / "tasks"
    for name in ("one", "two"):
        make_task(place / name)
    return place


@pytest.fixture
def inside(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> pytest.CaptureFixture[str]:
    """The command line in this very process, for what needs none of its own."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return capsys


def run_json(*words: str, env: dict[str, str], cwd: Path) -> dict[str, Any]:
    done = termarena(*words, "--json", env=env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_reference_solves_and_nothing_does_not(tasks: Path, env: dict[str, str], tmp_path: Path) -> None:
    done = termarena("run", "--path", str(tasks), "--out", "runs/first", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^one +solved +1\.00", done.stdout, re.MULTILINE)
    assert "accuracy 100.0 %: 2 solved, 0 unsolved of 2 trials at 2 tasks" in done.stdout
    assert "results in runs/first" in done.stderr
    folder = RunFolder(tmp_path / "runs" / "first")
    for path in (folder.config_lock, folder.journal, folder.report, folder.report_text):
        assert path.is_file()
    _, did, *calls, tests = termarena("runs", "logs", "first", "one", env=env, cwd=tmp_path).stdout.splitlines()
    assert (did, tests) == ("== what the agent did (3 calls)", "== the tests wrote nothing")
    assert [call.rpartition("  ")[0] for call in calls] == [
        "put_tree  /solution",
        "exec  /solution/solve.sh",
        "clean up  /solution",
    ]
    report = run_json("run", "--path", str(tasks), "--agent", "nop", env=env, cwd=tmp_path)
    assert (report["accuracy"], report["solved"], report["unsolved"]) == (0.0, 0, 2)
    assert Path(report["folder"]).name.endswith("-nop")
    listed = run_json("runs", "list", env=env, cwd=tmp_path)["runs"]
    assert [row["accuracy"] for row in listed] == [0.0, 1.0]


# What the peers do with one bad task among good ones: abort, blame the agent, skip it in silence.


def test_one_task_that_this_machine_cannot_run_does_not_abort_the_job(
    tasks: Path, env: dict[str, str], tmp_path: Path
) -> None:
    harbor(
        tasks / "needs-an-engine",
        **{"environment/docker-compose.yaml": "services: {main: {image: x, cap_add: [ALL]}}\n"},
    )
    done = termarena("run", "-p", str(tasks), env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accuracy 100.0 % (between 66.7 % and 100.0 %): 2 solved, 0 unsolved, 1 unscored of 3 trials" in done.stdout
    assert "unscored: needs-an-engine/1: INFRA_FAULT: this task needs an image" in done.stderr
    assert "hint: start a Docker or Podman engine" in done.stderr


@pytest.mark.parametrize(
    ("words", "tasks_meant"),
    [
        (("--sample",), 16),
        (("--sample", "--first", "3"), 3),
        (("--first", "3", "--sample"), 3),
        (("--sample", "2"), 2),
        (("--dataset", "samples", "--sample=2"), 2),
    ],
)
def test_sample_alone_is_the_bundled_samples_and_with_a_number_some_at_random(
    words: tuple[str, ...], tasks_meant: int, inside: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words, "--dry-run", "--json"]) == 0
    said = inside.readouterr()
    assert json.loads(said.out)["tasks"] == tasks_meant
    assert ("no dataset was given" in said.err) == (words == ("--sample", "2"))


def test_sample_alone_beside_a_dataset_lacks_its_number(inside: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--dataset", "samples", "--sample"]) == 2
    assert "'--sample' requires an argument" in inside.readouterr().err


def test_an_engine_that_does_not_answer_is_told_before_anything_starts(
    tasks: Path, env: dict[str, str], tmp_path: Path
) -> None:
    done = termarena("run", "-p", str(tasks), "--driver", "docker", "-o", "run", env=env, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "error: engine unix:///nowhere.sock: " in done.stderr
    assert "hint: start a Docker or Podman engine" in done.stderr
    assert not (tmp_path / "run").exists()
    baseline = termarena("run", "-p", str(tasks), "--driver", "docker", "-a", "always-right", env=env, cwd=tmp_path)
    assert baseline.returncode == 0, baseline.stderr


def test_a_task_that_cannot_be_set_up_is_not_the_agents_fault_and_all_counts_have_one_denominator(
    tasks: Path, inside: pytest.CaptureFixture[str]
) -> None:
    make_task(tasks / "no-setup", Made(setup="exit 3\n"))
    make_task(tasks / "no-verdict", Made(tests="#!/bin/sh\nexit 0\n"))
    assert main(["run", "-p", str(tasks), "--retry", "0", "--json"]) == 0
    report = json.loads(inside.readouterr().out)
    assert (report["total"], report["solved"], report["unsolved"], report["unscored"]) == (4, 2, 0, 2)
    assert (report["accuracy"], report["accuracy_low"], report["accuracy_high"]) == (1.0, 0.5, 1.0)
    assert {one["task_id"]: one["fault"] for one in report["unscored_trials"]} == {
        "no-setup": "task",
        "no-verdict": "test",
    }
    assert report["by_agent_end"]["not_started"] == 1


@pytest.mark.needs("docker")
def test_a_dockerfile_that_does_not_build_is_the_tasks_fault(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    harbor(tasks / "no-build")
    (tasks / "no-build" / "environment" / "Dockerfile").write_text("FROM debian:bookworm\nRUN false\n")
    monkeypatch.chdir(tmp_path)
    assert main(["run", "-p", str(tasks), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["solved"], report["unscored"], report["retries"]) == (2, 1, 0)
    assert [(one["task_id"], one["fault"]) for one in report["unscored_trials"]] == [("no-build", "task")]


def test_folders_without_a_whole_task_are_neither_skipped_in_silence_nor_fatal(
    tasks: Path, inside: pytest.CaptureFixture[str]
) -> None:
    harbor(tasks / "no-toml", task_toml="[[")
    (harbor(tasks / "no-instruction") / "instruction.md").unlink()
    (harbor(tasks / "no-tests") / "tests" / "test.sh").unlink()
    (tasks / "not-a-task").mkdir()
    assert main(["run", "-p", str(tasks), "--agent", "always-right", "--json"]) == 0
    told = inside.readouterr()
    report = json.loads(told.out)
    assert (report["tasks"], report["solved"], report["unscored"], report["accuracy_low"]) == (5, 2, 3, 0.4)
    assert [one["task_id"] for one in report["unscored_trials"]] == ["no-instruction", "no-tests", "no-toml"]
    assert all(one["message"] for one in report["unscored_trials"])
    assert "no-toml does not load and will be unscored" in told.err
    assert "left out as no tasks (1): not-a-task" in told.err


ALIVE = """\
#!/bin/sh
echo looked for $(cat /app/pid)
kill -0 $(cat /app/pid) && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt
"""


SERVICE = Made(services=("server",), solution="sleep 600 & echo $! >/app/pid\n", tests=ALIVE)


@pytest.mark.parametrize(
    ("grading", "made", "graded_in", "aside"), [("auto", SERVICE, "live", "sealed"), ("both", Made(), "sealed", "live")]
)
def test_what_counts_has_the_plain_name_and_the_other_grading_is_kept_beside(
    env: dict[str, str], tmp_path: Path, grading: str, made: Made, graded_in: str, aside: str
) -> None:
    make_task(tmp_path / "task", made)
    words = ("run", "-p", str(tmp_path / "task"), "--grading", grading, "--retry", "0", "-o", "run")
    report = run_json(*words, env=env, cwd=tmp_path)
    assert [(row["outcome"], row["graded_in"]) for row in report["trials"]] == [("solved", graded_in)]
    attempt = RunFolder(tmp_path / "run").attempt("task", 1)
    for name in ("test_output.txt", "logs/verifier", f"test_output-{aside}.txt", f"logs-{aside}/verifier"):
        assert (attempt.path / name).exists(), name


def test_a_misspelt_field_is_refused_where_that_is_asked(tasks: Path, inside: pytest.CaptureFixture[str]) -> None:
    text = (tasks / "one" / "task.toml").read_text()
    (tasks / "one" / "task.toml").write_text(text.replace("timeout_sec", "timout_sec", 1))
    assert main(["run", "-p", str(tasks), "--strict", "--dry-run", "--json"]) == 0
    assert "timout_sec" in json.loads(inside.readouterr().out)["broken"]["one"]


def test_a_dry_run_says_what_would_run_and_writes_nothing(
    tasks: Path, inside: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    harbor(
        tasks / "needs-an-image",
        **{"environment/docker-compose.yaml": "services: {main: {image: x, cap_add: [ALL]}}\n"},
    )
    before = sorted(tmp_path.rglob("*"))
    assert main(["run", "-p", str(tasks), "--dry-run", "-k", "3"]) == 0
    told = inside.readouterr().out
    assert re.search(r"^one +namespace +1 min 00 s", told, re.MULTILINE)
    assert re.search(r"^needs-an-image +none ", told, re.MULTILINE)
    assert "cannot run here, and would be unscored: needs-an-image" in told
    assert "cost: unknown" in told
    assert main(["run", "-p", str(tasks), "-t", "one", "--dry-run", "-k", "3", "-n", "1", "--json"]) == 0
    plan = json.loads(inside.readouterr().out)
    assert (plan["trials"], plan["at_once"], plan["time_at_most_s"], plan["cost_usd"]) == (3, 1, 180.0, None)
    assert plan["expert_time_min"] is None
    assert plan["per_task"][0]["why"] == "the task has a recipe for a plain root file system"
    assert sorted(tmp_path.rglob("*")) == before


def test_the_samples_are_the_default_and_said_aloud(env: dict[str, str], tmp_path: Path) -> None:
    done = termarena("run", "-t", "hello-world", "--attempts", "2", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "taking the bundled samples" in done.stderr
    assert "2 of 2 solved" in done.stdout


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--agent", "nobody"], 2, "no agent is called 'nobody'"),
        (["--agent", "human"], 2, "termarena play"),
        (["--agent", "random"], 2, "random:SEED"),
        (["--driver", "magic"], 2, "no driver is called magic"),
        (["--agent", "oracle", "--model", "gpt"], 2, "takes no model"),
        (["--dataset", "samples", "--path", "."], 2, "two sets of tasks"),
        (["--path", "nowhere"], 2, "nothing is at nowhere"),
        (["--dataset", "nowhere"], 2, "nowhere"),
        (["--task", "nothing"], 2, "no task is called nothing"),
        (["--timeout-multiplier", "0"], 2, "--timeout-multiplier"),
        (["--grading", "wild"], 2, "wild"),
        (["-t", "hello-world", "--out", "/proc/run"], 2, "/proc/run"),
        (["--model", "one", "--model=other"], 2, "--model was given twice\nhint: a run has one model"),
        (["--strict", "--strict", "-k", "2", "--attempts", "3"], 2, "--attempts was given twice\nhint: give it once"),
        (["--out", "one", "--out=other"], 2, "--out was given twice"),
    ],
)
def test_what_cannot_be_run_says_why_and_starts_nothing(
    inside: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], status: int, message: str
) -> None:
    assert main(["run", *words]) == status
    told = inside.readouterr()
    assert told.out == ""
    assert message in told.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["taken", "taken/below", "/proc/nothing"])
def test_an_out_that_cannot_be_a_folder_is_a_wrong_word_and_no_fault(
    inside: pytest.CaptureFixture[str], tasks: Path, out: str
) -> None:
    Path("taken").touch()
    assert main(["run", "-p", str(tasks), "-a", "always-right", "--out", out]) == 2
    said = inside.readouterr().err
    assert f"error: cannot begin a run in {out}: " in said
    assert "--out DIR" in said
    assert "resume" not in said


def test_one_trial_is_not_called_trials(inside: pytest.CaptureFixture[str], tasks: Path) -> None:
    assert main(["run", "-p", str(tasks), "--task", "one", "-a", "always-right", "--out", "run"]) == 0
    assert "always-right on 1 task of tasks: 1 trial, in run\n" in inside.readouterr().err


def test_a_folder_that_holds_a_run_is_refused(tasks: Path, inside: pytest.CaptureFixture[str]) -> None:
    words = ["run", "-p", str(tasks), "-a", "always-right", "--out", "runs/a"]
    assert main(words) == 0
    assert main(words) == 2
    assert "to go on with this one: termarena resume runs/a" in inside.readouterr().err


class Running:
    """A run in a process of its own that can be watched and ended."""

    def __init__(self, *words: str, env: dict[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "termarena", *words],
            env={**os.environ, **env},
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def until(self, pattern: str) -> None:
        """Read what it says until a line with the pattern comes."""
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if re.search(pattern, line):
                return
        pytest.fail(f"it ended and never said {pattern}: {seen}")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A quick task, and one whose solution takes longer than anybody waits."""
    place = tmp_path / "tasks"
    make_task(place / "a-quick")
    make_task(place / "b-slow", Made(solution="sleep 600\n", agent_s=900))
    return place


def test_ctrl_c_stops_cleanly_and_resume_goes_on(slow: Path, env: dict[str, str], tmp_path: Path) -> None:
    words = ("run", "-p", str(slow), "-n", "1", "--out", "run")
    with Running(*words, env=env, cwd=tmp_path) as running:
        running.until(r"1/2 +solved +a-quick")
        began = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        told, said = running.process.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - began < 60
    assert running.process.returncode == 130
    assert "1 solved, 0 unsolved, 1 not run yet of 2 trials" in told
    assert said.splitlines()[-1] == "next: termarena resume run"
    make_task(slow / "b-slow", Made(agent_s=900, tests=f"{LOOKS_FOR_ONE}# mended\n"))
    changed = termarena("resume", "run", env=env, cwd=tmp_path)
    assert changed.returncode == 1
    assert "b-slow has changed" in changed.stderr
    report = run_json("resume", "run", "--allow-changed", env=env, cwd=tmp_path)
    assert (report["state"], report["solved"], report["pending"]) == ("finished", 2, 0)


def test_a_closed_window_stops_the_run_cleanly(slow: Path, env: dict[str, str], tmp_path: Path) -> None:
    words = ("run", "-p", str(slow), "-n", "1", "--out", "run")
    with Person(*words, home=Path(env["TERMARENA_HOME"]), cwd=tmp_path) as person:
        person.until("1/2")
        person.close_window()
        assert person.process.wait(PATIENCE_S) == 130
    view = read_run(RunFolder(tmp_path / "run"))
    assert (view.state, view.history.stopped_by, view.counts.solved) == ("interrupted", "SIGTERM", 1)


def test_a_killed_run_is_resumed_and_a_second_process_is_refused(
    slow: Path, env: dict[str, str], tmp_path: Path
) -> None:
    with Running("run", "-p", str(slow), "-n", "1", "-o", "run", env=env, cwd=tmp_path) as running:
        running.until(r"1/2 +solved +a-quick")
        busy = termarena("resume", "run", env=env, cwd=tmp_path)
        assert busy.returncode == 2
        assert f"process {running.process.pid}" in busy.stderr
        assert run_json("runs", "show", "run", env=env, cwd=tmp_path)["state"] == "running"
        running.process.kill()
        running.process.communicate()
    make_task(slow / "b-slow", Made(agent_s=900))
    report = run_json("resume", "run", env=env, cwd=tmp_path)
    assert (report["solved"], report["total"]) == (2, 2)
    again = run_json("resume", "run", env=env, cwd=tmp_path)
    assert (again["solved"], again["state"]) == (2, "finished")


def test_regrading_takes_other_tests_without_the_agent(tasks: Path, env: dict[str, str], tmp_path: Path) -> None:
    assert termarena("run", "-p", str(tasks), "-o", "run", env=env, cwd=tmp_path).returncode == 0
    stricter = tmp_path / "stricter"
    stricter.mkdir()
    (stricter / "test.sh").write_text("#!/bin/sh\ngrep -qx 2 /app/one.txt\necho $((1-$?)) >/logs/verifier/reward.txt\n")
    found = run_json("regrade", "run", "--task", "one", "--tests", str(stricter), env=env, cwd=tmp_path)
    assert [(row["task_id"], row["before"], row["after"]) for row in found["trials"]] == [("one", "solved", "unsolved")]
    assert found["accuracy"] == 0.5
    done = termarena("regrade", "run", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 trials changed; accuracy 100.0 %" in done.stdout
    assert "one/1: unsolved, now solved" in done.stderr
    refused = termarena("regrade", "run", "--task", "three", env=env, cwd=tmp_path)
    assert refused.returncode == 2


def test_a_run_on_a_terminal_draws_and_leaves_a_table(tasks: Path, env: dict[str, str], tmp_path: Path) -> None:
    # A picture is drawn a few times a second: enough trials that some of them are seen at work.
    words = ("run", "-p", str(tasks), "-n", "1", "-k", "6", "-o", "run")
    with Person(*words, home=Path(env["TERMARENA_HOME"]), cwd=tmp_path) as person:
        seen = person.until(r"(?s).*next: termarena report run")
        assert person.process.wait(PATIENCE_S) == 0
        assert person.modes_now() == person.modes
    told = (
        r"12 trials, in run",
        r"━+\x1b\[0m +[0-9]+/12 ",
        r"(one|two)( \(attempt [2-6]\))? +[0-9.]+ s",
        r"12/12 +\x1b\[32m12 solved",
        r"accuracy 100\.0 %",
    )
    for pattern in told:
        assert re.search(pattern, seen), f"no {pattern} in {seen}"


@pytest.fixture
def player(tasks: Path, env: dict[str, str], tmp_path: Path) -> Iterator[Person]:
    with Person("play", str(tasks / "one"), "-o", "run", home=Path(env["TERMARENA_HOME"]), cwd=tmp_path) as person:
        person.until(r"Write 1 to /app/one\.txt")
        person.until(r"you have 30 s; leave the shell")
        person.until(r"[#$] ")
        yield person


def test_a_person_plays_a_task_and_is_graded(player: Person, tmp_path: Path) -> None:
    player.type("echo 1 >one.txt; echo done-$((40+2))\r")
    player.until(r"done-42")
    player.type("exit\r")
    player.until(r"submit\? \[Y/n\] ")
    player.type("\r")
    player.until(r"one +\x1b\[32msolved")
    player.until(r"next: termarena replay run one")
    assert player.process.wait(PATIENCE_S) == 0
    assert player.modes_now() == player.modes
    attempt = RunFolder(tmp_path / "run").attempt("one", 1)
    assert "done-42" in read_cast(attempt.cast()).text()


def test_a_person_who_does_not_submit_is_not_graded(player: Person, tmp_path: Path) -> None:
    player.type("exit\r")
    player.until(r"submit\? \[Y/n\] ")
    player.type("n\r")
    player.until(r"not submitted: nothing was graded")
    assert player.process.wait(PATIENCE_S) == 130
    assert not RunFolder(tmp_path / "run").attempt("one", 1).result.exists()


def test_playing_needs_a_terminal(tasks: Path) -> None:
    done = termarena("play", str(tasks / "one"))
    assert done.returncode == 2
    assert "playing a task needs a terminal" in done.stderr
