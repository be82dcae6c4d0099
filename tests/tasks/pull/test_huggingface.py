from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tasks.pull.processes import start
from tasks.pull.repositories import files_in
from tasks.pull.servers import COMMIT, Hub, Reply, Site
from termarena.core.errors import MissingExtra
from termarena.tasks.pull import PullError, Step, find_pulled, pull

if TYPE_CHECKING:
    from pathlib import Path

LARGE = bytes(range(256)) * 4000
FILES = {
    "README.md": b"A dataset.\n",
    "tasks/one/task.toml": b'schema_version = "1.0"\n',
    "tasks/one/tests/test.sh": b"#!/bin/sh\nexit 0\n",
    "tasks/one/environment/data.bin": LARGE,
    "tasks/two/task.toml": b'schema_version = "1.0"\n',
    "tasks/two/an odd näme #1?.txt": b"odd\n",
    "tasks/two/empty": b"",
}
IN_TASKS = {name.removeprefix("tasks/"): data for name, data in FILES.items() if name.startswith("tasks/")}
BINARY = "tasks/one/environment/data.bin"


@pytest.fixture
def tasks(hub: Hub) -> Hub:
    hub.files = dict(FILES)
    hub.in_lfs = {BINARY}
    return hub


def resolve(name: str) -> str:
    return f"/datasets/org/tasks/resolve/{COMMIT}/{name}"


def fails(source: str, home: Path) -> PullError:
    with pytest.raises(PullError) as caught:
        pull(source, home=home)
    return caught.value


@pytest.mark.usefixtures("tasks")
def test_a_dataset_comes_whole_and_is_known_by_its_commit(home: Path) -> None:
    pulled = pull("hf:org/tasks", home=home)
    assert files_in(pulled.path) == FILES
    assert pulled.revision == COMMIT
    assert pulled.files == len(FILES)
    assert pulled.path.name == "tasks"


@pytest.mark.usefixtures("tasks")
def test_only_the_folder_asked_for_comes(home: Path) -> None:
    assert files_in(pull("hf:org/tasks@main#tasks", home=home).path) == IN_TASKS


@pytest.mark.usefixtures("tasks")
def test_scripts_become_executable_since_the_hub_tells_no_modes(home: Path) -> None:
    path = pull("hf:org/tasks#tasks", home=home).path
    assert os.access(path / "one/tests/test.sh", os.X_OK)
    assert not os.access(path / "one/task.toml", os.X_OK)


def test_a_listing_of_several_pages_is_read_to_its_end(tasks: Hub, home: Path) -> None:
    tasks.page_size = 2
    assert files_in(pull("hf:org/tasks", home=home).path) == FILES
    assert len([path for path in tasks.paths() if "/tree/" in path]) == 4


def test_a_pinned_commit_needs_no_question_and_the_second_pull_no_hub(tasks: Hub, home: Path) -> None:
    source = f"hf:org/tasks@{COMMIT}"
    first = pull(source, home=home)
    asked = len(tasks.requests)
    assert not [path for path in tasks.paths() if "/revision/" in path]
    assert pull(source, home=home).path == first.path
    assert len(tasks.requests) == asked


def test_a_branch_that_moved_is_seen_on_refresh(tasks: Hub, home: Path) -> None:
    before = pull("hf:org/tasks", home=home)
    tasks.commit = "f" * 40
    tasks.files["tasks/three/task.toml"] = b""
    assert pull("hf:org/tasks", home=home).revision == before.revision
    after = pull("hf:org/tasks", home=home, refresh=True)
    assert after.revision == "f" * 40
    assert files_in(after.path) == tasks.files


def test_progress_ends_at_its_totals_and_never_overlaps(tasks: Hub, home: Path) -> None:
    steps: list[Step] = []
    busy = threading.Lock()

    def note(step: Step) -> None:
        assert busy.acquire(blocking=False)
        steps.append(step)
        busy.release()

    pull("hf:org/tasks", home=home, progress=note)
    last = steps[-1]
    size = sum(map(len, tasks.files.values()))
    assert last == Step("fetching", size, size, len(FILES), len(FILES))


