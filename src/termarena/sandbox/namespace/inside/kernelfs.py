"""The file systems of the kernel as a sandbox sees them: its devices, its processes, and what /sys tells."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

from . import syscalls as sc

NAMES: Final = ("dev", "proc", "sys")
SHM: Final = "dev/shm"
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS: Final = (
    ("/proc/self/fd", "fd"), ("/proc/self/fd/0", "stdin"), ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"), ("pts/ptmx", "ptmx"),
)  # fmt: skip
HIDDEN_FILES: Final = (
    "kcore",
    "keys",
    "key-users",
    "timer_list",
    "kallsyms",
    "kmsg",
    "sched_debug",
    "latency_stats",
    "config.gz",
)
HIDDEN_FOLDERS: Final = ("acpi", "scsi")
READ_ONLY: Final = ("sys", "sysrq-trigger", "irq", "bus", "fs", "asound", "driver", "mtrr", "tty")
HIDDEN_SYS: Final = (
    "firmware",
    "fs/cgroup",
    "kernel/debug",
    "kernel/security",
    "kernel/tracing",
    "fs/bpf",
    "fs/selinux",
)
SAFE: Final = sc.MS_NOSUID | sc.MS_NODEV | sc.MS_NOEXEC


def mount_all(root: str) -> int | None:
    """Mount them in the folders of `root`; where the number of the last process is set, which is closed to commands."""
    _mount_devices(f"{root}/dev")
    sc.mount("proc", f"{root}/proc", fstype="proc", flags=SAFE)
    last_pid_fd = None
    with contextlib.suppress(OSError):
        last_pid_fd = os.open(f"{root}/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
    for name in READ_ONLY:
        _freeze(f"{root}/proc/{name}")
    for name in HIDDEN_FILES:
        _lay("/dev/null", f"{root}/proc/{name}")
    sc.mount("sysfs", f"{root}/sys", fstype="sysfs", flags=SAFE | sc.MS_RDONLY)
    _hide_folders([f"{root}/proc/{name}" for name in HIDDEN_FOLDERS] + [f"{root}/sys/{name}" for name in HIDDEN_SYS])
    return last_pid_fd


def move_all(root: str, target: str, *, last_pid_fd: int | None, last_pid: int, shm_bytes: int) -> None:
    """Move them to the sandbox's root; raises `OSError` where it has something that is no folder."""
    options = f"size={shm_bytes},nr_inodes=65536,mode=1777"
    sc.mount(None, f"{root}/{SHM}", flags=sc.MS_REMOUNT | SAFE, options=options)
    if last_pid_fd is not None:
        if last_pid:
            with contextlib.suppress(OSError):
                os.write(last_pid_fd, b"%d" % last_pid)
        os.close(last_pid_fd)
    for name in NAMES:
        if not is_folder(f"{target}/{name}"):
            raise OSError(errno.ENOTDIR, "the root file system has something that is no folder there", f"/{name}")
        sc.mount(f"{root}/{name}", f"{target}/{name}", flags=sc.MS_MOVE)


def _mount_devices(dev: str) -> None:
    sc.mount("none", dev, fstype="tmpfs", flags=sc.MS_NOSUID | sc.MS_NOEXEC, options="size=64k,nr_inodes=64,mode=755")
    for name in DEVICES:
        os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        sc.mount(f"/dev/{name}", f"{dev}/{name}", flags=sc.MS_BIND)
    for target, name in DEVICE_LINKS:
        os.symlink(target, f"{dev}/{name}")
    os.mkdir(f"{dev}/pts")
    flags = sc.MS_NOSUID | sc.MS_NOEXEC
    sc.mount("devpts", f"{dev}/pts", fstype="devpts", flags=flags, options="newinstance,ptmxmode=0666,mode=620")
    os.mkdir(f"{dev}/shm")
    sc.mount("shm", f"{dev}/shm", fstype="tmpfs", flags=SAFE, options="size=4k,nr_inodes=65536,mode=1777")


def _freeze(path: str) -> None:
    if _lay(path, path, deep=True):
        # The flags of the mount below are locked: leaving one out is EPERM.
        sc.mount(None, path, flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | SAFE)


def _lay(source: str, target: str, *, deep: bool = False) -> bool:
    """Lay one thing over another; False where there is nothing to lay it over."""
    try:
        sc.mount(source, target, flags=sc.MS_BIND | (sc.MS_REC if deep else 0))
    except FileNotFoundError:
        return False
    return True


def _hide_folders(paths: list[str]) -> None:
    """Lay one empty folder over all of them: a file system for each would have to be made and torn down."""
    there = [path for path in paths if os.path.isdir(path)]
    for path in there[:1]:
        sc.mount("none", path, fstype="tmpfs", flags=SAFE | sc.MS_RDONLY, options="size=0,nr_inodes=2,mode=555")
    for path in there[1:]:
        sc.mount(there[0], path, flags=sc.MS_BIND)


def is_folder(path: str) -> bool:
    """Make the folder unless it is there; whether it is one now (a symbolic link is not)."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o755)
    return stat.S_ISDIR(os.lstat(path).st_mode)
