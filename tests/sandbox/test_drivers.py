"""Drivers by name, and which one is right for a task here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import CapabilityMissing, NotFound
from termarena.sandbox import drivers
from termarena.sandbox.drivers import AUTO, DRIVERS, choose_driver, open_driver
from termarena.tasks.model import BareRecipe, Environment

if TYPE_CHECKING:
    from pathlib import Path

BARE = BareRecipe(requires=("sh",))
NO_TOOL = BareRecipe(requires=("sh", "no-such-tool"))


@pytest.mark.parametrize("name", DRIVERS)
def test_every_driver_is_called_what_it_says(name: str, tmp_path: Path) -> None:
    assert open_driver(name, home=tmp_path, run_id="r", on_log=print).name == name
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is: namespace, docker"):
        open_driver("magic")
    with pytest.raises(NotFound, match="auto"):
        choose_driver("magic", Environment(), home=tmp_path)


def test_what_was_asked_for_is_not_questioned(tmp_path: Path) -> None:
    assert choose_driver("docker", Environment(bare=BARE), home=tmp_path).name == "docker"


@pytest.mark.needs("user-namespaces")
def test_a_recipe_runs_on_the_embedded_sandbox(tmp_path: Path) -> None:
    choice = choose_driver(AUTO, Environment(bare=BARE, image="debian:bookworm"), home=tmp_path)
    assert choice.name == "namespace"
    assert "recipe" in choice.why


@pytest.mark.needs("docker")
def test_otherwise_a_container_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = choose_driver(AUTO, Environment(image="debian:bookworm"), home=tmp_path)
    assert choice == ("docker", "the task needs an image: it has no recipe for a plain root file system")
    choice = choose_driver(AUTO, Environment(bare=NO_TOOL, image="debian:bookworm"), home=tmp_path)
    assert (choice.name, choice.why.split(",")[0]) == ("docker", "this machine lacks no-such-tool")
    monkeypatch.setattr(drivers, "_kernel_problem", lambda _: "the embedded sandbox does not work here: no")
    assert choose_driver(AUTO, Environment(bare=BARE, image="debian:bookworm"), home=tmp_path).name == "docker"


@pytest.mark.needs("user-namespaces")
def test_without_an_engine_the_embedded_sandbox_gets_images_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    choice = choose_driver(AUTO, Environment(image="debian:bookworm"), home=tmp_path)
    assert choice.name == "namespace"
    assert choice.why.startswith("no container engine answers")


def test_nothing_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(CapabilityMissing, match="an image") as caught:
        choose_driver(AUTO, Environment(compose="compose.yaml"), home=tmp_path)
    assert "termarena doctor --docker" in str(caught.value.hint)
    with pytest.raises(CapabilityMissing, match="no-such-tool") as caught:
        choose_driver(AUTO, Environment(bare=NO_TOOL), home=tmp_path)
    assert "termarena doctor" in str(caught.value.hint)