def test_a_dropped_connection_is_resumed_where_it_broke(tasks: Hub, home: Path) -> None:
    tasks.faults[resolve(BINARY)] = [Reply(body=LARGE, cut_after=300_000), Reply(body=LARGE, cut_after=0)]
    assert files_in(pull("hf:org/tasks", home=home).path) == FILES
    ranges = [request.headers.get("Range") for request in tasks.requests if request.path == resolve(BINARY)]
    assert ranges[0] is None
    starts = [int(str(wanted).removeprefix("bytes=").rstrip("-")) for wanted in ranges[1:]]
    assert len(starts) == 2
    assert all(0 < start <= 300_000 for start in starts)


def test_a_server_that_cannot_resume_is_asked_for_all_of_it(tasks: Hub, home: Path) -> None:
    whole = Reply(200, LARGE, {"Accept-Ranges": "none"})
    tasks.faults[resolve(BINARY)] = [Reply(body=LARGE, cut_after=1000), Reply(416), whole]
    steps: list[Step] = []
    assert files_in(pull("hf:org/tasks", home=home, progress=steps.append).path) == FILES
    assert steps[-1].bytes_done == steps[-1].bytes_total


def test_a_server_that_is_busy_is_asked_again_when_it_says(tasks: Hub, home: Path, pauses: list[float]) -> None:
    tasks.faults[resolve("README.md")] = [Reply(429, headers={"Retry-After": "7"}), Reply(503), Reply(500)]
    assert files_in(pull("hf:org/tasks", home=home).path) == FILES
    assert pauses[0] == 7
    assert 1 <= pauses[1] <= 2
    assert 2 <= pauses[2] <= 4


def test_a_date_to_come_back_at_that_has_passed_means_now(tasks: Hub, home: Path, pauses: list[float]) -> None:
    late = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
    tasks.faults[resolve("README.md")] = [Reply(503, headers=late)]
    pull("hf:org/tasks", home=home)
    assert len(pauses) == 1
    assert pauses[0] <= 1


def test_a_server_that_asks_for_an_hour_is_not_waited_for(tasks: Hub, home: Path, pauses: list[float]) -> None:
    tasks.faults[resolve("README.md")] = [Reply(429, headers={"Retry-After": "3600"})]
    error = fails("hf:org/tasks", home)
    assert error.reason == "network"
    assert "3600 seconds" in error.message
    assert pauses == []


def test_a_server_that_stays_broken_is_given_up_and_what_arrived_is_used_later(tasks: Hub, home: Path) -> None:
    broken = resolve("tasks/two/task.toml")
    tasks.faults[broken] = [Reply(503)] * 5
    error = fails("hf:org/tasks", home)
    assert error.reason == "network"
    assert "503, 5 times in a row" in error.message
    assert find_pulled("hf:org/tasks", home=home) is None
    before = Counter(tasks.paths())
    assert files_in(pull("hf:org/tasks", home=home).path) == FILES
    again = Counter(tasks.paths()) - before
    assert again[broken] == 1
    assert again[resolve(BINARY)] + before[resolve(BINARY)] <= 2


