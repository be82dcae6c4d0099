"""User namespaces, overlay and proc mounts inside them, and ranges of ids: what the embedded sandbox is made of."""

from __future__ import annotations

import json
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.cli.checks.contract import Machine

__all__ = ["check_id_ranges", "check_overlay", "check_proc", "check_user_namespaces", "run_probe"]

# Switches that turn user namespaces off: file, value that does so, cure.
SWITCHES = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("/proc/sys/user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=10000"),
)
OR_DOCKER = "or run tasks on Docker"
WANTED_IDS = 65536


def run_probe(patience_s: float) -> Mapping[str, str | None]:
    """The probe's answers by step; a step that is absent was not reached."""
    program = Path(__file__).with_name("probe.py")
    try:
        done = subprocess.run(  # noqa: S603 - our own program, no shell
            [sys.executable, "-I", "-S", str(program)],
            capture_output=True,
            timeout=patience_s,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        answers: dict[str, str | None] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"user_namespace": f"the probe did not answer: {error}"}
    return answers


def check_user_namespaces(machine: Machine) -> Check:
    """Whether this user, as it is, can make a user namespace and mount inside it."""
    problem = machine.namespaces.get("user_namespace", "not tried")
    who = "root" if machine.user_id == 0 else "this user"
    details = {"as_root": machine.user_id == 0, "problem": problem}
    if problem is None:
        return Check("user namespaces", "ok", f"can be made by {who}, with mounts inside", details=details)
    return Check("user namespaces", "missing", problem, _namespace_advice(machine), details)


def _namespace_advice(machine: Machine) -> str:
    cures = [cure for file, blocking, cure in SWITCHES if machine.text(file) == blocking]
    if cures:
        return f"{' && '.join(cures)}; {OR_DOCKER}"
    if _is_in_container(machine):
        return f"start this container with --security-opt seccomp=unconfined; {OR_DOCKER}"
    return f"ask the administrator to allow user namespaces; {OR_DOCKER}"


def check_overlay(machine: Machine) -> Check:
    """Whether an overlay with a tmpfs above works inside a user namespace, deletions included."""
    if "overlay" not in machine.namespaces:
        return Check("overlay", "missing", "not tried: it needs user namespaces", "see user namespaces")
    problem = machine.namespaces["overlay"]
    if problem is None:
        return Check("overlay", "ok", "mounts inside a user namespace, deletions work", details={"problem": None})
    advice = f"kernel 6.6 or later has what an overlay on tmpfs needs; {OR_DOCKER}"
    return Check("overlay", "limited", problem, advice, {"problem": problem})


def check_proc(machine: Machine) -> Check:
    """Whether a sandbox can have a /proc of its own."""
    if "proc" not in machine.namespaces:
        return Check("proc mount", "missing", "not tried: it needs user namespaces", "see user namespaces")
    problem = machine.namespaces["proc"]
    if problem is None:
        return Check("proc mount", "ok", "mounts inside a pid namespace", details={"problem": None})
    advice = f"in a container, start it with --security-opt systempaths=unconfined; {OR_DOCKER}"
    return Check("proc mount", "limited", problem, advice, {"problem": problem})


def _is_in_container(machine: Machine) -> bool:
    return any((machine.root / mark).exists() for mark in (".dockerenv", "run/.containerenv"))


def check_id_ranges(machine: Machine) -> Check:
    """Whether a sandbox can have more than one user id inside."""
    if machine.user_id == 0:
        return Check("id ranges", "ok", "root maps ids as it likes", details={"as_root": True})
    helpers = [name for name in ("newuidmap", "newgidmap") if shutil.which(name) is None]
    if helpers:
        return Check(
            "id ranges", "limited", f"no {' and no '.join(helpers)}", "install uidmap (Debian) or shadow-utils"
        )
    counts = {file: _ids_granted(machine, f"/etc/{file}") for file in ("subuid", "subgid")}
    found = ", ".join(f"{count} ids in /etc/{file}" for file, count in counts.items())
    if min(counts.values()) < WANTED_IDS:
        cure = "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER"
        return Check("id ranges", "limited", found, f"{cure}; until then every process in a sandbox is root", counts)
    return Check("id ranges", "ok", found, details=counts)


def _ids_granted(machine: Machine, file: str) -> int:
    names = {str(machine.user_id), _user_name(machine.user_id)}
    rows = [line.split(":") for line in (machine.text(file) or "").splitlines()]
    return sum(int(row[2]) for row in rows if len(row) == 3 and row[0] in names and row[2].isdecimal())  # noqa: PLR2004


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # an id without a name, as containers have
        return str(user_id)
