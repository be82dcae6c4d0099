"""What this machine allows to the namespace driver, each found by doing it in a throw-away process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from termarena.sandbox.namespace.cgroups import find_cgroups
from termarena.sandbox.namespace.ids import choose_ids
from termarena.sandbox.namespace.inside import seccomp

__all__ = ["Fact", "Facts", "probe", "try_disk"]

TRIAL_TIMEOUT_S: Final = 30.0
FactName = Literal[
    "user_namespaces", "overlay", "proc", "seccomp", "idmapped_mounts", "shared_layers", "user_ranges", "cgroups",
    "changes_on_disk",
]  # fmt: skip

REMEDIES: Final[dict[str, str]] = {
    "user_namespaces": (
        "allow them: sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces>0, "
        "kernel.apparmor_restrict_unprivileged_userns=0; in Docker: --security-opt seccomp=unconfined"
    ),
    "overlay": "use a kernel of 5.11 or newer with overlayfs; an older one than 6.6 cannot keep the changes in memory",
    "proc": "in Docker add --security-opt systempaths=unconfined: a masked /proc may not be mounted again",
    "idmapped_mounts": "keep TERMARENA_HOME and root file systems on ext4, xfs, btrfs or tmpfs, with a kernel of 5.19",
    "shared_layers": "none needed: forks copy the changes instead; a kernel of 6.15 or newer shares them",
    "changes_on_disk": (
        "put TERMARENA_HOME on a local file system (ext4, xfs, btrfs): until then all files of sandboxes are in memory"
    ),
    "user_ranges": "install uidmap (newuidmap) and grant the user a range in /etc/subuid and /etc/subgid",
}

# One process per trial: a refused step must not spoil the next one.
TRIAL: Final = "import os,sys;sys.path[:0]=[os.read(0,4096).decode()];from inside import trial;trial.main()"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was tried."""

    name: FactName
    is_there: bool
    is_needed: bool
    """Without a needed one there are no sandboxes; without another one something is weaker."""
    detail: str
    """What was found, or the kernel's words when it refused."""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All of them, in the order in which they build on each other."""

    facts: tuple[Fact, ...]

    @property
    def can_run(self) -> bool:
        """Whether the namespace driver works here."""
        return all(fact.is_there for fact in self.facts if fact.is_needed)

    def get(self, name: FactName) -> Fact:
        """One fact by its name."""
        return next(fact for fact in self.facts if fact.name == name)


def probe(home: Path, *, only_needed: bool = False) -> Facts:
    """Try everything, or what no sandbox can do without; leaves nothing. `home` is where root file systems lie.

    Takes about a third of a second, and less than half of that for what is needed.
    """
    facts = _needed()
    if only_needed:
        return Facts(tuple(facts))
    facts.append(_tried("shared_layers", is_needed=False))
    folder = next(path for path in (home, *home.absolute().parents) if path.is_dir())
    facts.append(_tried("changes_on_disk", is_needed=False, argument=str(folder)))
    if os.geteuid() == 0:
        facts.append(_tried("idmapped_mounts", is_needed=False, argument=str(folder)))
    else:
        facts.append(_user_ranges())
    facts.append(_cgroups())
    return Facts(tuple(facts))


def _needed() -> list[Fact]:
    names: tuple[FactName, ...] = ("user_namespaces", "overlay", "proc")
    with ThreadPoolExecutor(len(names)) as trials:
        return [*trials.map(partial(_tried, is_needed=True), names), _seccomp()]


def try_disk(folder: Path) -> str:
    """Why the changes of sandboxes cannot be kept in a folder; empty if they can. Nothing is left in it."""
    fact = _tried("changes_on_disk", is_needed=False, argument=str(folder))
    return "" if fact.is_there else fact.detail


def _tried(name: FactName, *, is_needed: bool, argument: str = "") -> Fact:
    command = [sys.executable, "-I", "-S", "-c", TRIAL, name, argument]
    try:
        done = subprocess.run(  # noqa: S603 - our own program with fixed arguments
            command,
            input=os.fsencode(Path(__file__).parent),
            capture_output=True,
            timeout=TRIAL_TIMEOUT_S,
            env={},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Fact(name, is_there=False, is_needed=is_needed, detail=str(error), remedy=REMEDIES[name])
    if done.returncode == 0:
        return Fact(name, is_there=True, is_needed=is_needed, detail="works")
    said = (done.stdout.decode().strip() or done.stderr.decode().strip()).splitlines()
    number = -done.returncode
    ended = f"the trial ended by {signal.Signals(number).name}" if number > 0 else "the trial failed"
    return Fact(name, is_there=False, is_needed=is_needed, detail=said[-1] if said else ended, remedy=REMEDIES[name])


def _seccomp() -> Fact:
    try:
        seccomp.assemble()
    except LookupError:
        machine = os.uname().machine
        remedy = "use --driver docker on this architecture"
        return Fact("seccomp", is_there=False, is_needed=True, detail=f"there is no table for {machine}", remedy=remedy)
    return Fact("seccomp", is_there=True, is_needed=True, detail=f"a filter for {os.uname().machine}")


def _user_ranges() -> Fact:
    ids = choose_ids()
    if ids.kind == "ranges":
        return Fact("user_ranges", is_there=True, is_needed=False, detail=f"{ids.uid_lines[1][2]} ids by newuidmap")
    helper = shutil.which("newuidmap")
    detail = "newuidmap is there, but no range is granted" if helper else "newuidmap is not installed"
    return Fact("user_ranges", is_there=False, is_needed=False, detail=detail, remedy=REMEDIES["user_ranges"])


def _cgroups() -> Fact:
    found = find_cgroups(prepare=False)
    if found.version is None:
        return Fact("cgroups", is_there=False, is_needed=False, detail=found.problem, remedy=found.remedy)
    return Fact(
        "cgroups", is_there=True, is_needed=False, detail=f"version {found.version}: {', '.join(sorted(found.parents))}"
    )