@pytest.mark.slow
def test_a_server_that_stalls_is_asked_again(tasks: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termarena.tasks.pull.web.TIMEOUT_S", 0.3)
    tasks.faults[resolve(BINARY)] = [Reply(body=LARGE, cut_after=5000, held=True)]
    assert files_in(pull("hf:org/tasks", home=home).path) == FILES
    assert tasks.reached.is_set()


def test_bytes_that_are_wrong_once_are_fetched_again(tasks: Hub, home: Path) -> None:
    tasks.faults[resolve(BINARY)] = [Reply(body=b"x" * len(LARGE))]
    tasks.faults[resolve("README.md")] = [Reply(body=b"A dataset!\n")]
    assert files_in(pull("hf:org/tasks", home=home).path) == FILES


@pytest.mark.parametrize("name", [BINARY, "README.md"])
@pytest.mark.parametrize("change", [b"", b"more"])
def test_bytes_that_stay_wrong_are_refused(name: str, change: bytes, tasks: Hub, home: Path) -> None:
    wrong = Reply(body=bytes(byte ^ 1 for byte in FILES[name]) + change)
    tasks.faults[resolve(name)] = [wrong, wrong]
    error = fails("hf:org/tasks", home)
    assert error.reason == "digest"
    assert name in error.message
    assert find_pulled("hf:org/tasks", home=home) is None


def test_a_redirect_is_followed_without_the_token(tasks: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_s3cret")
    elsewhere = Hub()
    elsewhere.files = dict(FILES)
    tasks.moved_to = elsewhere.url
    with elsewhere.running():
        pulled = pull("hf:org/tasks", home=home)
    assert files_in(pulled.path) == FILES
    assert {request.headers.get("Authorization") for request in tasks.requests} == {"Bearer hf_s3cret"}
    assert len(elsewhere.requests) == len([name for name, data in FILES.items() if data])
    assert {request.headers.get("Authorization") for request in elsewhere.requests} == {None}
    assert not [file for file in home.rglob("*") if file.is_file() and b"s3cret" in file.read_bytes()]


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://[", "http://h:99999999/"])
def test_a_redirect_to_anything_but_http_is_refused(target: str, tasks: Hub, home: Path) -> None:
    tasks.faults[resolve("README.md")] = [Reply(302, headers={"Location": target})]
    assert fails("hf:org/tasks", home).reason == "unsafe"


def test_redirects_in_a_circle_end(tasks: Hub, home: Path) -> None:
    tasks.faults[resolve("README.md")] = [Reply(302, headers={"Location": resolve("README.md")})] * 20
    assert "redirects" in fails("hf:org/tasks", home).message


def test_neither_token_nor_signature_is_ever_shown(tasks: Hub, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_s3cret")
    elsewhere = Site()
    tasks.moved_to = elsewhere.url
    with elsewhere.running():
        error = fails("hf:org/tasks", home)
    assert error.reason == "not-found"
    assert elsewhere.url in error.message
    assert "SIGNED" not in repr(error.as_dict())
    assert "s3cret" not in repr(error.as_dict())


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(404), "not-found"),
        (Reply(404, headers={"X-Error-Code": "RevisionNotFound"}), "not-found"),
        (Reply(401, headers={"X-Error-Code": "RepoNotFound"}), "not-found"),
        (Reply(401), "unauthorised"),
        (Reply(403, headers={"X-Error-Code": "GatedRepo"}), "unauthorised"),
        (Reply(418), "broken"),
        (Reply(200, b"<html>"), "broken"),
        (Reply(200, b'{"sha": "../../etc"}'), "broken"),
        (Reply(200, b"[]"), "broken"),
    ],
)
def test_what_the_hub_answers_has_a_reason(reply: Reply, reason: str, tasks: Hub, home: Path) -> None:
    tasks.faults["/api/datasets/org/tasks/revision/main"] = [reply]
    assert fails("hf:org/tasks", home).reason == reason


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"type": "file", "oid": "0" * 40, "size": 1, "path": "../outside"}], "unsafe"),
        ([{"type": "file", "oid": "0" * 40, "size": 1, "path": "/outside"}], "unsafe"),
        ([{"type": "file", "oid": "0" * 40, "size": 1, "path": "a//b"}], "unsafe"),
        ([{"type": "file", "oid": "0" * 40, "size": "1", "path": "a"}], "broken"),
        ([{"type": "file", "path": "a"}], "broken"),
        (["a"], "broken"),
        ({"error": "no"}, "broken"),
    ],
)
def test_a_listing_that_is_none_or_leaves_its_folder_is_refused(
    rows: object, reason: str, tasks: Hub, home: Path
) -> None:
    tasks.faults[f"/api/datasets/org/tasks/tree/{COMMIT}"] = [Reply(body=json.dumps(rows).encode())]
    assert fails("hf:org/tasks", home).reason == reason
    assert not (home.parent / "outside").exists()


def test_a_listing_of_another_folder_than_the_one_asked_for_is_refused(tasks: Hub, home: Path) -> None:
    rows = [tasks.listing_of("README.md")]
    tasks.faults[f"/api/datasets/org/tasks/tree/{COMMIT}/tasks"] = [Reply(body=json.dumps(rows).encode())]
    assert fails("hf:org/tasks#tasks", home).reason == "broken"


@pytest.mark.usefixtures("tasks")
def test_a_folder_that_is_not_there_is_not_found(home: Path) -> None:
    assert fails("hf:org/tasks#nowhere", home).reason == "not-found"


