"""Forks whose system is as it was at the start, whatever an agent made of it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from sandbox.support import has, out, sh
from termarena.sandbox import Feature, Root, SandboxSpec

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox import Driver, Snapshot

FAKE = "printf '#!/bin/sh\\necho fake\\n' >%s.new && chmod 755 %s.new && mv -f %s.new %s"
CHANGES = "\n".join(
    (
        *(FAKE.replace("%s", path) for path in ("/usr/bin/cat", "/usr/local/bin/sort")),
        "rm -f /usr/bin/head",
        "echo /tmp/x.so >/etc/ld.so.preload.new; mv /etc/ld.so.preload.new /etc/ld.so.preload",
        "echo work >/root/work",
    )
)


@pytest.fixture
def pristine(driver: Driver) -> SandboxSpec:
    if not has(driver, Feature.PRISTINE_SYSTEM):
        pytest.skip(driver.capabilities().missing[Feature.PRISTINE_SYSTEM])
    return SandboxSpec(pristine_system=True)


async def _left_by(driver: Driver, script: str, what: SandboxSpec | Snapshot) -> Snapshot:
    """The state that a script leaves."""
    async with driver.start(what) as box:
        done = await sh(box, f"set -e; PATH=/usr/bin:/bin\n{script}")
        assert done.exit_status == 0, done
        await box.seal()
        return await box.snapshot()


async def test_what_was_made_of_the_system_is_hidden_and_the_work_is_there(
    driver: Driver, pristine: SandboxSpec
) -> None:
    snapshot = await _left_by(driver, CHANGES, SandboxSpec())
    async with driver.start(snapshot) as usual:
        assert await out(usual, "cat /root/work 2>/dev/null") == "fake"
    async with driver.start(snapshot, spec=pristine) as fork:
        assert await out(fork, "cat /root/work | head -n 1 | sort") == "work"
        assert await out(fork, "ls /etc/ld.so.preload /usr/local/bin/sort 2>/dev/null || echo none") == "none"
    snapshot.close()


async def test_the_system_of_such_a_fork_cannot_be_changed(driver: Driver, pristine: SandboxSpec) -> None:
    snapshot = await _left_by(driver, "echo work >/root/work", SandboxSpec())
    async with driver.start(snapshot, spec=pristine) as fork:
        done = await sh(fork, "echo x >/usr/bin/x || echo y >/bin/y || rm -f /usr/bin/cat")
        assert done.exit_status != 0
        assert b"Read-only" in done.stderr
        assert await out(fork, "echo more >>/root/work; cat /root/work") == "work\nmore"
    snapshot.close()


async def test_what_a_start_state_brought_is_part_of_the_system(driver: Driver, pristine: SandboxSpec) -> None:
    start = await _left_by(
        driver, "printf '#!/bin/sh\\necho real\\n' >/usr/local/bin/tool; chmod 755 /usr/local/bin/tool", SandboxSpec()
    )
    later = await _left_by(driver, FAKE.replace("%s", "/usr/local/bin/tool"), start)
    async with driver.start(later, spec=pristine) as fork:
        assert await out(fork, "/usr/local/bin/tool") == "real"
    start.close()
    later.close()


async def test_a_saved_state_has_its_system_too(driver: Driver, pristine: SandboxSpec, tmp_path: Path) -> None:
    snapshot = await _left_by(driver, CHANGES, SandboxSpec())
    await snapshot.save(tmp_path / "state")
    snapshot.close()
    loaded = driver.load(tmp_path / "state")
    async with driver.start(loaded, spec=pristine) as fork:
        assert await out(fork, "cat /root/work | head -n 1") == "work"
    loaded.close()


async def test_a_folder_of_the_system_that_became_a_link_is_a_folder_again(
    driver: Driver, pristine: SandboxSpec, rootfs: Path
) -> None:
    root = SandboxSpec(root=Root(kind="folder", path=rootfs), workdir="/")
    kept = "; ".join(f"mv /bin/{name} /evil/{name}" for name in ("sh", "rm", "ln"))
    turned = f"mkdir /evil; echo '#!/evil/sh' >/evil/cat; {kept}; /evil/rm -rf /bin; /evil/ln -s /evil /bin"
    snapshot = await _left_by(driver, turned, root)
    async with driver.start(snapshot, spec=root.model_copy(update={"pristine_system": True})) as fork:
        assert await out(fork, "cat /etc/motd; test -d /evil && test ! -L /bin && echo folder") == "welcome\nfolder"
    snapshot.close()
    assert pristine.pristine_system


STARTED = {
    "etc/ld.so.cache": "of the start",
    "etc/python3.99/sitecustomize.py": "of the start",
    "etc/alternatives/awk": "of the start",
    "etc/ssl/openssl.cnf": "of the start",
}


@pytest.fixture
def with_settings(rootfs: Path, tmp_path: Path) -> SandboxSpec:
    """A root whose /etc has files that decide what programs run, and that has no /usr."""
    root = tmp_path / "root"
    shutil.copytree(rootfs, root, symlinks=True)
    for path, text in STARTED.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
    (root / "shared").mkdir()
    (root / "shared" / "lib32.txt").write_text("of the start\n")
    (root / "lib32").symlink_to("shared")
    return SandboxSpec(root=Root(kind="folder", path=root), workdir="/")


@pytest.mark.parametrize(
    "made",
    [
        "for path in %s; do echo bent >/$path; done",
        "rm -rf /etc",
        "rm -rf /etc; ln -s /nowhere /etc",
        "rm -rf /etc; echo file >/etc",
        "rm -rf /etc; ln -s /bin /etc",
        "mkdir /elsewhere; rm -rf /etc; ln -s elsewhere /etc",
        "rm -rf /etc/ssl /etc/alternatives; ln -s /nowhere /etc/ssl; echo file >/etc/alternatives",
    ],
)
@pytest.mark.usefixtures("pristine")
async def test_settings_that_decide_what_runs_are_those_of_the_start_whatever_stands_in_their_way(
    driver: Driver, with_settings: SandboxSpec, made: str
) -> None:
    snapshot = await _left_by(driver, made.replace("%s", " ".join(STARTED)), with_settings)
    async with driver.start(snapshot, spec=with_settings.model_copy(update={"pristine_system": True})) as fork:
        for path, text in STARTED.items():
            assert await out(fork, f"cat /{path}") == text
    snapshot.close()


@pytest.mark.usefixtures("pristine")
async def test_what_the_start_had_not_is_not_there_either(driver: Driver, with_settings: SandboxSpec) -> None:
    musl = f"/etc/ld-musl-{os.uname().machine}.path"
    files = ("/usr/local/bin/cat", "/etc/perl/strict.pm", musl)
    made = f"mkdir -p /usr/local/bin /etc/perl; for path in {' '.join(files)}; do echo bent >$path; done"
    links = "echo bent >/shared/lib32.txt; ln -s /evil /lib64 || true"
    folder = "rm -f /etc/ld.so.cache; mkdir -p /etc/ld.so.cache/deep /etc/ld.so.preload"
    snapshot = await _left_by(driver, f"{made}; {links}; {folder}", with_settings)
    async with driver.start(snapshot, spec=with_settings.model_copy(update={"pristine_system": True})) as fork:
        assert (
            await out(fork, f"for path in /usr/* /etc/perl/* {musl}; do test -e $path && echo $path; done; echo end")
            == "end"
        )
        assert await out(fork, "cat /lib32/lib32.txt") == "of the start"
    snapshot.close()
