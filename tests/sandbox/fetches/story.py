"""The command line with a network that is only its own: a task is recorded, the servers end, and it is run again.

Runs in a network namespace of its own, where an address that looks like the world's lies on loopback. Prints JSON.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from running import termarena
from sandbox.fetches.internet import Internet, serving
from sandbox.images.making import tar_of_folder
from sandbox.support import make_rootfs

PLACE = "203.0.113.9"
TASK = """
version = "1.0"
[metadata]
author_name = "t"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
[environment]
"""
SOLUTION = """#!/bin/sh
test ! -e /dev/termarena-ca.crt && test -z "$SSL_CERT_FILE" && cat /tool /data > /answer
"""
TESTS = """#!/bin/sh
mkdir -p /logs/verifier; curl -fsS -o /tmp/check https://{https}/check || exit 1
if [ "$(cat /answer)" = "$(cat /tmp/check)" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def make_task(folder: Path, internet: Internet) -> None:
    for part in ("environment", "solution", "tests"):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(TASK)
    (folder / "instruction.md").write_text("Join what was downloaded into /answer.\n")
    recipe = (
        f"FROM base:1\nRUN curl -fsS -o /tool https://{internet.https}/tool\nADD http://{internet.http}/data /data\n"
    )
    (folder / "environment/Dockerfile").write_text(recipe)
    (folder / "solution/solve.sh").write_text(SOLUTION)
    (folder / "tests/test.sh").write_text(TESTS.format(https=internet.https))


COMPOSED = """
services:
  main: {depends_on: {web: {condition: service_healthy}}}
  web:
    image: base:1
    command: [/bin/busybox, httpd, -f, -p, "8000", -h, /etc]
    healthcheck: {test: [CMD, curl, -fs, "http://localhost:8000/motd"], interval: 1s}
"""
COMPOSED_TESTS = """#!/bin/sh
mkdir -p /logs/verifier; curl -fsS -o /tmp/check https://{https}/check || exit 1
# By its name as every client does, and as one that asks the proxy for everything.
curl -fsS http://web:8000/motd > /tmp/one && curl -fsS --noproxy '' http://web:8000/motd > /tmp/two || exit 1
[ "$(cat /answer /tmp/one)" = "$(cat /tmp/check /tmp/two)" ] && result=1
echo ${{result:-0}} > /logs/verifier/reward.txt
"""


def make_composed(folder: Path, internet: Internet) -> None:
    """The same task with a service beside it."""
    make_task(folder, internet)
    (folder / "environment/docker-compose.yaml").write_text(COMPOSED)
    (folder / "tests/test.sh").write_text(COMPOSED_TESTS.format(https=internet.https))


class Story:
    """The commands, and what they said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: dict[str, Any] = {}

    def tell(self, title: str, home: str, *words: str) -> None:
        variables = {"TERMARENA_HOME": str(self.folder / home), "SSL_CERT_FILE": str(self.folder / "trusted.crt")}
        done = termarena(*words, "--json", cwd=self.folder, env=variables)
        told = done.stdout or done.stderr.strip().splitlines()[-1]
        self.said[title] = {"status": done.returncode, "told": json.loads(told), "talk": done.stderr[-2000:]}

    def run(self, title: str, home: str, agent: str, *words: str, task: str = "task") -> None:
        common = ("--path", task, "--agent", agent, "--retry", "0", "--out", title)
        self.tell(title, home, "run", *common, *words)
        results = list((self.folder / title).glob("trials/*/*/result.json"))
        self.said[title]["result"] = json.loads(results[0].read_text()) if results else None


def main(folder: Path) -> None:
    """All of it."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)  # noqa: S607 - a tool of the test machine
    subprocess.run(["ip", "addr", "add", f"{PLACE}/32", "dev", "lo"], check=True)  # noqa: S603, S607 - as above
    make_rootfs(folder / "rootfs", more=("curl", "cat"))
    shutil.copy("/bin/busybox", folder / "rootfs/bin")
    (folder / "rootfs.tar").write_bytes(tar_of_folder(folder / "rootfs"))
    story = Story(folder)
    # Only where it is recorded: a replay has the image from the recording.
    story.tell("map", "first", "images", "map", "base:1", "rootfs.tar")
    with serving(folder, PLACE) as internet:
        internet.files = {"/tool": b"tool ", "/data": b"data\n", "/check": b"tool data\n"}
        make_task(folder / "task", internet)
        story.run("recorded", "first", "oracle", "--record-fetches")
        build = ("images", "build", "task/environment", "--tag", "t:1")
        story.tell("build recorded", "first", *build, "--record-fetches=kept")
        story.said["asked"] = list(internet.asked)
        make_composed(folder / "composed", internet)
        story.run("composed recorded", "first", "oracle", "--record-fetches", task="composed")
        story.said["asked by composed"] = internet.asked[len(story.said["asked"]) :]
    story.run("replayed", "second", "oracle", "--replay-fetches")
    story.run("replayed live", "second", "oracle", "--replay-fetches", "--grading", "live")
    story.run("replayed nop", "second", "nop", "--replay-fetches")
    story.tell("build replayed", "second", *build, "--no-cache", "--replay-fetches=kept")
    story.run("composed replayed", "second", "oracle", "--replay-fetches", task="composed")
    (folder / "composed/fetches/images.json").unlink()
    story.run("no image", "third", "oracle", "--replay-fetches", task="composed")
    recipe = folder / "task/environment/Dockerfile"
    recipe.write_text(recipe.read_text().replace("/tool https", "/tool -f https").replace("/tool\nADD", "/other\nADD"))
    story.run("missing", "second", "oracle", "--replay-fetches")
    story.tell("both", "first", *build, "--record-fetches", "--replay-fetches")
    print(json.dumps(story.said))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(Path(sys.argv[1]))
