"""Running git: no prompts, no hooks, no filters, no conversions; the address in the environment, never an argument.

The user's own configuration stays in force, because proxies, certificates and credential helpers live there.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from termarena.tasks.pull.contract import PullError, Step, shown

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.tasks.pull.contract import Bench, Plan, Reason, Reporter

__all__ = ["Git"]

# A server may count objects for minutes before it says a word; one that is silent for longer is gone.
STALL_S = 300.0
_CONFIG = {
    "advice.detachedHead": "false",
    "core.autocrlf": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.symlinks": "true",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "maintenance.auto": "false",
    "protocol.version": "2",
    "submodule.recurse": "false",
}
_ENVIRONMENT = {
    "GCM_INTERACTIVE": "never",
    "GIT_ASKPASS": "",  # empty, it also stops core.askPass and SSH_ASKPASS, which git looks at when there is none
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "SSH_ASKPASS_REQUIRE": "never",
}
# They would point git at another repository than ours, or have ssh open a window to ask for a password.
_UNWANTED = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_WORK_TREE",
    "SSH_ASKPASS",
)
_SSH = "ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=30"

_REASONS: tuple[tuple[Reason, str], ...] = (
    ("broken", r"repository corruption|bad object|unable to read tree"),
    ("disk-full", r"No space left on device|Disk quota exceeded"),
    ("unauthorised", r"Authentication failed|could not read (?:Username|Password)|terminal prompts disabled"),
    ("unauthorised", r"Permission denied \(|error: 40[13]\b|Host key verification failed"),
    ("network", r"Could not resolve|resolve hostname|[Nn]ame or service not known|[Nn]ame resolution|No route to host"),
    ("network", r"Connection (?:refused|timed out|reset)|(?:Failed|unable) to connect|Couldn't connect"),
    ("network", r"Network is unreachable|Operation timed out|Operation too slow|returned error: 5\d\d|SSL"),
    ("network", r"early EOF|hung up unexpectedly|RPC failed"),
    ("not-found", r"[Rr]epository .*not found|not found:|does not (?:appear to be a git repository|exist)|error: 404"),
    ("not-found", r"couldn't find remote ref|not our ref|unadvertised object|repository not exported"),
)


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in one repository of ours, whose remote is `address`."""

    repository: Path
    address: str
    plan: Plan
    bench: Bench

    def run(self, *arguments: str, given: str = "") -> str:
        """What git writes to stdout. Raises PullError with git's own words and the reason they stand for.

        The child keeps the pull's lock: should we be killed, the next pull waits until it has ended too.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as stdin:
            stdin.write(os.fsencode(given))
            stdin.seek(0)
            try:
                child = subprocess.Popen(  # noqa: S603 - a list of arguments, none of which can be an option
                    ["git", *arguments],  # noqa: S607 - whichever git the user has
                    cwd=self.repository,
                    env=self._environment(),
                    stdin=stdin,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    pass_fds=(self.bench.lock_fd,),
                )
            except FileNotFoundError as error:
                raise PullError(self.plan, "no-git", "the command git is not there") from error
            said = self._attend(child)
            if child.returncode:
                raise self._error(said)
            out.seek(0)
            return os.fsdecode(out.read())

    def _attend(self, child: subprocess.Popen[bytes]) -> str:
        """What the child says on stderr, its progress passed on; it has ended when this returns or raises."""
        try:
            said = _Listener(self.bench.report)
            pipe = child.stderr
            while pipe is not None:
                if not select.select([pipe], [], [], STALL_S)[0]:
                    raise PullError(self.plan, "network", f"git has said nothing for {STALL_S:g} seconds")
                block = os.read(pipe.fileno(), 1 << 16)
                if not block:
                    break
                said.hear(block)
            child.wait()
        finally:
            if child.stderr is not None:
                child.stderr.close()
            _end(child)
        return said.text()

    def _environment(self) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name not in _UNWANTED} | _ENVIRONMENT
        environment.setdefault("GIT_SSH_COMMAND", _SSH)
        count = int(environment.get("GIT_CONFIG_COUNT") or 0)
        for number, (name, value) in enumerate([*_CONFIG.items(), ("remote.origin.url", self.address)], count):
            environment[f"GIT_CONFIG_KEY_{number}"] = name
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
        return environment | {"GIT_CONFIG_COUNT": str(count + len(_CONFIG) + 1)}

    def _error(self, said: str) -> PullError:
        lines = [line for line in said.splitlines() if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
        problem = shown("; ".join(lines[-3:]) or said.strip()[-300:] or "git failed without a word")
        reason: Reason = next((reason for reason, pattern in _REASONS if re.search(pattern, said)), "broken")
        hint = "it does not exist, or it is private and needs credentials that git can find without asking"
        return PullError(self.plan, reason, problem, hint=hint if reason == "unauthorised" else None)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and what it started, if it has not ended."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


_PROGRESS = re.compile(
    r"(?P<what>Receiving objects|Resolving deltas|Updating files): +\d+% \((?P<done>\d+)/(?P<total>\d+)\)"
    r"(?:, (?P<amount>[\d.]+) (?P<unit>bytes|KiB|MiB|GiB))?"
)
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_KEPT_CHARACTERS = 20_000


class _Listener:
    """Takes stderr apart: progress goes to the report, the rest is kept."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._rest = ""
        self._kept = ""

    def hear(self, block: bytes) -> None:
        *lines, self._rest = re.split(r"[\r\n]", self._rest + block.decode(errors="replace").replace("\0", ""))
        for line in lines:
            found = _PROGRESS.match(line)
            if found is None:
                self._kept = (self._kept + line + "\n")[-_KEPT_CHARACTERS:]
                continue
            received = int(float(found["amount"]) * _UNITS[found["unit"]]) if found["amount"] else 0
            self._report.move_to(Step(found["what"].lower(), received, None, int(found["done"]), int(found["total"])))

    def text(self) -> str:
        return self._kept + self._rest
