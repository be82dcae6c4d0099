"""Tasks that name an image, on the embedded sandbox."""

from __future__ import annotations

import asyncio
import json
import tarfile
from pathlib import Path

import pytest

from running import termarena
from sandbox.images.making import MadeImage, entry, tar_of
from sandbox.support import out
from termarena.cli.main import main
from termarena.core.errors import ImageError
from termarena.core.scrub import Scrubber
from termarena.proof.leaks import prove_no_leaks
from termarena.proof.ledger import Ledger
from termarena.proof.stand import Bench, Stand
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import ImageShelf
from termarena.sandbox.images.config import digest_of, this_architecture
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.staging import Stage
from termarena.tasks import load_task
from termarena.tasks.model import Environment

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


async def test_what_a_driver_built_or_found_is_looked_at_again(
    shelf: ImageShelf, tmp_path: Path, root_layer: bytes
) -> None:
    async def keep(word: bytes) -> None:
        (tmp_path / "saved.tar").write_bytes(MadeImage([root_layer, tar_of(entry("word", word))]).saved("t/a:1"))
        await shelf.import_archive(tmp_path / "saved.tar")

    async def words() -> list[str]:
        found = []
        for root in (Root(kind="image", image="t/a:1"), Root(kind="dockerfile", path=tmp_path / "context")):
            prepared = await shelf.driver.prepare(SandboxSpec(root=root))
            async with shelf.driver.start(prepared.spec) as box:
                found.append(await out(box, "cat /word"))
        return found

    await keep(b"one")
    (tmp_path / "context").mkdir()
    (tmp_path / "context/Dockerfile").write_text("FROM t/a:1\nCOPY word /word\n")
    (tmp_path / "context/word").write_text("first")
    assert await words() == ["one", "first"]
    await keep(b"two")
    (tmp_path / "context/word").write_text("second")
    assert await words() == ["two", "second"]


async def test_an_archive_of_several_images_asks_which(shelf: ImageShelf, tmp_path: Path, root_layer: bytes) -> None:
    images = [MadeImage([root_layer], {"Env": [f"WORD={word}"]}) for word in ("one", "two")]
    configs = [image.config_json() for image in images]
    manifest = [
        {"Config": f"{number}.json", "RepoTags": [f"t/a:{number}"], "Layers": ["layer.tar"]} for number in (0, 1)
    ]
    members = [entry(f"{number}.json", config) for number, config in enumerate(configs)]
    archive = tmp_path / "saved.tar"
    document = entry("manifest.json", json.dumps(manifest).encode())
    archive.write_bytes(tar_of(document, entry("layer.tar", root_layer), *members))
    for name in (None, "t/other:1"):
        with pytest.raises(ImageError, match="holds 2 images: t/a:0, t/a:1"):
            await shelf.import_archive(archive, name=name)
    assert (await shelf.import_archive(archive, name="t/a:1")).config.environment == {"WORD": "two"}


async def test_of_an_archive_for_several_machines_this_ones_image_is_taken(
    shelf: ImageShelf, tmp_path: Path, root_layer: bytes
) -> None:
    def layout(*architectures: str) -> bytes:
        blobs, rows = {}, []
        for architecture in architectures:
            image = MadeImage([root_layer], {"Env": [f"FOR={architecture}"]}, architecture=architecture)
            for content in (image.config_json(), image.manifest(), *image.packed()):
                blobs[digest_of(content)] = content
            platform = {"os": "linux", "architecture": architecture}
            rows.append({"digest": digest_of(image.manifest()), "platform": platform})
        inner = json.dumps({"schemaVersion": 2, "manifests": rows}).encode()
        blobs[digest_of(inner)] = inner
        index = json.dumps({"manifests": [{"digest": digest_of(inner)}]}).encode()
        files = [entry(f"blobs/{digest.replace(':', '/')}", content) for digest, content in blobs.items()]
        return tar_of(entry("oci-layout", b"{}"), entry("index.json", index), *files)

    archive = tmp_path / "oci.tar"
    archive.write_bytes(layout("elsewhere", this_architecture()))
    image = await shelf.import_archive(archive, name="t/a:1")
    assert image.config.environment == {"FOR": this_architecture()}
    archive.write_bytes(layout("elsewhere"))
    with pytest.raises(ImageError, match=f"none for linux/{this_architecture()}"):
        await shelf.import_archive(archive, name="t/a:2")


async def test_a_home_may_be_told_from_where_one_is(
    tmp_path: Path, root_tar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with NamespaceDriver(home=Path("home")) as driver:
        held = ImageShelf(driver, tmp_path / "home")
        await held.import_archive(root_tar, name="t/a:1")
        async with driver.start(SandboxSpec(root=Root(kind="image", image="t/a:1"))) as box:
            assert await out(box, "echo here") == "here"
        held.close()


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("pull UPPER", "is no name of an image"),
        ("import root.tar --name UPPER", "is no name of an image"),
        ("build . --tag UPPER", "is no name of an image"),
        ("export UPPER out.tar", "is no name of an image"),
        ("prune UPPER", "is no name of an image"),
        ("map UPPER root.tar", "is no name of an image"),
        ("import nope.tar", "no file is at nope.tar"),
        ("build . --tag x:1 --step-disk much", "much is no size"),
    ],
)
def test_what_cannot_be_meant_is_a_mistake_of_the_command_line(
    words: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERMARENA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    assert main(["images", *words.split()]) == 2
    assert told in capsys.readouterr().err


def test_devices_that_were_left_out_are_told(tmp_path: Path) -> None:
    env = {"TERMARENA_HOME": str(tmp_path / "home")}
    members = (entry("bin/tool", b"x"), entry("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3))
    (tmp_path / "root.tar").write_bytes(tar_of(*members))
    done = termarena("images", "import", "root.tar", "--name", "t:1", env=env, cwd=tmp_path)
    assert (done.returncode, "were left out: dev/null" in done.stderr) == (0, True), done.stderr
    listed = termarena("images", "list", "--json", env=env, cwd=tmp_path)
    assert [image["left_out"] for image in json.loads(listed.stdout)["images"]] == [["dev/null"]]
