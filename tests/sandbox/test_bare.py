"""The start state of a task from its bare recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from termarena.core.errors import CapabilityMissing, TaskError, UsageError
from termarena.sandbox.bare import bare_spec, prepare_bare
from termarena.tasks.files import FileTree, TreeFile
from termarena.tasks.model import BareRecipe, Environment, NetworkPolicy

if TYPE_CHECKING:
    from termarena.sandbox import Driver

SETUP = b'#!/bin/sh\nset -e\ncp "$(dirname "$0")/files/a" /app/a\npwd > /app/where\n'


def _environment(setup: bytes = SETUP, requires: tuple[str, ...] = ("sh",)) -> Environment:
    files = FileTree.of([TreeFile.inline("setup.sh", setup), TreeFile.inline("files/a", b"content")])
    recipe = BareRecipe(requires=requires, setup="setup.sh")
    return Environment(context=files, bare=recipe, network=NetworkPolicy(mode="none"), env={"KEY": "${OURS:-x}"})


async def test_start_state(driver: Driver) -> None:
    environment = _environment()
    async with driver.start(bare_spec(environment, variables={"OURS": "value"})) as box:
        await prepare_bare(box, environment)
        assert await box.read("/app/a") == b"content"
        where = (await box.read("/app/where")).decode().strip()
        assert where.startswith("/tmp/environment")  # noqa: S108 - inside the sandbox
        assert (await box.exec(["test", "-e", where])).exit_status == 1
        assert (await box.exec(["printenv", "KEY"])).stdout == b"value\n"


async def test_what_cannot_be_prepared(driver: Driver) -> None:
    async with driver.start(bare_spec(_environment())) as box:
        with pytest.raises(TaskError, match="status 3: no luck"):
            await prepare_bare(box, _environment(b"echo no luck >&2; exit 3\n"))
        with pytest.raises(CapabilityMissing, match="no-such-tool, another"):
            await prepare_bare(box, _environment(requires=("sh", "no-such-tool", "another")))


def test_what_cannot_be_started() -> None:
    with pytest.raises(CapabilityMissing, match="an image"):
        bare_spec(Environment())
    with pytest.raises(UsageError, match="TOKEN"):
        bare_spec(Environment(bare=BareRecipe(requires=()), env={"A": "${TOKEN}"}), variables={})
