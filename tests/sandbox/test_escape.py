"""Ways out of a sandbox, each tried from inside as its root; each is refused."""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sandbox.support import out, sh
from termarena.core.errors import SandboxFileError
from termarena.sandbox.namespace.inside import calling, owners, registrar, seccomp

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.sandbox import Driver, Sandbox

X86 = platform.machine() == "x86_64"
CALL = (
    "import ctypes, errno, sys\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "r = libc.syscall(*[ctypes.c_long(int(a)) for a in sys.argv[1:]])\n"
    "print('allowed' if r >= 0 else errno.errorcode[ctypes.get_errno()])\n"
)


async def syscall(box: Sandbox, *args: int | str) -> str:
    """What the kernel answers to a raw call inside: `allowed` or the error's name."""
    result = await box.exec(["/usr/bin/python3", "-c", CALL, *map(str, args)])
    return result.stdout.decode().strip() or f"ended by {result.signal}"


DENIED = seccomp.TABLES[platform.machine()].denied


@pytest.mark.parametrize("name", sorted(DENIED))
async def test_system_call_is_refused(box: Sandbox, name: str) -> None:
    assert await syscall(box, DENIED[name], 0, 0, 0, 0, 0, 0) == "EPERM"


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
async def test_clone_into_a_namespace_is_refused(box: Sandbox, flag: int) -> None:
    number = seccomp.TABLES[platform.machine()].checked["clone"]
    assert await syscall(box, number, flag | 17, 0, 0, 0, 0) == "EPERM"


async def test_clone3_and_unknown_calls_do_not_exist(box: Sandbox) -> None:
    assert await syscall(box, 435, 0, 0) == "ENOSYS"
    assert await syscall(box, 500) == "ENOSYS"


@pytest.mark.skipif(not X86, reason="another way in exists on x86-64 only")
async def test_x32_calls_do_not_exist(box: Sandbox) -> None:
    assert await syscall(box, 0x40000000 + 39) == "ENOSYS"


@pytest.mark.parametrize(("family", "name"), [(40, "vsock"), (38, "alg"), (15, "key")])
async def test_socket_family_is_refused(box: Sandbox, family: int, name: str) -> None:
    number = seccomp.TABLES[platform.machine()].checked["socket"]
    assert await syscall(box, number, family, 1, 0) == "EAFNOSUPPORT", name


async def test_raw_and_packet_sockets_are_refused(box: Sandbox) -> None:
    script = "import socket\ntry: socket.socket({})\nexcept PermissionError: print('refused')"
    for family in ("socket.AF_PACKET, socket.SOCK_RAW", "socket.AF_INET, socket.SOCK_RAW, 1"):
        assert await out(box, f'/usr/bin/python3 -c "{script.format(family)}"') == "refused"


async def test_terminal_injection_is_refused(box: Sandbox) -> None:
    assert await syscall(box, seccomp.TABLES[platform.machine()].checked["ioctl"], 0, 0x5412, 0) == "EPERM"


async def test_exec_marker_cannot_be_taken_off(box: Sandbox) -> None:
    script = (
        "import resource\ntry: resource.setrlimit(15, (1, 1))\nexcept (PermissionError, ValueError): print('refused')"
    )
    assert await out(box, f'/usr/bin/python3 -c "{script}"') == "refused"
    assert "unlimited" not in await out(box, "grep realtime.timeout /proc/self/limits")


@pytest.mark.parametrize(
    "path",
    ["/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
     "/proc/1/oom_score_adj", "/proc/1/mem", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/power/state",
     "/proc/irq/default_smp_affinity"],
)  # fmt: skip
async def test_write_to_the_kernel_is_refused(box: Sandbox, path: str) -> None:
    assert (await sh(box, f"echo 1 > {path}")).exit_status != 0


@pytest.mark.parametrize("path", ["/proc/1/environ", "/proc/1/maps", "/proc/1/mem"])
async def test_process_1_is_not_readable(box: Sandbox, path: str) -> None:
    assert (await sh(box, f"cat {path}")).exit_status != 0
    assert (await sh(box, "ls /proc/1/fd/ /proc/1/root/")).exit_status != 0


