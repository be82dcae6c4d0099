"""Builds as an ordinary user whom newuidmap grants a range, and as one without: a test user made here, for a while.

The user is in copies of the files of accounts that only a mount namespace of the test sees.
"""

from __future__ import annotations

import contextlib
import json
import os
import site
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox.images.making import owners_in

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[3]
USER_ID = 54_324
FILES = {"passwd": f"tester:x:{USER_ID}:{USER_ID}::/:/bin/sh\n", "subuid": "tester:300000:65536\n"}
FILES["subgid"] = FILES["subuid"]
BUILD = """
import asyncio, json, sys
from pathlib import Path
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import BuildOptions, ImageShelf, build_image
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.spec import Network

async def main(home, root, ranges):
    context = home / "context"
    context.mkdir()
    (context / "file").write_text("x")
    (context / "large").write_bytes(bytes(8 << 20))
    (context / "Dockerfile").write_text(
        "FROM base\\nCOPY large /\\nCOPY --chown=1234:1234 file /home/alice/\\n"
        "RUN touch /theirs && chown 12:34 /theirs && mkdir /w && chmod 777 /w\\n"
        "USER alice\\nWORKDIR /w\\nRUN id -u > mine; id -g >> mine\\nUSER root\\n"
    )
    async with NamespaceDriver(home=home, allow_ranges=ranges) as driver:
        shelf = ImageShelf(driver, home)
        await shelf.import_archive(root, name="base")
        built = await build_image(shelf, context, "t/built:1", BuildOptions(network=Network(mode="none")))
        async with driver.start(SandboxSpec(root=Root(kind="image", image="t/built:1"))) as box:
            listed = await box.exec(["/bin/sh", "-c", "cd /; ls -n theirs home/alice/* w/*; cat w/mine"])
            given = await box.exec(["/bin/sh", "-c", sys.argv[4]])
        await shelf.export("t/built:1", home / "exported.tar")
        shelf.close()
    async with NamespaceDriver(home=home, allow_ranges=ranges) as driver:
        pruned = await ImageShelf(driver, home).prune(everything=True)
        left = [str(path) for path in (home / "images/layers").glob("*/*")]
        print(json.dumps([built.image.mode, listed.stdout.decode(), given.stdout.decode(), pruned.layers, left]))

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "ranges"))
"""


