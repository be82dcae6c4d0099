"""The command line with a network that is only its own: a task is recorded, the servers end, and it is run again.

Runs in a network namespace of its own, where an address that looks like the world's lies on loopback. Prints JSON.
"""

from __future__ import annotations

import json
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

    def run(self, title: str, home: str, agent: str, *words: str) -> None:
        driver = ("--driver", "namespace", "--retry", "0", "--out", title)
        self.tell(title, home, "run", "--path", "task", "--agent", agent, *driver, *words)
        results = list((self.folder / title).glob("trials/*/*/result.json"))
        self.said[title]["result"] = json.loads(results[0].read_text()) if results else None


def main(folder: Path) -> None:
    """All of it."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)  # noqa: S607 - a tool of the test machine
    subprocess.run(["ip", "addr", "add", f"{PLACE}/32", "dev", "lo"], check=True)  # noqa: S603, S607 - as above
    make_rootfs(folder / "rootfs", more=("curl", "cat"))
    (folder / "rootfs.tar").write_bytes(tar_of_folder(folder / "rootfs"))
    story = Story(folder)
    for home in ("first", "second"):
        story.tell(f"map {home}", home, "images", "map", "base:1", "rootfs.tar")
    with serving(folder, PLACE) as internet:
        internet.files = {"/tool": b"tool ", "/data": b"data\n", "/check": b"tool data\n"}
        make_task(folder / "task", internet)
        story.run("recorded", "first", "oracle", "--record-fetches")
        build = ("images", "build", "task/environment", "--tag", "t:1")
        story.tell("build recorded", "first", *build, "--record-fetches=kept")
        story.said["asked"] = internet.asked
    story.run("replayed", "second", "oracle", "--replay-fetches")
    story.run("replayed live", "second", "oracle", "--replay-fetches", "--grading", "live")
    story.run("replayed nop", "second", "nop", "--replay-fetches")
    story.tell("build replayed", "second", *build, "--no-cache", "--replay-fetches=kept")
    recipe = folder / "task/environment/Dockerfile"
    recipe.write_text(recipe.read_text().replace("/tool https", "/tool -f https").replace("/tool\nADD", "/other\nADD"))
    story.run("missing", "second", "oracle", "--replay-fetches")
    story.tell("both", "first", *build, "--record-fetches", "--replay-fetches")
    print(json.dumps(story.said))  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(Path(sys.argv[1]))
