"""What the embedded sandbox is made of, as the sandbox room's own probe finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check

if TYPE_CHECKING:
    from termarena.cli.checks.contract import Machine, Status
    from termarena.sandbox.namespace.probe import Fact

__all__ = [
    "check_cgroups",
    "check_changes_on_disk",
    "check_identities",
    "check_overlay",
    "check_proc",
    "check_seccomp",
    "check_shared_layers",
    "check_user_namespaces",
]

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


def check_user_namespaces(machine: Machine) -> Check:
    """Whether this user, as it is, can make a user namespace and mount inside it."""
    fact = machine.facts.get("user_namespaces")
    return _check("user namespaces", fact, advice=_namespace_advice(machine))


def _namespace_advice(machine: Machine) -> str:
    cures = [cure for file, blocking, cure in SWITCHES if machine.text(file) == blocking]
    if cures:
        return f"{' && '.join(cures)}; {OR_DOCKER}"
    if any((machine.root / mark).exists() for mark in (".dockerenv", "run/.containerenv")):
        return f"start this container with --security-opt seccomp=unconfined; {OR_DOCKER}"
    return f"ask the administrator to allow user namespaces; {OR_DOCKER}"


def check_overlay(machine: Machine) -> Check:
    """Whether an overlay with a tmpfs above works inside a user namespace, deletions included."""
    return _check("overlay", machine.facts.get("overlay"))


def check_proc(machine: Machine) -> Check:
    """Whether a sandbox can have a /proc of its own."""
    return _check("proc mount", machine.facts.get("proc"))


def check_seccomp(machine: Machine) -> Check:
    """Whether there is a system call filter for this processor."""
    return _check("seccomp", machine.facts.get("seccomp"))


def check_shared_layers(machine: Machine) -> Check:
    """Whether a fork can use a sealed sandbox's files without copying them."""
    return _check("shared layers", machine.facts.get("shared_layers"))


def check_changes_on_disk(machine: Machine) -> Check:
    """Whether files that do not fit in a sandbox's memory can be kept in the home."""
    return _check("changes on disk", machine.facts.get("changes_on_disk"))


def check_identities(machine: Machine) -> Check:
    """Whether a sandbox's root is another user than the host's, and has other users beside it."""
    return _check("identities", machine.facts.get("idmapped_mounts") or machine.facts.get("user_ranges"))


def check_cgroups(machine: Machine) -> Check:
    """What can bound the memory, the processes and the processor time of a sandbox."""
    return _check("cgroups", machine.facts.get("cgroups"))


def _check(name: str, fact: Fact | None, *, advice: str | None = None) -> Check:
    if fact is None:
        return Check(name, "missing", "not tried: the embedded sandbox needs Linux", "run tasks on Docker")
    details = {"is_needed": fact.is_needed}
    if fact.is_there:
        return Check(name, "ok", fact.detail, details=details)
    status: Status = "missing" if fact.is_needed else "limited"
    return Check(name, status, fact.detail, advice or fact.remedy or "see docs/sandbox.md", details)
