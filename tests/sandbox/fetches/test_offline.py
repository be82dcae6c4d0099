"""Record with a network, replay without one: through the command line, as somebody would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STORY = Path(__file__).with_name("story.py")
PATIENCE_S = 300


@pytest.mark.needs("user-namespaces", "unshare", "ip", "curl", "busybox")
@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own takes root here")
def test_a_task_that_was_recorded_runs_without_a_network(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own words
        ["unshare", "--net", sys.executable, str(STORY), str(tmp_path)],  # noqa: S607 - a tool of the test machine
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    recorded, replayed, nop, missing = (said[name] for name in ("recorded", "replayed", "replayed nop", "missing"))

    assert recorded["told"]["solved"] == 1, recorded
    assert (recorded["result"]["sandbox"]["fetches"], recorded["told"]["driver"]) == ("recorded", "namespace")
    kept = json.loads((tmp_path / "task/fetches/fetches.json").read_text())["entries"]
    assert sorted(entry["url"].rpartition("/")[2] for entry in kept) == ["check", "data", "tool"]
    assert said["asked"].count("GET /check") == 1

    assert replayed["told"]["solved"] == 1, replayed
    assert replayed["result"]["sandbox"]["fetches"] == "replayed"
    assert "replayed_fetches" in [one["reason"] for one in replayed["told"]["not_ranked"]]
    assert replayed["result"]["task_digest"] == recorded["result"]["task_digest"]
    live = said["replayed live"]
    assert (live["told"]["solved"], live["result"]["verdict"]["graded_in"]) == (1, "live"), live
    assert (nop["told"]["unsolved"], nop["told"]["unscored"]) == (1, 0), nop

    assert missing["told"]["unscored"] == 1, missing
    detail = missing["result"]["fault_detail"]
    assert (detail["kind"], missing["result"]["fault"], detail["is_retriable"]) == ("FetchNotRecorded", "infra", False)
    assert "/other" in detail["message"]

    for title in ("composed recorded", "composed replayed"):
        assert said[title]["told"]["solved"] == 1, said[title]
    assert sorted(said["asked by composed"]) == ["GET /check", "GET /data", "GET /tool"]
    urls = [entry["url"] for entry in json.loads((tmp_path / "composed/fetches/fetches.json").read_text())["entries"]]
    assert not any("web" in url for url in urls)
    blamed = said["no image"]["result"]["fault_detail"]
    assert (blamed["kind"], "docker.io/library/base:1" in blamed["message"]) == ("FetchNotRecorded", True), blamed

    assert said["build recorded"]["status"] == 0, said["build recorded"]
    assert said["build replayed"]["status"] == 0, said["build replayed"]
    assert not said["build replayed"]["told"]["was_cached"]
    assert said["both"]["status"] == 2
