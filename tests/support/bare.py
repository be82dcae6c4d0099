"""Runs a task's bare recipe in a throw-away root made with unshare(1): enough to prove the samples.

The root is a tmpfs with the host's /usr read-only; no network but loopback, no home, no process of the host. Nothing is
left when the command ends, however it ends: the kernel takes mounts and processes with the namespaces.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from termarena.tasks import Task

_NAMESPACES = ["--mount", "--pid", "--fork", "--net", "--ipc", "--uts", "--kill-child"]
_INSIDE = r"""
set -eu
root=$1 task=$2 agent=$3 workdir=$4 setup=$5
mount -t tmpfs -o size=2g tmpfs "$root"
cd "$root"
mkdir -p usr etc proc dev/shm tmp root home run logs/verifier var/tmp var/lib var/log opt ".$workdir"
chmod 1777 tmp var/tmp
for name in bin sbin lib lib64 lib32; do if [ -L "/$name" ]; then cp -P "/$name" .; fi; done
mount --rbind /usr usr
mount -o remount,bind,ro usr
printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >etc/passwd
printf 'root:x:0:\nnogroup:x:65534:\n' >etc/group
echo '127.0.0.1 localhost' >etc/hosts
for name in ld.so.cache alternatives; do if [ -e "/etc/$name" ]; then cp -a "/etc/$name" etc/; fi; done
mount -t proc proc proc
for name in null zero full random urandom; do : >"dev/$name"; mount --bind "/dev/$name" "dev/$name"; done
ln -s /proc/self/fd dev/fd
ip link set lo up 2>/dev/null || python3 -c '
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14s", b"lo", 0x41, b""))'
inside() {
  env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 chroot . sh -c "$1" </dev/null
}
if [ -n "$setup" ]; then
  cp -R "$task/environment" tmp/environment
  inside "cd $workdir && sh /tmp/environment/$setup" >&2
  rm -rf tmp/environment
fi
if [ -n "$agent" ]; then
  cp -R "$task/solution" solution
  cp "$agent" solution/.agent.sh
  inside "cd $workdir && bash /solution/.agent.sh" >agent.log 2>&1 || true
  cat agent.log >&2
  rm -rf solution agent.log
fi
rm -rf tests logs/verifier
mkdir -p logs/verifier
cp -R "$task/tests" tests
inside "cd $workdir && sh /tests/test.sh" >test.log 2>&1 || true
cat test.log >&2
cat logs/verifier/reward.txt
"""


def reward_of(task: Task, agent: Path | None, scratch: Path) -> str:
    """The reward after running `agent` (None: nothing) on the task; the talk of all that runs goes to stderr."""
    bare = task.environment.bare
    assert bare is not None
    root = scratch / "root"
    root.mkdir()
    identity = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    arguments = [
        str(root),
        task.provenance.path,
        str(agent or ""),
        task.environment.workdir or "/app",
        bare.setup or "",
    ]
    done = subprocess.run(  # noqa: S603 - our own script
        ["unshare", *identity, *_NAMESPACES, "bash", "-c", _INSIDE, "bare", *arguments],  # noqa: S607
        capture_output=True,
        text=True,
        errors="replace",
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
