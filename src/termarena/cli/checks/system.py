"""Python, the kernel, git, and TermArena's own settings."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check, first_line_of
from termarena.core.errors import TermArenaError

if TYPE_CHECKING:
    from termarena.cli.checks.contract import Machine

__all__ = ["check_git", "check_kernel", "check_python", "check_settings"]

# Before 5.11 an overlay in a user namespace has no `userxattr`, and its deletions fail.
OLDEST_KERNEL = (5, 11)


def check_python(machine: Machine) -> Check:
    """The interpreter; the package's own metadata refuses one that is too old, so there is nothing to judge."""
    del machine
    version = platform.python_version()
    details = {"version": version, "executable": sys.executable}
    return Check("python", "ok", f"{version} ({sys.executable})", details=details)


def check_kernel(machine: Machine) -> Check:
    """The kernel; the embedded sandbox is Linux only."""
    del machine
    system, release, architecture = os.uname().sysname, os.uname().release, os.uname().machine
    details = {"system": system, "release": release, "architecture": architecture}
    found = f"{system} {release} {architecture}"
    if system != "Linux":
        return Check("kernel", "missing", found, "the embedded sandbox needs Linux; use Docker here", details)
    if _version(release) < OLDEST_KERNEL:
        wanted = ".".join(map(str, OLDEST_KERNEL))
        return Check("kernel", "limited", found, f"the embedded sandbox needs {wanted} or later; use Docker", details)
    return Check("kernel", "ok", found, details=details)


def _version(release: str) -> tuple[int, ...]:
    numbers = release.partition("-")[0].split(".")[:2]
    return tuple(int(number) for number in numbers if number.isdecimal())


def check_git(machine: Machine) -> Check:
    """git, which fetches datasets."""
    found = first_line_of(["git", "--version"], patience_s=machine.patience_s)
    if found is None:
        return Check("git", "missing", "no git", "install git: datasets in git repositories are fetched with it")
    return Check("git", "ok", found, details={"version": found.removeprefix("git version ")})


def check_settings(machine: Machine) -> Check:
    """Whether every settings file and variable can be read."""
    from termarena.core.settings import resolve_settings

    try:
        resolved = resolve_settings(environment=machine.environment)
    except TermArenaError as error:
        return Check("settings", "limited", error.message, error.hint or "mend the file or the variable that it names")
    files = [str(file.path) for file in resolved.files if file.is_there]
    found = ", ".join(files) if files else "defaults, no termarena.toml"
    return Check("settings", "ok", found, details={"files": files, "home": str(resolved.settings.paths.home)})
