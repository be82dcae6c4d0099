"""Runs on a real Ray cluster: three nodes of this machine, one of which is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import pytest

from running import termarena
from support.patient import MARK
from support.tasks import Made, make_task
from termarena.core.run_folder import RunFolder
from termarena.runs.cluster.connecting import Node, needs_of
from termarena.runs.machine import Budget
from termarena.runs.plan import TrialKey, TrialPlan
from termarena.runs.reading import read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.needs("user-namespaces"), pytest.mark.slow, pytest.mark.timeout(400)]

TESTS = Path(__file__).parents[2]
PATIENCE_S = 180


def wait_for(what: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def left_running() -> list[str]:
    """The processes of `Patient` that are alive on this machine, in whatever sandbox."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if MARK.encode() in words:
            found.append(path.parent.name)
    return found


def is_alive(began: Path) -> bool:
    """Whether the process of a trial that began is there; a dead one that nobody has waited for is not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{began.name.rpartition('-')[2]}/status").read_text()
    except FileNotFoundError:
        return False


class Nodes:
    """The cluster's process."""

    def __init__(self, process: subprocess.Popen[str], place: Path, env: dict[str, str]) -> None:
        self._process = process
        self.place = place
        self.env = env
        self.address = self._answer()

    def tell(self, word: str) -> None:
        print(word, file=self._stream(self._process.stdin), flush=True)
        assert self._answer() == word

    def _answer(self) -> str:
        line = self._stream(self._process.stdout).readline().strip()
        assert line, "the cluster has ended"
        return line

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream

    def began(self) -> list[Path]:
        return sorted(self.place.glob("began-*"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    place = tmp_path_factory.mktemp("cluster")
    # Ray's sockets lie below it: a longer name than pytest's folders leave room for would not do for one.
    short = Path(tempfile.mkdtemp(prefix="ta-ray-", dir="/tmp"))
    (short / "ray").mkdir()
    env = {
        "RAY_TMPDIR": str(short),
        "RAY_USAGE_STATS_ENABLED": "0",
        "TERMARENA_HOME": str(place / "home"),
        "PATIENT_PLACE": str(place),
        "PYTHONPATH": str(TESTS),
        "DOCKER_HOST": "unix:///nowhere.sock",
        "A_SECRET_KEY": "s3cr3t-of-the-node",
    }
    with (place / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.cluster_process"],
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            yield Nodes(process, place, env)
        finally:
            process.communicate(timeout=PATIENCE_S)
            shutil.rmtree(short, ignore_errors=True)


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "nodes" in request.fixturenames:
        wait_for(lambda: not left_running())
        cluster: Nodes = request.getfixturevalue("nodes")
        for path in (*cluster.began(), cluster.place / "go"):
            path.unlink(missing_ok=True)


class Ran(NamedTuple):
    status: int
    out: str
    said: str


@contextmanager
def started(
    nodes: Nodes,
    *words: str,
    address: str | None = None,
    cwd: Path | None = None,
    python: tuple[str, ...] = ("-m", "termarena"),
) -> Iterator[subprocess.Popen[str]]:
    where = ["--engine", "ray", "--address", address or nodes.address]
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, *python, *words, *where],
        env={**os.environ, **nodes.env},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> Ran:
    out, said = process.communicate(timeout=PATIENCE_S)
    return Ran(process.returncode, out, said)


def ran(nodes: Nodes, *words: str, address: str | None = None, cwd: Path | None = None) -> Ran:
    with started(nodes, *words, address=address, cwd=cwd) as process:
        return ended(process)


def two_tasks(place: Path) -> Path:
    for name in ("one", "two"):
        make_task(place / "tasks" / name, Made(agent_s=600.0))
    return place / "tasks"


def tries_of(run: Path) -> list[tuple[str, int, str, str | None]]:
    events = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    found = [event for event in events if event["event"] == "trial_finished"]
    return sorted((event["task_id"], event["retry"], event["outcome"], event["fault"]) for event in found)


def test_what_trials_write_on_nodes_is_in_the_runs_folder(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "agent.sh").write_text("echo 1 >/app/one.txt; echo s3cr3t-of-the-node\n")
    tasks, run = two_tasks(tmp_path), tmp_path / "run"
    make_task(tasks / "larger-than-any-node", Made(cpus=64, memory_mb=1 << 20))
    words = ("run", "--path", str(tasks), "--agent", "script:agent.sh", "--out", str(run), "--json")
    done = ran(nodes, *words, address="auto", cwd=tmp_path)
    assert done.status == 0, done.said
    assert json.loads(done.out)["solved"] == 3
    attempt = RunFolder(run).attempt("one", 1)
    assert json.loads(attempt.result.read_text())["sandbox"]["node"] == socket.gethostname()
    there = {path.name for path in attempt.path.iterdir()}
    assert {"result.json", "trajectory.json", "changes.json", "state.snapshot", "test_output.txt", "logs"} <= there
    assert "s3cr3t" not in attempt.trajectory.read_text()
    assert read_run(RunFolder(run)).lock.options.engine == "ray"
    look_at_files_and_a_budget(nodes, tmp_path)


SOLVES = [
    {"tool_calls": [{"name": "MARK", "arguments": {"word": "1"}}], "input_tokens": 2000, "output_tokens": 100},
    {"tool_calls": [{"name": "TASK_COMPLETE"}], "input_tokens": 2000, "output_tokens": 100},
]
MARK_TOOL = {
    "name": "MARK",
    "description": "Leave a mark.",
    "parameters": {"word": {}},
    "script": 'echo "$word" >one.txt',
}
ENOUGH_FOR_ONE = "4900"


def look_at_files_and_a_budget(nodes: Nodes, place: Path) -> None:
    """The files that a run names, among them an earlier run, go along; what one node spent is gone for the other."""
    (place / "model.json").write_text(json.dumps({"replies": SOLVES}))
    (place / "tools.json").write_text(json.dumps({"tools": [MARK_TOOL]}))
    asked = ("--agent", "tools", "--model", "scripted:model.json", "--tools", "tools.json", "--examples", "run")
    bounded = ("--concurrency", "1", "--run-budget-tokens", ENOUGH_FOR_ONE, "--retry", "0", "--task", "one")
    done = ran(nodes, "run", "--path", "tasks", *asked, *bounded, "--task", "two", "--out", "bounded", cwd=place)
    assert done.status == 0, done.said
    assert tries_of(place / "bounded") == [("one", 0, "solved", None), ("two", 0, "unsolved", None)]
    second = json.loads(RunFolder(place / "bounded").attempt("two", 1).result.read_text())
    assert second["agent_end"] == "resource_limit"


def test_recordings_are_screened_on_the_nodes_as_they_are_here(nodes: Nodes, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for name in (
        "sort-uniq.cast",
        "grep-errors.cast",
        "typescript-timed.typescript",
        "typescript-timed.typescript.timing",
    ):
        shutil.copy(TESTS / "data" / "forge" / name, folder)
    (folder / "broken.cast").write_bytes(b"")
    there = ran(nodes, "forge", "screen", str(folder), "--json")
    assert there.status == 0, there.said
    here = termarena("forge", "screen", str(folder), "--json", "--concurrency", "1")
    assert there.out == here.stdout
    assert here.stdout.count("\n") == 4


def test_a_trial_whose_process_is_killed_on_its_node_is_tried_again(nodes: Nodes, tmp_path: Path) -> None:
    make_task(tmp_path / "one", Made(agent_s=600.0))
    words = ("run", "--path", str(tmp_path / "one"), "--agent", "support.patient:Patient", "--retry", "1")
    with started(nodes, *words, "--out", str(tmp_path / "run")) as process:
        wait_for(nodes.began)
        (began,) = nodes.began()
        os.kill(int(began.name.rpartition("-")[2]), signal.SIGKILL)
        (nodes.place / "go").touch()
        done = ended(process)
    assert done.status == 0, done.said
    assert tries_of(tmp_path / "run") == [("one", 0, "unscored", "infra"), ("one", 1, "solved", None)]


@pytest.mark.soak
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_stopping_a_run_reaches_the_nodes_and_it_can_be_resumed(
    nodes: Nodes, tmp_path: Path, by: signal.Signals
) -> None:
    tasks, run = two_tasks(tmp_path), tmp_path / "run"
    words = ("run", "--path", str(tasks), "--agent", "support.patient:Patient", "--out", str(run))
    with started(nodes, *words) as process:
        wait_for(lambda: len(nodes.began()) == 2)
        wait_for(lambda: len(left_running()) == 2)
        process.send_signal(by)
        done = ended(process)
    assert done.status == (130 if by == signal.SIGINT else -signal.SIGKILL)
    if by == signal.SIGINT:
        assert not left_running(), "the command ended before its sandboxes had"
    wait_for(lambda: not left_running())
    assert tries_of(run) == []
    (nodes.place / "go").touch()
    assert ran(nodes, "resume", str(run)).status == 0
    assert tries_of(run) == [("one", 0, "solved", None), ("two", 0, "solved", None)]


PRETENDING = "import sys; {}; from termarena.cli.main import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("pretence", "status", "words"),
    [
        ("import ray; ray.__version__ = '0.0.1'", 1, r"Ray: 0\.0\.1.*\n.*install the version of Ray"),
        ("import termarena; termarena.__version__ = '99.0'", 1, r"has TermArena .*, this machine 99\.0"),
        (
            "sys.modules['my_agent'] = __import__('support.patient').patient",
            1,
            r"on the node .*: cannot import my_agent",
        ),
        ("sys.modules['ray'] = None", 2, r"package ray, which is not installed\n.*termarena\[ray\]"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_starts(
    nodes: Nodes, tmp_path: Path, pretence: str, status: int, words: str
) -> None:
    run = tmp_path / "run"
    asked = ["run", "--sample", "1", "--engine", "ray", "--address", nodes.address, "--out", str(run)]
    asked += ["--agent", "my_agent:Patient"] if "my_agent" in pretence else []
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PRETENDING.format(pretence), *asked],
        env={**os.environ, **nodes.env},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert re.search(words, done.stderr), done.stderr
    assert not run.exists()


def refused(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "termarena", "run", "--sample", "1", "--engine", "ray", *words],
        env={**os.environ, "RAY_TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_an_address_where_nobody_answers(tmp_path: Path) -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else can
        bound.bind(("127.0.0.2", 0))
        done = refused(tmp_path, "--address", f"127.0.0.2:{bound.getsockname()[1]}")
    assert done.returncode == 1
    assert "there is no Ray cluster at 127.0.0.2" in done.stderr
    assert "ray start --head" in done.stderr


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "local", "somewhere:", ":1"])
def test_an_address_that_is_none(tmp_path: Path, address: str) -> None:
    done = refused(tmp_path, "--address", address)
    assert done.returncode == 2
    assert f"{address!r} is no address of a Ray cluster" in done.stderr


def test_what_only_one_process_can_count_is_refused(tmp_path: Path) -> None:
    done = refused(tmp_path, "--model-requests", "5")
    assert done.returncode == 2
    assert "--model-requests is counted in one process" in done.stderr


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ((1, 1000), (1, 1000)),
        ((0, 1000), (0.01, 1000)),
        ((4, 9000), (4, 9000)),
        ((9, 1000), (8, 1000)),
        ((9, 99999), (8, 9999)),
    ],
)
def test_what_a_trial_asks_of_a_node(asked: tuple[float, int], given: tuple[float, int]) -> None:
    there = [Node("a", "a", 8.0, 9999), Node("b", "b", 2.0, 20000)]
    assert needs_of(TrialPlan(TrialKey("t", 1), "", *asked), there) == Budget(*given)


# The last ones: Ray takes its time to forget a node that is gone.


def test_a_trial_whose_node_is_killed_is_tried_again_on_another(nodes: Nodes, tmp_path: Path) -> None:
    tasks, run = two_tasks(tmp_path), tmp_path / "run"
    agent = "support.patient:Patient"
    with started(nodes, "run", "--path", str(tasks), "--agent", agent, "--out", str(run), "--retry", "1") as process:
        wait_for(lambda: len(nodes.began()) == 2)
        nodes.tell("kill")
        wait_for(lambda: len([path for path in nodes.began() if is_alive(path)]) == 1)
        (nodes.place / "go").touch()
        done = ended(process)
    nodes.tell("add")
    assert done.status == 0, done.said
    tries = tries_of(run)
    assert [entry[2:] for entry in tries if entry[1] == 1] == [("solved", None)]
    assert sorted(entry[2:] for entry in tries if entry[1] == 0) == [("solved", None), ("unscored", "infra")]
    (lost,) = [entry[0] for entry in tries if entry[2] == "unscored"]
    detail = json.loads(RunFolder(run).attempt(lost, 1).result.read_text())["fault_detail"]
    assert (detail["kind"], detail["is_retriable"]) == ("NodeLost", True)
    assert detail["message"].startswith("the node that carried out the trial is lost: ")
    assert ". " not in detail["message"], "one sentence of Ray's is enough"


@pytest.mark.soak
def test_a_command_just_after_a_node_was_lost_asks_only_those_that_are_there(nodes: Nodes, tmp_path: Path) -> None:
    tasks, run = two_tasks(tmp_path), tmp_path / "run"
    nodes.tell("kill")
    done = ran(nodes, "run", "--path", str(tasks), "--agent", "oracle", "--out", str(run))
    nodes.tell("add")
    assert done.status == 0, done.said
    assert tries_of(run) == [("one", 0, "solved", None), ("two", 0, "solved", None)]


SCREENING = "import termarena.forge.screening.shards as shards, support.patient as patient"


@pytest.mark.soak
def test_a_lost_head_ends_the_commands_and_the_run_can_be_resumed(nodes: Nodes, tmp_path: Path) -> None:
    make_task(tmp_path / "tasks" / "one", Made(agent_s=600.0))
    run, recording = tmp_path / "run", tmp_path / "sort-uniq.cast"
    shutil.copy(TESTS / "data" / "forge" / recording.name, recording)
    pretence = PRETENDING.format(f"{SCREENING}; shards._judge = patient.judge_patiently")
    words = ["run", "--path", str(tmp_path / "tasks"), "--agent", "support.patient:Patient", "--out", str(run)]
    with (
        started(nodes, *words) as running,
        started(nodes, "forge", "screen", str(recording), python=("-c", pretence)) as screening,
    ):
        wait_for(lambda: len(nodes.began()) == 2)
        nodes.tell("behead")
        done, screened = ended(running), ended(screening)
    assert (done.status, screened.status) == (1, 1), done.said + screened.said
    lost = r"error: the head of the Ray cluster at .* is lost\b.*\nhint: "
    assert re.search(lost + ".*termarena resume", done.said)
    assert re.search(lost + "start a cluster, then give the same command .*--engine local", screened.said)
    assert tries_of(run) == []
    (nodes.place / "go").touch()
    on = termarena("resume", str(run), "--engine", "local", env={**nodes.env})
    assert on.returncode == 0, on.stderr
    assert tries_of(run) == [("one", 0, "solved", None)]