@pytest.mark.parametrize("path", ["/proc/kcore", "/proc/keys", "/proc/kallsyms", "/proc/timer_list", "/proc/kmsg"])
async def test_kernel_secrets_are_empty(box: Sandbox, path: str) -> None:
    assert (await sh(box, f"head -c 100 {path}")).stdout == b""


async def test_no_device_nodes(box: Sandbox) -> None:
    assert (await sh(box, "mknod /root/disk b 259 0 && cat /root/disk")).exit_status != 0
    assert (await sh(box, "mknod /root/mem c 1 1")).exit_status != 0
    devices = (await out(box, "cd /dev; ls -A")).split()
    assert sorted(devices) == [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero",
    ]  # fmt: skip


async def test_only_the_sandboxs_processes_are_visible(box: Sandbox) -> None:
    names = await out(box, "cat /proc/[0-9]*/comm")
    assert "pytest" not in names
    assert len(names.splitlines()) <= 4


async def test_process_1_cannot_be_killed_or_traced(box: Sandbox) -> None:
    await sh(box, "kill -9 1; kill -STOP 1; kill -TERM 1")
    number = {"x86_64": 101, "aarch64": 117}[platform.machine()]
    assert await syscall(box, number, 16, 1, 0, 0) == "EPERM"
    assert (await box.exec(["true"])).exit_status == 0


async def test_chroot_does_not_lead_out(box: Sandbox) -> None:
    script = (
        "import os\nos.mkdir('/root/jail')\nfd = os.open('/', os.O_RDONLY)\nos.chroot('/root/jail')\nos.fchdir(fd)\n"
        "for _ in range(100): os.chdir('..')\nos.chroot('.')\nprint(sorted(os.listdir('/')))\n"
    )
    inside = (await out(box, "ls -A /")).split()
    await box.write("/root/out.py", script.encode())
    assert await out(box, "/usr/bin/python3 /root/out.py") == str(sorted(inside))


async def test_setuid_does_nothing(driver: Driver, box: Sandbox) -> None:
    await sh(box, "cp /usr/bin/id /srv/id; chown root /srv/id; chmod 4755 /srv/id")
    if "several user ids" in driver.capabilities().features:
        assert (await out(box, "/srv/id -u", user="nobody")) != "0"
    assert await out(box, "grep NoNewPrivs /proc/self/status") == "NoNewPrivs:\t1"


async def test_the_sandboxs_root_is_not_the_hosts(box: Sandbox) -> None:
    mapped = (await out(box, "cat /proc/self/uid_map")).split()
    assert mapped[:2] == ["0", str(os.geteuid() or 100_000)]


