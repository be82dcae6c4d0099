"""How process 1 of a sandbox comes to be: from a copy of the fork server to the root of an assembled sandbox."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
import sys
from typing import Any, Final, NoReturn

from . import files, mounts, supervisor, wire
from . import syscalls as sc

KEPT_CAPABILITIES: Final = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31})
"""Docker's default set without NET_RAW: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap,
net_bind_service, sys_chroot, mknod, audit_write, setfcap."""
DROPPED_CAPABILITIES: Final = tuple(number for number in range(41) if number not in KEPT_CAPABILITIES)
SIOCSIFFLAGS, IFF_UP_RUNNING = 0x8914, 0x41


def begin(control: socket.socket, *, gate: int, lock: int, keeps_host: bool) -> NoReturn:
    """Become process 1: wait at the gate for the ids, make what every sandbox has, hear what this one is to be, serve.

    Never returns to the fork server's code. `lock` is only to be kept; `keeps_host`: paths of the host will be named.
    """
    try:
        _become_first(gate, keep={control.fileno(), lock})
        try:
            last_pid_fd = _prepare(keeps_host=keeps_host)
            plan, fds = _hear(control)
            volumes = _assemble(plan, fds, last_pid_fd)
        except (OSError, ValueError) as error:
            wire.send(control, {"failed": str(error), "errno": getattr(error, "errno", None)})
            os._exit(1)
        wire.send(control, {"ready": True, "made": plan["made"]})
        supervisor.Supervisor(plan, control, volumes=volumes, fds=fds).run()
    except BaseException:  # noqa: BLE001 - the top of a process: nothing above could handle it, and process 1 must end
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def _become_first(gate: int, *, keep: set[int]) -> None:
    sc.close_all_but({0, 1, 2, gate, *keep})
    sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if not os.read(gate, 1):
        os._exit(1)
    os.close(gate)
    with contextlib.suppress(PermissionError):
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    # Changing to another id of the host has cleared it.
    sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)


def _hear(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Wait for the plan, and the descriptors that it names; end where none will come."""
    fds: list[int] = []
    while (request := wire.receive(control)) is not None:
        if "problem" in request.message:
            raise OSError(request.message["errno"], request.message["problem"])
        fds += request.fds
        if not request.message.get("more"):
            return request.message, fds
    os._exit(0)


def _prepare(*, keeps_host: bool) -> int | None:
    """What no plan changes; the file systems of the kernel are the larger part of a start."""
    _raise_loopback()
    last_pid_fd = mounts.prepare(keeps_host=keeps_host)
    sc.join_fresh_keyring()
    for capability in DROPPED_CAPABILITIES:
        sc.prctl(sc.PR_CAPBSET_DROP, capability)
    return last_pid_fd


def _assemble(plan: dict[str, Any], fds: list[int], last_pid_fd: int | None) -> list[mounts.Volume]:
    mounts.take_descriptors(plan, fds)
    restore = plan.get("restore_fd")
    volumes = mounts.assemble(plan, last_pid_fd, restore_fd=None if restore is None else fds[restore])
    plan["made"] = [path for mount in plan["step_mounts"] for path in mounts.mount_more(mount)]
    sc.set_hostname(plan["hostname"])
    sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)
    sc.prctl(sc.PR_SET_DUMPABLE, 0)
    if plan["workdir"] is not None:
        _make_workdir(plan)
    return volumes


def _make_workdir(plan: dict[str, Any]) -> None:
    """In a fork something else may stand in its place, whoever had the files put it there: its commands then say so."""
    try:
        files.make_folder(plan["workdir"])
    except OSError:
        is_fork = "restore_fd" in plan or any(volume["layers"] for volume in plan["volumes"])
        if not is_fork:
            raise


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP_RUNNING))