def test_a_hub_that_cannot_be_reached_is_a_network_problem_with_a_way_out(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        error = fails("hf:org/tasks@v1#tasks", home)
    assert error.reason == "network"
    assert f"the Hugging Face dataset {endpoint}/datasets/org/tasks at v1, folder tasks" in error.message
    assert "termarena datasets pull PATH/tasks" in str(error.hint)


def test_a_hub_whose_name_does_not_resolve_is_a_network_problem(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://nowhere.invalid")
    assert fails("hf:org/tasks", home).reason == "network"


def test_without_httpx_the_extra_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtra) as caught:
        pull("hf:org/tasks", home=home)
    assert caught.value.extra == "fetch"


def test_a_dataset_larger_than_the_disk_is_not_begun(tasks: Hub, home: Path) -> None:
    row = tasks.listing_of("README.md") | {"size": 1 << 60}
    tasks.faults[f"/api/datasets/org/tasks/tree/{COMMIT}"] = [Reply(body=json.dumps([row]).encode())]
    error = fails("hf:org/tasks", home)
    assert error.reason == "disk-full"
    assert not [path for path in tasks.paths() if "/resolve/" in path]


@pytest.mark.slow
def test_a_pull_that_is_killed_leaves_nothing_that_looks_complete_and_the_next_goes_on(tasks: Hub, home: Path) -> None:
    tasks.faults[resolve(BINARY)] = [Reply(body=LARGE, cut_after=600_000, held=True)]
    with start("hf:org/tasks", home) as victim:
        assert victim.stdout is not None
        steps = (map(int, line.split()) for line in victim.stdout)
        assert any(size > 100_000 and files == len(FILES) - 1 for size, files in steps)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
    assert find_pulled("hf:org/tasks", home=home) is None
    before = Counter(tasks.paths())
    assert files_in(pull("hf:org/tasks", home=home).path) == FILES
    again = Counter(tasks.paths()) - before
    resumed = [request.headers.get("Range") for request in tasks.requests if request.path == resolve(BINARY)]
    assert resumed[0] is None
    assert len(resumed) == 2
    assert int(str(resumed[1]).removeprefix("bytes=").rstrip("-")) > 0
    assert [path for path in again if "/resolve/" in path] == [resolve(BINARY)]
    assert not list(home.glob("datasets/*/.partial"))


@pytest.mark.slow
def test_pulls_of_the_same_dataset_at_the_same_time_fetch_it_once(tasks: Hub, home: Path) -> None:
    tasks.faults[resolve(BINARY)] = [Reply(body=LARGE, cut_after=10, held=True)]
    with start("hf:org/tasks", home) as first, start("hf:org/tasks", home) as second:
        assert tasks.reached.wait(30)
        tasks.released.set()
        paths = {process.communicate()[0].splitlines()[-1] for process in (first, second)}
    assert [first.returncode, second.returncode] == [0, 0]
    assert len(paths) == 1
    counted = Counter(path for path in tasks.paths() if "/resolve/" in path)
    assert counted.pop(resolve(BINARY)) == 2
    assert set(counted.values()) == {1}


def test_threads_that_pull_the_same_dataset_wait_for_each_other(tasks: Hub, home: Path) -> None:
    tasks.faults[resolve(BINARY)] = [Reply(body=LARGE, cut_after=10, held=True)]
    waiting = threading.Event()
    results: list[Path] = []

    def run() -> None:
        pulled = pull(
            "hf:org/tasks", home=home, progress=lambda step: waiting.set() if "waiting" in step.what else None
        )
        results.append(pulled.path)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert waiting.wait(30)
    tasks.released.set()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    assert len(set(results)) == 1
    assert tasks.paths().count(resolve("README.md")) == 1


@pytest.mark.slow
@pytest.mark.needs("user-namespaces", "unshare")
def test_a_disk_that_fills_up_while_a_file_comes_is_told_apart(tasks: Hub, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # The hub says too little, so that the disk fills while the file comes.
    row = tasks.listing_of(BINARY)
    tasks.files[BINARY] = LARGE * 4
    short = [row | {"lfs": row["lfs"]}, tasks.listing_of("README.md")]
    tasks.faults[f"/api/datasets/org/tasks/tree/{COMMIT}"] = [Reply(body=json.dumps(short).encode())]
    mount = f'mount -t tmpfs -o size=1500k none {disk} && exec "$@"'
    with start("hf:org/tasks", disk, "unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh") as process:
        _, said = process.communicate()
    assert said.startswith("disk-full: could not fetch hf:org/tasks: the disk is full"), said
