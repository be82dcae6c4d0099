"""What the sandbox tests share: the drivers, a shell, a tiny root file system."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from termarena.sandbox import Feature, Root
from termarena.sandbox.docker import DockerDriver
from termarena.sandbox.namespace import NamespaceDriver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.sandbox import Driver, ExecResult, Sandbox

T = TypeVar("T")

CONFORMANCE_ROOT = Root(kind="dockerfile", path=Path(__file__).with_name("conformance_image"))

DRIVERS: dict[str, Callable[[Path], Driver]] = {
    "namespace": lambda home: NamespaceDriver(home=home),
    "namespace-without-cgroups": lambda home: NamespaceDriver(home=home, allow_cgroups=False, allow_ranges=False),
    "namespace-on-disk": lambda home: NamespaceDriver(home=home, keep="disk"),
    "docker": lambda home: DockerDriver(home=home, default_root=CONFORMANCE_ROOT),
    "docker-from-afar": lambda home: DockerDriver(home=home, default_root=CONFORMANCE_ROOT, allow_local=False),
}
ONLY_ABOUT_FILES = {"namespace-on-disk"}
"""Drivers that differ from another one in nothing but where files are."""
ABOUT_FILES = ("test_conformance_files", "test_conformance_states")
MORE_ABOUT_FILES = (
    "test_folder_root",
    "test_sandboxes_do_not_see_each_other",
    "test_fork_of_an_archive_root",
    "test_list_shows_live_sandboxes",
    "test_stopped_mid_command",
    "test_memory_hog_is_killed_and_told",
    "test_setuid_does_nothing",
    "test_host_files_are_not_there",
    "test_no_device_nodes",
)
"""What is tried with them: modules, and tests of others."""
LARGE = ("test_ten_thousand_files", "test_hundred_megabytes")
"""What takes as long as the disk of a busy machine does; left out for them."""
ESCAPES = (
    "test_system_call_is_refused",
    "test_socket_family_is_refused",
    "test_terminal_injection_is_refused",
    "test_exec_marker_cannot_be_taken_off",
    "test_write_to_the_kernel_is_refused",
    "test_process_1_is_not_readable",
    "test_kernel_secrets_are_empty",
    "test_no_device_nodes",
    "test_process_1_cannot_be_killed_or_traced",
    "test_setuid_does_nothing",
    "test_the_sandboxs_root_is_not_the_hosts",
    "test_host_files_are_not_there",
    "test_command_line_of_process_1_names_no_host_path",
)
"""What the namespace driver refuses and an engine's defaults may not."""
FAR = "needs to see the container's processes through the kernel: "
EXCEPTIONS: dict[str, dict[str, Feature | str]] = {
    "namespace-on-disk": {"test_disk_full": "a watch holds the limit: test_on_disk.py"},
    "docker": {
        **dict.fromkeys(ESCAPES, "the walls of a container are its engine's: docs/docker.md says which"),
        "test_disk_full": Feature.DISK_LIMIT,
        "test_tree_into_a_full_disk": Feature.DISK_LIMIT,
        "test_files_full_of_holes": Feature.DISK_LIMIT,
    },
}
EXCEPTIONS["docker-from-afar"] = {
    **EXCEPTIONS["docker"],
    "test_exit_status_passes_through[137]": FAR + "an engine tells an end by signal 9 as the status 137",
    "test_daemon_outlives_its_command": FAR + "an engine closes a daemon's output two seconds after its command",
    "test_seal_of_a_frozen_sandbox_lets_nothing_run_again": FAR + "a shell in the container has to end the others",
    "test_network_of_named_hosts": Feature.NETWORK,
    "test_network_connect_is_checked_too": Feature.NETWORK,
    "test_network_public_spares_the_host": Feature.NETWORK,
    "test_a_gateway_is_the_only_way_out": Feature.NETWORK,
    "test_a_gateway_beside_named_hosts": Feature.NETWORK,
    "test_a_gateway_that_is_gone": Feature.NETWORK,
    "test_a_mounted_folder_is_seen_and_not_changed": FAR + "its containers see no folder of this machine",
}
if tuple(int(part) for part in os.uname().release.split(".")[:2]) < (6, 15):
    EXCEPTIONS["docker"]["test_exit_status_passes_through[137]"] = "the kernel tells how a process ended since 6.15"
"""What a driver does not promise, by test, with or without its parameters: a feature that it may lack, or why."""

SNAPSHOT_TIMES = {"docker": "%Y"}
"""How exact a file's time is in a snapshot, for `stat`: an engine's archives have whole seconds."""
NEEDS = {"docker": "docker", "docker-from-afar": "docker"}
"""The component that a driver cannot do without."""

TOOLS = ("sh", "ls", "cat", "true", "id", "echo", "mkdir", "rm", "ln", "chmod", "sleep", "touch", "mv", "chown")


async def sh(box: Sandbox, script: str, *, timeout_s: float | None = 30, user: str | None = None) -> ExecResult:
    """Run a script with the sandbox's shell."""
    return await box.exec(["/bin/sh", "-c", script], timeout_s=timeout_s, user=user)


async def out(box: Sandbox, script: str, *, user: str | None = None) -> str:
    """The output of a script that must succeed."""
    result = await sh(box, script, user=user)
    assert result.exit_status == 0, result
    return result.stdout.decode().strip()


READY = "/root/ready"


async def cut_off(box: Sandbox, run: Callable[[float], Awaitable[T]], *, timeout_s: float) -> T:
    """The result of a command that goes on until its time is over, which `run` is told. It makes `READY` when it has
    come as far as it is to come; where the machine was too busy for that, it is run again with more time.
    """
    result = await run(timeout_s)
    if timeout_s > 15 or (await box.exec(["test", "-e", READY])).exit_status == 0:
        return result
    return await cut_off(box, run, timeout_s=4 * timeout_s)


def has(driver: Driver, feature: Feature) -> bool:
    return feature in driver.capabilities().features


def make_rootfs(target: Path, *, more: tuple[str, ...] = ()) -> None:
    """Copy a few programs of this machine, and `more`, with the libraries they need."""
    (target / "bin").mkdir(parents=True)
    for tool in (*TOOLS, *more):
        source = shutil.which(tool)
        assert source is not None
        shutil.copy(source, target / "bin" / tool)
        listed = subprocess.run(["ldd", source], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607 - our own program with fixed arguments; a tool of the test machine
        for library in re.findall(r"(/\S+) \(0x", listed):
            copy = target / library.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists():
                shutil.copy(library, copy)
    (target / "etc").mkdir()
    (target / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nalice:x:1234:1234::/home/alice:/bin/sh\n")
    (target / "etc/motd").write_text("welcome\n")
    (target / "home/alice").mkdir(parents=True)


async def read_until(fd: int, expected: bytes) -> bytes:
    """Read a terminal until it has shown something; the test's own time limit ends a wait in vain."""
    loop = asyncio.get_running_loop()
    seen = b""
    while expected not in seen:
        ready = loop.create_future()
        loop.add_reader(fd, ready.set_result, None)
        try:
            await ready
        finally:
            loop.remove_reader(fd)
        seen += os.read(fd, 4096)
    return seen
