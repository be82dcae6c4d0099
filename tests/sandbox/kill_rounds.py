"""Kills a harness with SIGKILL at random moments and waits for everything it started to be gone; run by the kill test.

It is made the reaper of all orphans below it, so that not one process can be overlooked.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 60
TESTS = Path(__file__).parents[1]


def _left_over(*_: object) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    left = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in children]
    raise SystemExit(f"still alive {PATIENCE_S} s after the kill: {left}")


def _one_round(home: str, harness_file: str, moment: random.Random) -> float:
    """Seconds from the kill until the last process was gone."""
    harness = subprocess.Popen(  # noqa: S603 - our own program with fixed arguments
        [sys.executable, str(Path(__file__).with_name(harness_file)), home],
        env={**os.environ, "PYTHONPATH": ":".join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))},
        stdout=subprocess.PIPE,
    )
    assert harness.stdout is not None
    harness.stdout.readline()
    # Nothing more is written: this only lets a random time pass.
    select.select([harness.stdout], [], [], moment.uniform(0, 0.25))
    os.kill(harness.pid, signal.SIGKILL)
    killed = time.monotonic()
    harness.stdout.close()
    harness.wait()
    signal.alarm(PATIENCE_S)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    signal.alarm(0)
    return time.monotonic() - killed


def _mounts(home: str) -> set[str]:
    """The mounts below home; those of engines and of other tests come and go beside this one."""
    return {line for line in Path("/proc/self/mountinfo").read_text().splitlines() if home in line}


def _traces(home: str) -> set[str]:
    """The sandboxes that the killed harness had, as far as they were not removed before it was killed."""
    return {path.name for path in Path(home, "sandboxes").glob("ta-*")}


def main() -> None:
    home, rounds, harness_file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGALRM, _left_over)
    mounts = _mounts(home)
    moment = random.Random(rounds)  # noqa: S311 - moments, not secrets
    gone_s, seen = [], set[str]()
    for _ in range(rounds):
        gone_s.append(_one_round(home, harness_file, moment))
        seen |= _traces(home)
    same = _mounts(home) == mounts
    report = {"rounds": rounds, "slowest_s": max(gone_s), "mounts_unchanged": same, "sandboxes": sorted(seen)}
    sys.stdout.write(json.dumps(report))


main()
