"""Old `host` roots go; the newest one, and whatever a living driver holds, stays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.namespace.hostbases import hold, prune

if TYPE_CHECKING:
    from pathlib import Path


def made(store: Path, key: str, *, at: int) -> None:
    """A root as a driver leaves it, with a folder that forbids its removal."""
    for name in (f"host-{key}", f"host-usr-{key}"):
        (store / name / "closed").mkdir(parents=True)
        (store / name / "closed").chmod(0)
        os.utime(store / name, (at, at))


def keys(store: Path) -> set[str]:
    return {path.name.removeprefix("host-usr-") for path in store.glob("host-usr-*")}


def test_old_roots_that_nobody_holds_are_removed(tmp_path: Path) -> None:
    for at, key in enumerate(("oldest", "held", "newest"), 1):
        made(tmp_path, key, at=at)
    first, second = hold(tmp_path, "held"), hold(tmp_path, "held")
    assert prune(tmp_path) == 1
    os.close(first)
    assert prune(tmp_path) == 0
    assert keys(tmp_path) == {"held", "newest"}
    os.close(second)
    assert prune(tmp_path) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"host-newest", "host-usr-newest"}
    os.close(hold(tmp_path, "newest"))
    assert prune(tmp_path) == 0


def test_sandbox_prune_removes_old_roots(tmp_path: Path) -> None:
    for at, key in enumerate(("a", "b"), 1):
        made(tmp_path / "rootfs", key, at=at)
    assert NamespaceDriver(home=tmp_path).sweep() == 0
    assert keys(tmp_path / "rootfs") == {"b"}


async def test_a_start_removes_old_roots_and_no_other_driver_takes_the_one_in_use(tmp_path: Path) -> None:
    store = tmp_path / "rootfs"
    made(store, "old", at=1)
    async with NamespaceDriver(home=tmp_path) as driver, driver.start(SandboxSpec(root=Root())) as box:
        (key,) = keys(store)
        assert key != "old"
        made(store, "newer", at=4_000_000_000)
        NamespaceDriver(home=tmp_path).sweep()
        assert keys(store) == {key, "newer"}
        assert (await box.exec(["cat", "/etc/hostname"])).stdout == b"sandbox\n"
    NamespaceDriver(home=tmp_path).sweep()
    assert keys(store) == {"newer"}
