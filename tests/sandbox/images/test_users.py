"""Builds as an ordinary user whom newuidmap grants a range, and as one without: a test user made here, for a while.

The user is in copies of the files of accounts that only a mount namespace of the test sees.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import site
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

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
    (context / "Dockerfile").write_text(
        "FROM base\\nCOPY --chown=1234:1234 file /home/alice/\\n"
        "RUN touch /theirs && chown 12:34 /theirs && mkdir /w && chmod 777 /w\\n"
        "USER alice\\nWORKDIR /w\\nRUN id -u > mine; id -g >> mine\\nUSER root\\n"
    )
    async with NamespaceDriver(home=home, allow_ranges=ranges) as driver:
        shelf = ImageShelf(driver, home)
        await shelf.import_archive(root, name="base")
        built = await build_image(shelf, context, "t/built:1", BuildOptions(network=Network(mode="none")))
        async with driver.start(SandboxSpec(root=Root(kind="image", image="t/built:1"))) as box:
            listed = await box.exec(["/bin/sh", "-c", "cd /; ls -n theirs home/alice/* w/*; cat w/mine"])
        await shelf.export("t/built:1", home / "exported.tar")
        shelf.close()
    async with NamespaceDriver(home=home, allow_ranges=ranges) as driver:
        pruned = await ImageShelf(driver, home).prune(everything=True)
        left = [str(path) for path in (home / "images/layers").glob("*/*")]
        print(json.dumps([built.image.mode, listed.stdout.decode(), pruned.layers, left]))

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "ranges"))
"""


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


def _as_user(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    for name, line in FILES.items():
        before = Path("/etc", name).read_text() if Path("/etc", name).exists() else ""
        (home / name).write_text(before + line)
    binds = "; ".join(f"mount --bind {home}/{name} /etc/{name}" for name in FILES)
    become = f"exec setpriv --reuid={USER_ID} --regid={USER_ID} --clear-groups"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = ":".join([str(REPOSITORY / "src"), *site.getsitepackages()])
    return subprocess.run(  # noqa: S603 - our own interpreter
        ["unshare", "-m", "sh", "-ec", f'{binds}; {become} "$@"', "sh", _interpreter(), "-c", BUILD, *words],  # noqa: S607 - util-linux
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def _owners_in(archive: Path) -> dict[str, tuple[int, int]]:
    """The owners of all files of an exported image."""
    found = {}
    with tarfile.open(archive) as image:
        for member in image.getmembers():
            content = image.extractfile(member)
            if content is None or not member.name.startswith("blobs/"):
                continue
            with contextlib.suppress(tarfile.ReadError), tarfile.open(fileobj=io.BytesIO(content.read())) as layer:
                found.update({one.name.removeprefix("./"): (one.uid, one.gid) for one in layer})
    return found


@pytest.mark.slow
@pytest.mark.needs("newuidmap", "unshare", "setpriv")
@pytest.mark.parametrize("kind", ["ranges", "single"])
def test_builds_as_an_ordinary_user(root_tar: Path, kind: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a user for a while")
    # Not below pytest's own folder: every session of root closes that one to others.
    with tempfile.TemporaryDirectory(prefix="termarena-user-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "own").mkdir()
        (home / "root.tar").write_bytes(root_tar.read_bytes())
        os.chown(home / "own", USER_ID, USER_ID)
        done = _as_user(home, str(home / "own"), str(home / "root.tar"), kind)
        assert done.returncode == 0, done.stderr[-3000:]
        mode, listed, layers, left = json.loads(done.stdout)
        exported = _owners_in(home / "own/exported.tar")
    owners = {row.split()[-1]: row.split()[2:4] for row in listed.splitlines() if len(row.split()) > 3}
    expected = {"theirs": ["12", "34"], "home/alice/file": ["1234", "1234"]}
    expected["w/mine"] = ["1234", "1234"]
    assert listed.splitlines()[-2:] == ["1234", "1234"]
    recorded = {"home/alice/file": (1234, 1234), "w/mine": (1234, 1234)}
    assert {name: exported[name] for name in recorded} == recorded
    if kind == "single":
        expected = {name: ["0", "0"] for name in expected}
    assert (mode, owners) == (kind, expected)
    assert layers >= 3
    assert left == []