GIVE = """
true & first=$!
chown 1:2 /theirs
true & second=$!
chown 3:4 /large
true & third=$!
wait
ls -n /theirs /large
echo $((third - second - (second - first)))
"""
"""Who is asked to change the owner of a file that has to be copied leaves that to a process more."""


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    """A folder that the user can read, and `own` in it that is the user's."""
    # Not below pytest's own folder: every session of root closes that one to others.
    with tempfile.TemporaryDirectory(prefix="termarena-user-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "own").mkdir()
        os.chown(home / "own", USER_ID, USER_ID)
        yield home


def _interpreter() -> str:
    """One that the other user can run; the one we run on may lie in root's home."""
    check = "import sys, pydantic; assert sys.version_info >= (3, 11)"
    env = {"PYTHONPATH": ":".join(site.getsitepackages()), "PYTHONDONTWRITEBYTECODE": "1"}
    who = {"user": USER_ID, "group": USER_ID}
    for candidate in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(PermissionError, FileNotFoundError):
            tried = subprocess.run([candidate, "-c", check], env=env, extra_groups=[], check=False, **who)  # type: ignore[call-overload] # noqa: S603 - ours
            if tried.returncode == 0:
                return candidate
    pytest.skip("an ordinary user can run no interpreter of ours; install one outside /root")


def _as_user(home: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    for name, line in FILES.items():
        before = Path("/etc", name).read_text() if Path("/etc", name).exists() else ""
        (home / name).write_text(before + line)
    binds = "; ".join(f"mount --bind {home}/{name} /etc/{name}" for name in FILES)
    become = f"exec setpriv --reuid={USER_ID} --regid={USER_ID} --clear-groups"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = ":".join([str(REPOSITORY / "src"), *site.getsitepackages()])
    return subprocess.run(  # noqa: S603 - our own interpreter
        ["unshare", "-m", "sh", "-ec", f'{binds}; {become} "$@"', "sh", _interpreter(), "-c", script, *words],  # noqa: S607 - util-linux
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.needs("newuidmap", "unshare", "setpriv")
@pytest.mark.parametrize("kind", ["ranges", "single"])
def test_builds_as_an_ordinary_user(root_tar: Path, kind: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a user for a while")
    with _home() as home:
        (home / "root.tar").write_bytes(root_tar.read_bytes())
        done = _as_user(home, BUILD, str(home / "own"), str(home / "root.tar"), kind, GIVE)
        assert done.returncode == 0, done.stderr[-3000:]
        mode, listed, given, layers, left = json.loads(done.stdout)
        exported = owners_in(home / "own/exported.tar")
    owners = {row.split()[-1]: row.split()[2:4] for row in listed.splitlines() if len(row.split()) > 3}
    expected = {"theirs": ["12", "34"], "home/alice/file": ["1234", "1234"]}
    expected["w/mine"] = ["1234", "1234"]
    assert listed.splitlines()[-2:] == ["1234", "1234"]
    assert {name: exported[name] for name in expected} == {
        name: (int(uid), int(gid)) for name, (uid, gid) in expected.items()
    }
    assert (mode, owners) == (kind, expected)
    large, theirs, more = given.splitlines()
    assert (large.split()[2:5], theirs.split()[2:4]) == (["3", "4", str(8 << 20)], ["1", "2"])
    assert int(more) == (1 if kind == "single" else 0)
    assert layers >= 3
    assert left == []


POSTINST = """#!/bin/sh
set -e
adduser --system --group --no-create-home keeper
chown -R keeper:keeper /var/lib/keeper
su keeper -s /bin/sh -c 'id -un > /var/lib/keeper/begun'
"""
SERVER = """
import os, socket, struct, sys
if os.fork():
    os._exit(0)
os.setsid()
me = os.stat("/var/lib/keeper")
assert (os.geteuid(), os.getegid(), os.getgroups()) == (me.st_uid, me.st_gid, []), (os.getresuid(), me)
try:
    os.setuid(0)
except PermissionError:
    server = socket.socket(socket.AF_UNIX)
    server.bind("/var/lib/keeper/socket")
    server.listen()
    open("/var/lib/keeper/ready", "w").close()
    while True:
        client = server.accept()[0]
        client.sendall(b"%d %d" % (os.getuid(), struct.unpack("iII", client.getsockopt(1, 17, 12))[1]))
        client.close()
"""
ASK = """
import os, socket
client = socket.socket(socket.AF_UNIX)
client.connect("/var/lib/keeper/socket")
print(client.recv(99).decode(), os.stat("/var/lib/keeper/ready").st_uid)
"""
HOSTILE = """
import ctypes, errno, os
libc, nowhere = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p(0xdead0000)
page = ctypes.create_string_buffer(b"x" * 5000)
calls = {
    "chown": (nowhere, 1, 1), "stat": (nowhere, nowhere), "fstat": (0, nowhere), "fchown": (99, 1, 1),
    "lchown": (page, 1, 1), "setgroups": (3, nowhere), "getresuid": (nowhere, nowhere, nowhere), "mkdir": (nowhere, 0),
    "open": (nowhere, 64, 0), "getsockopt": (0, 1, 17, nowhere, nowhere), "setuid": (-1,), "prctl": (8, 1, 0, 0, 0),
    "rename": (nowhere, nowhere),
}
os.setresuid(5, 5, 0)
for name, args in calls.items():
    ctypes.set_errno(0)
    print(name, getattr(libc, name)(*args), errno.errorcode.get(ctypes.get_errno(), 0))
os.setuid(0)
os.close(os.open("/forged", os.O_CREAT))
for value in (b"99999999999:1", b"12:34"):
    os.setxattr("/forged", "user.termarena.owner", value)
    print("forged", os.stat("/forged").st_uid)
for path in ("/proc/99999999999999999999", "/proc/\\u00b2", "/proc/999999999"):
    assert not os.path.exists(path)
"""
INSTALL = """
import asyncio, json, sys
from pathlib import Path
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import BuildOptions, ImageShelf, build_image
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.spec import Network

async def main(home, image, server, ask, hostile):
    async with NamespaceDriver(home=home / "home", allow_ranges=False) as driver:
        shelf = ImageShelf(driver, home / "home")
        await shelf.import_archive(image, name="debian:bookworm")
        options = BuildOptions(network=Network(mode="none"), on_log=lambda line: print(line, file=sys.stderr))
        await build_image(shelf, home.parent / "context", "t/built:1", options)
        async with driver.start(SandboxSpec(root=Root(kind="image", image="t/built:1"))) as box:
            print((await box.exec(["python3", "-c", hostile])).stdout.decode(), file=sys.stderr)
            drop = ["setpriv", "--reuid=keeper", "--regid=keeper", "--clear-groups"]
            begun = await box.exec([*drop, "python3", "-c", server])
            assert begun.exit_status == 0, begun
            while (await box.exec(["test", "-e", "/var/lib/keeper/ready"])).exit_status:
                assert any(one.argv[0] == "python3" for one in await box.processes()), begun
            asked = await box.exec(["python3", "-c", ask], user="nobody")
            told = await box.exec(["sh", "-c", "cat /var/lib/keeper/begun; id -u keeper; id -u nobody"])
            users = [one.uid for one in await box.processes()]
        shelf.close()
        print(json.dumps([asked.stdout.decode(), asked.stderr.decode(), told.stdout.decode().split(), users]))

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
"""


def _make_package(context: Path) -> None:
    """A package with a user of its own, and a Dockerfile that installs it."""
    for name, content in {"DEBIAN/postinst": POSTINST, "var/lib/keeper/file": "x", "DEBIAN/control": CONTROL}.items():
        (context / "made" / name).parent.mkdir(parents=True, exist_ok=True)
        (context / "made" / name).write_text(content)
    (context / "made/DEBIAN/postinst").chmod(0o755)
    subprocess.run(["dpkg-deb", "--build", "made", "keeper.deb"], cwd=context, check=True, capture_output=True)  # noqa: S607 - of Debian
    (context / "Dockerfile").write_text(
        "FROM debian:bookworm\nCOPY keeper.deb /tmp/\nRUN apt-get install -y /tmp/keeper.deb\n"
    )


CONTROL = "Package: keeper\nVersion: 1\nArchitecture: all\nMaintainer: tests\nDescription: none\n"


@pytest.mark.slow
@pytest.mark.needs("docker", "newuidmap", "unshare", "setpriv", "dpkg-deb")
def test_a_package_is_installed_and_its_service_drops_to_its_user_with_one_id() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a user for a while")
    with _home() as home:
        image = home / "debian.tar"
        subprocess.run(["docker", "save", "-o", image, "debian:bookworm"], check=True)  # noqa: S603, S607 - the test's own engine
        image.chmod(0o644)
        (home / "context").mkdir()
        _make_package(home / "context")
        done = _as_user(home, INSTALL, str(home / "own"), str(image), SERVER, ASK, HOSTILE)
        assert done.returncode == 0, done.stderr[-3000:]
    answered = dict(line.split(" ", 1) for line in done.stderr.splitlines() if line.endswith(("EFAULT", "EBADF")))
    assert {"chown", "stat", "fchown", "getresuid", "mkdir", "open"} <= answered.keys(), done.stderr[-2000:]
    assert [line for line in done.stderr.splitlines() if line.startswith("forged")] == ["forged 0", "forged 12"]
    asked, problem, told, users = json.loads(done.stdout)
    name, keeper, nobody = told
    assert name == "keeper"
    assert asked.split() == [keeper, nobody, keeper], problem
    assert users == [int(keeper)]
