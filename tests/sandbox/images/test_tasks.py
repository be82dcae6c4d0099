"""Tasks that name an image, on the embedded sandbox."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from running import termarena
from sandbox.images.making import MadeImage, entry, tar_of
from sandbox.support import out
from termarena.core.scrub import Scrubber
from termarena.proof.leaks import prove_no_leaks
from termarena.proof.ledger import Ledger
from termarena.proof.stand import Bench, Stand
from termarena.sandbox.staging import Stage
from termarena.tasks import load_task
from termarena.tasks.model import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox.images import ImageShelf

TASK = """
version = "1.0"
[metadata]
author_name = "t"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 60.0
[environment]
docker_image = "tests/task:1"
"""


async def test_the_start_state_of_an_image(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    archive = tmp_path / "saved.tar"
    archive.write_bytes(MadeImage([root_layer, tar_of(entry("app/here", b"x"))], {"WorkingDir": "/app"}).saved("t/a:1"))
    image = await shelf.import_archive(archive)
    stage = Stage(shelf.driver)
    state = await stage.prepare(Environment(image="t/a:1", env={"WORD": "said"}), folder=tmp_path, task="t")
    assert (state.image_digest, state.digest) == (image.id, image.config.files_digest)
    assert not state.is_host_root
    async with state.start() as box:
        assert await out(box, "pwd; ls; echo $WORD") == "/app\nhere\nsaid"
        await box.write("/app/more", b"y")
        assert (await box.diff()).of("added") == ("/app/more",)
    async with state.start() as box:
        assert await out(box, "ls") == "here"
    await stage.aclose()


async def test_what_a_later_layer_hides_is_found_in_the_one_below(
    shelf: ImageShelf, tmp_path: Path, root_layer: bytes
) -> None:
    make_task(tmp_path / "task")
    solution = (tmp_path / "task/solution/solve.sh").read_bytes()
    layers = [root_layer, tar_of(entry("app/notes", solution)), tar_of(entry("app/.wh.notes", b""))]
    archive = tmp_path / "saved.tar"
    archive.write_bytes(MadeImage(layers, {"WorkingDir": "/app"}).saved("tests/task:1"))
    await shelf.import_archive(archive)
    stage = Stage(shelf.driver)
    bench = Bench(shelf.driver, stage, Scrubber.from_environment({}), asyncio.Semaphore(1))
    found = await prove_no_leaks(Stand(load_task(tmp_path / "task"), bench, Ledger(None)), None)
    await stage.aclose()
    assert found.layers >= 3
    assert [(leak.kind, leak.where) for leak in found.leaks] == [("solution", "/app/notes")]


def make_task(folder: Path) -> None:
    (folder / "tests").mkdir(parents=True)
    (folder / "solution").mkdir()
    (folder / "environment").mkdir()
    (folder / "task.toml").write_text(TASK)
    (folder / "instruction.md").write_text("Write `done` to /answer.\n")
    (folder / "solution/solve.sh").write_text("#!/bin/sh\necho done > /answer\n")
    check = '#!/bin/sh\nmkdir -p /logs/verifier; case "$(cat /answer)" in done) echo 1;; *) echo 0;; esac > $REWARD\n'
    check = check.replace("$REWARD", "/logs/verifier/reward.txt")
    (folder / "tests/test.sh").write_text(check)


def test_a_run_on_a_substitute_is_solved_and_not_ranked(tmp_path: Path, root_tar: Path) -> None:
    env = {"TERMARENA_HOME": str(tmp_path / "home"), "DOCKER_HOST": "unix:///nowhere.sock"}
    make_task(tmp_path / "task")
    done = termarena("images", "map", "tests/task:1", str(root_tar), "--json", env=env, cwd=tmp_path)
    assert [one["name"] for one in json.loads(done.stdout)["entries"]] == ["docker.io/tests/task:1"]
    for agent, solved in (("oracle", 1), ("nop", 0)):
        done = termarena("run", "--path", "task", "--agent", agent, "--json", env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["solved"] == solved, report
        assert report["unscored"] == 0
        assert "substitutes" in [one["reason"] for one in report["not_ranked"]]


def test_mistakes_on_the_command_line_are_told(tmp_path: Path) -> None:
    env = {"TERMARENA_HOME": str(tmp_path / "home")}
    exported = termarena("images", "export", "any:1", "no/where.tar", env=env, cwd=tmp_path)
    assert (exported.returncode, "no folder is at no" in exported.stderr) == (2, True)
    built = termarena("images", "build", ".", "--tag", "x:1", env=env, cwd=tmp_path)
    assert (built.returncode, "no Dockerfile is in ." in built.stderr, "--file" in built.stderr) == (2, True, True)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    built = termarena("images", "build", ".", "--tag", "x:1", "--secret", "token", env=env, cwd=tmp_path)
    assert (built.returncode, "write --secret ID=FILE" in built.stderr) == (2, True)
