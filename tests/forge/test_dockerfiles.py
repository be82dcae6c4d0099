"""The Dockerfiles of made tasks build, with packages from the distribution, and their solutions solve them there."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from running import termarena
from support.sessions import SHORT, command, session
from termarena.core.errors import RecordingRefused
from termarena.forge.bench import Bench
from termarena.forge.making import Making, MakingConfig
from termarena.forge.taskfiles import write_task
from termarena.forge.testing import files_of_tests
from termarena.sandbox.drivers import open_driver
from termarena.tasks import load_task

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.needs("docker"), pytest.mark.needs("user-namespaces"), pytest.mark.needs("jq")]
PEOPLE = command("cat people.json", '[{"name": "zoe", "age": 3}, {"name": "anna", "age": 7}]\n')
SESSIONS = (
    session("Names", PEOPLE, "jq -r '.[].name' people.json | sort > names.txt"),
    session("Ages", PEOPLE, "mkdir out", "jq 'map(.age) | add' people.json > out/total.txt", "chmod 600 out/total.txt"),
)
# The engine's own base is at hand without a registry.
CONFIG = MakingConfig(base_image="debian:bookworm", screen=SHORT)


@pytest.fixture
async def tasks(tmp_path: Path) -> Path:
    """Two tasks that need a package which the base image does not have."""
    driver = open_driver("namespace", home=tmp_path / "home")
    try:
        async with Bench(driver) as bench:
            for number, transcript in enumerate(SESSIONS):
                making = Making(transcript, bench, tmp_path / f"work-{number}", CONFIG)
                facts = await making.test()
                draft = making.draft
                assert draft is not None
                folder, tests = tmp_path / "tasks" / draft.id, files_of_tests(draft, facts)
                write_task(draft, folder, instruction="Do it.\n", tests=tests, measured={})
                recipe = (folder / "environment" / "Dockerfile").read_text()
                assert recipe.startswith("FROM debian:bookworm\nRUN apt-get update && apt-get install -y ")
                assert " jq python3 " in recipe
    finally:
        await driver.aclose()
    return tmp_path / "tasks"


def _run(tasks: Path, driver: str) -> dict[str, int]:
    env = {"TERMARENA_HOME": str(tasks.parent / "home")}
    solved = {}
    for agent in ("oracle", "nop"):
        words = ("run", "--path", str(tasks), "--agent", agent, "--driver", driver, "--json")
        done = termarena(*words, env=env, cwd=tasks.parent)
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["unscored"] == 0, report
        solved[agent] = report["solved"]
    return solved


@pytest.mark.timeout(600)
def test_made_tasks_build_and_are_solved_in_containers(tasks: Path) -> None:
    assert _run(tasks, "docker") == {"oracle": 2, "nop": 0}


@pytest.mark.soak
def test_made_tasks_build_without_an_engine(tasks: Path, tmp_path: Path) -> None:
    env = {"TERMARENA_HOME": str(tmp_path / "home")}
    archive = tmp_path / "base.tar"
    subprocess.run(["docker", "save", "-o", archive, "debian:bookworm"], check=True)  # noqa: S603, S607 - the test's own engine
    assert termarena("images", "map", "debian:bookworm", str(archive), env=env, cwd=tmp_path).returncode == 0
    for folder in sorted(tasks.iterdir()):
        built = termarena("images", "build", str(folder / "environment"), "--tag", "made:1", env=env, cwd=tmp_path)
        assert built.returncode == 0, built.stderr


@pytest.mark.soak
async def test_a_session_with_a_program_that_is_not_here_is_made_on_its_image(tmp_path: Path) -> None:
    program = next(name for name in ("toilet", "dos2unix", "figlet") if shutil.which(name) is None)
    words = {"toilet": "toilet -f term hello", "dos2unix": "printf 'hello\\r\\n' | dos2unix", "figlet": "figlet hello"}
    strange = session("Strange", f"{words[program]} > out.txt", "cp out.txt again.txt")
    archive, home = tmp_path / "base.tar", tmp_path / "home"
    subprocess.run(["docker", "save", "-o", archive, "debian:bookworm"], check=True)  # noqa: ASYNC221, S603, S607 - as above
    mapped = termarena(
        "images", "map", "debian:bookworm", str(archive), env={"TERMARENA_HOME": str(home)}, cwd=tmp_path
    )
    assert mapped.returncode == 0, mapped.stderr
    driver = open_driver("namespace", home=home)
    try:
        async with Bench(driver) as bench:
            with pytest.raises(RecordingRefused, match="build_images = true"):
                await Making(strange, bench, tmp_path / "no", CONFIG).reproduce()
            config = CONFIG.model_copy(update={"build_images": True})
            folder = await Making(strange, bench, tmp_path / "yes", config).make(tmp_path / "out")
    finally:
        await driver.aclose()
    assert program in (folder / "environment" / "Dockerfile").read_text()
    assert load_task(folder).environment.bare is None