async def test_host_files_are_not_there(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    assert (await sh(box, f"cat {secret}")).exit_status != 0
    assert await out(box, "ls -A /root /home /run/lock /var/lib /opt /mnt") == (
        "/home:\nuser\n\n/mnt:\n\n/opt:\n\n/root:\n\n/run/lock:\n\n/var/lib:"
    )
    users = await out(box, "cut -d: -f1 /etc/passwd")
    assert users.split() == ["root", "daemon", "bin", "mail", "www-data", "user", "nobody"]
    for name in ("shadow", "ssh", "sudoers", "machine-id", "subuid", "docker"):
        assert (await sh(box, f"test -e /etc/{name}")).exit_status == 1


async def test_mount_table_names_no_host_path(box: Sandbox, sandbox_home: Path) -> None:
    table = await out(box, "cat /proc/self/mountinfo")
    assert str(sandbox_home) not in table
    assert "pytest" not in table


async def test_command_line_of_process_1_names_no_host_path(box: Sandbox) -> None:
    assert await out(box, "tr -d '\\000' < /proc/1/cmdline") == "termarena-init"


async def test_no_descriptor_is_inherited(box: Sandbox) -> None:
    assert (await out(box, "exec ls /proc/self/fd")).split() == ["0", "1", "2", "3"]


async def test_abstract_sockets_of_the_host_are_not_reachable(box: Sandbox) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0termarena-test-{os.getpid()}")
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0termarena-test-{os.getpid()}')"
        assert (await box.exec(["/usr/bin/python3", "-c", script])).exit_status != 0
        assert "termarena-test" not in await out(box, "cat /proc/net/unix")


async def test_host_environment_is_not_reachable(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERMARENA_TEST_SECRET", "hidden-value")
    found = await sh(box, "grep -l hidden-value /proc/*/environ")
    assert found.stdout == b""


@pytest.mark.parametrize("link", ["/proc/1/root", "/proc/1/cwd", "/proc/1/fd/3", "/proc/self/root", "/proc/self/fd/0"])
async def test_magic_links_are_not_followed_for_the_host(box: Sandbox, link: str, tmp_path: Path) -> None:
    await sh(box, f"ln -sfn {link} /srv/magic")
    for path in ("/srv/magic", "/srv/magic/etc/passwd", link):
        with pytest.raises(SandboxFileError):
            await box.read(path)
        with pytest.raises(SandboxFileError):
            await box.write(path, b"x")
    with pytest.raises(SandboxFileError):
        await box.get_tree("/srv/magic", tmp_path / "target")
    with pytest.raises(SandboxFileError):
        await box.put_tree(tmp_path, "/srv/magic")


async def test_swapping_links_under_transfers(box: Sandbox, tmp_path: Path) -> None:
    """A folder that keeps turning into a link to `/etc` and back never makes a transfer write or read there."""
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/sub/planted").write_text("planted")
    swap = "cd /srv; mkdir -p t/sub; while :; do mv t/sub t/real; ln -s /etc t/sub; rm t/sub; mv t/real t/sub; done"
    swapping = asyncio.create_task(sh(box, swap, timeout_s=None))
    try:
        for round_ in range(30):
            for moved in (box.put_tree(tmp_path / "in", "/srv/t"), box.get_tree("/srv/t", tmp_path / f"o{round_}")):
                try:
                    await moved
                except (SandboxFileError, ValueError):
                    continue
            assert not os.path.lexists(f"{tmp_path}/o{round_}/sub/passwd")  # noqa: ASYNC240 - nothing else runs
        assert (await sh(box, "test -e /etc/planted")).exit_status == 1
    finally:
        swapping.cancel()
        await asyncio.gather(swapping, return_exceptions=True)


async def test_private_files_of_the_host_are_hidden(box: Sandbox) -> None:
    readable = await out(box, "find /usr -xdev ! -perm -004 ! -perm -001 ! -type l -readable 2>/dev/null | head -5")
    assert readable == ""


def test_filter_of_each_architecture_is_well_formed() -> None:
    for (machine, table), watches in itertools.product(seccomp.TABLES.items(), (False, True)):
        program = seccomp.assemble(machine, watches_owners=watches)
        assert len(program) % 8 == 0
        assert len(program) // 8 < 4096
        assert len(set(table.denied.values())) == len(table.denied)
        numbers = [*table.denied.values(), *table.checked.values(), *table.watched.values()]
        assert len(set(numbers)) == len(numbers)
        assert table.watched.keys() <= registrar.HANDLERS.keys()


def test_programs_do_not_get_behind_what_they_are_taken_for(tmp_path: Path) -> None:
    """The limit that holds a process's user is closed to it, and process 1 does not follow its links."""
    table = seccomp.TABLES[os.uname().machine]
    assert {"prlimit64", "setrlimit"} <= table.checked.keys()
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to("/proc/self/fd/0")
    place = calling.Place(os.getpid(), calling.HERE, str(tmp_path / "link"))
    with pytest.raises(OSError, match="symbolic links"):
        os.close(place.open())
    fd = calling.Place(os.getpid(), calling.HERE, str(tmp_path / "target")).open()
    try:
        assert os.fstat(fd).st_ino == (tmp_path / "target").stat().st_ino
    finally:
        os.close(fd)
    for value in (b"1", b"1:", b":1", b"-1:1", b"99999999999:1", b"4294967295:0", b"1:" + b"0" * 30 + b"1"):
        assert owners.parsed(value) is None
    assert owners.parsed(b"12:34") == (12, 34)
    folder, name = calling.Place(os.getpid(), calling.HERE, f"{tmp_path}/new/").open_parent()
    os.close(folder)
    assert name == "new"


def test_importing_the_driver_starts_nothing() -> None:
    program = "import termarena.sandbox.namespace, threading; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)  # noqa: S603 - our own program with fixed arguments
