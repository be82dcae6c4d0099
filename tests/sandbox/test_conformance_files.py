"""Files: what every driver promises about reading, writing, trees, snapshots, forks and diffs."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.support import SNAPSHOT_TIMES, has, out, sh
from termarena.core.errors import ImageError, SandboxBroken, SandboxFileError
from termarena.sandbox import Driver, Feature, Sandbox, SandboxSpec

ODD_NAMES = [
    "new\nline",
    "-rf",
    " space ",
    "ü",
    "quote'\"",
    "back\\slash",
    "*",
    "…" * 60,
    os.fsdecode(b"\xff\xfe"),
    ".hidden",
]


async def test_empty_file(box: Sandbox) -> None:
    await box.write("/root/empty", b"")
    assert await box.read("/root/empty") == b""
    assert await out(box, "stat -c '%s %a %u' /root/empty") == "0 644 0"


async def test_hundred_megabytes(box: Sandbox) -> None:
    content = os.urandom(1 << 20) * 100
    await box.write("/root/big", content)
    assert (await out(box, "sha256sum < /root/big")).split()[0] == hashlib.sha256(content).hexdigest()
    assert await box.read("/root/big") == content


async def test_bytes_survive(box: Sandbox) -> None:
    content = bytes(range(256)) + b"no newline at the end"
    await box.write("/root/bytes", content)
    assert await box.read("/root/bytes") == content


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
async def test_odd_names(box: Sandbox, name: str) -> None:
    await box.write(f"/root/{name}", name.encode(errors="surrogateescape"))
    assert await box.read(f"/root/{name}") == name.encode(errors="surrogateescape")
    assert (await box.exec(["cat", "--", name], cwd="/root")).stdout == name.encode(errors="surrogateescape")


async def test_write_makes_folders_and_sets_mode(box: Sandbox) -> None:
    await box.write("/srv/a/b/tool", b"#!/bin/sh\necho ran\n", mode=0o750)
    assert (await box.exec(["/srv/a/b/tool"])).stdout == b"ran\n"
    assert await out(box, "stat -c %a /srv/a/b/tool") == "750"


async def test_write_replaces(box: Sandbox) -> None:
    await box.write("/root/file", b"long content")
    await box.write("/root/file", b"short")
    assert await box.read("/root/file") == b"short"


async def test_write_for_a_user(driver: Driver, box: Sandbox) -> None:
    if not has(driver, Feature.USERS):
        pytest.skip("one id only")
    await box.write("/home/user/note", b"x", user="user")
    assert await out(box, "stat -c %U /home/user/note") == "user"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/no/such", errno.ENOENT),
        ("/root", errno.EISDIR),
        ("/dev/null", errno.EINVAL),
        ("/etc/passwd/x", errno.ENOTDIR),
    ],
)
async def test_read_of_what_is_no_file(box: Sandbox, path: str, code: int) -> None:
    with pytest.raises(SandboxFileError) as caught:
        await box.read(path)
    assert (caught.value.errno, caught.value.path) == (code, path)


async def test_read_of_a_pipe_does_not_hang(box: Sandbox) -> None:
    await sh(box, "mkfifo /root/pipe")
    with pytest.raises(SandboxFileError, match="not a regular file"):
        await box.read("/root/pipe")


async def test_read_has_a_limit(box: Sandbox) -> None:
    await box.write("/root/file", bytes(2000))
    with pytest.raises(SandboxFileError) as caught:
        await box.read("/root/file", max_bytes=1999)
    assert caught.value.errno == errno.EFBIG
    assert len(await box.read("/root/file", max_bytes=2000)) == 2000


@pytest.mark.parametrize("path", ["relative", "", "/with\0nul"])
async def test_impossible_path(box: Sandbox, path: str) -> None:
    with pytest.raises(ValueError, match="absolute"):
        await box.read(path)


async def test_links_are_followed_inside_only(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    await sh(box, f"ln -s {secret} /root/out; ln -s /etc/passwd /root/in; ln -s ../../../../../../etc/passwd /root/up")
    with pytest.raises(SandboxFileError):
        await box.read("/root/out")
    assert await box.read("/root/in") == await box.read("/etc/passwd") == await box.read("/root/up")


def _make_tree(root: Path) -> None:
    (root / "sub/empty").mkdir(parents=True)
    (root / "sub/file").write_bytes(b"\x00content")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("sub/file")
    (root / "hard").hardlink_to(root / "sub/file")
    for name in ODD_NAMES:
        (root / "sub" / name).write_text("odd")


async def test_tree_there_and_back(box: Sandbox, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    _make_tree(source)
    put = await box.put_tree(source, "/srv/tree")
    assert put.files == 6 + len(ODD_NAMES)
    assert (
        await out(box, "cat /srv/tree/link | od -An -c | tr -d ' '; stat -c %a /srv/tree/run.sh") == "\\0content\n755"
    )
    got = await box.get_tree("/srv/tree", target)
    assert got.skipped == ()
    assert sorted(os.fsencode(p.relative_to(target)) for p in target.rglob("*")) == sorted(
        os.fsencode(p.relative_to(source)) for p in source.rglob("*")
    )
    assert (target / "link").readlink() == Path("sub/file")
    assert (target / "hard").samefile(target / "sub/file")
    assert (target / "run.sh").stat().st_mode & 0o777 == 0o755


async def test_ten_thousand_files(box: Sandbox, tmp_path: Path) -> None:
    script = (
        "import os\nfor d in range(100):\n os.makedirs(f'/srv/a/{d}')\n"
        " for f in range(100): open(f'/srv/a/{d}/{f}', 'w').write(f'{d}/{f}')"
    )
    await box.exec(["/usr/bin/python3", "-c", script])
    assert (await box.get_tree("/srv/a", tmp_path / "tree")).files == 10_100
    assert (await box.put_tree(tmp_path / "tree", "/srv/b")).files == 10_100
    assert await out(box, "find /srv/b -type f | wc -l; cat /srv/b/99/98; diff -r /srv/a /srv/b") == "10000\n99/98"
    assert len((await box.diff()).of("added")) == 20_202


async def test_tree_of_a_missing_folder(box: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(SandboxFileError, match="/nowhere"):
        await box.get_tree("/nowhere", tmp_path / "target")
    with pytest.raises(FileNotFoundError):
        await box.put_tree(tmp_path / "missing", "/srv/tree")


async def test_tree_into_a_full_disk(driver: Driver, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (4 << 20))  # zeros may become a hole, which takes no space
    async with driver.start(SandboxSpec.model_validate({"limits": {"disk_bytes": 2 << 20}})) as box:
        with pytest.raises(SandboxFileError, match="No space left"):
            await box.put_tree(tmp_path, "/srv")
        assert (await box.exec(["true"])).exit_status == 0


async def test_get_tree_leaves_out_what_leads_outside(box: Sandbox, tmp_path: Path) -> None:
    await sh(
        box, "mkdir /srv/t; cd /srv/t; ln -s /etc/passwd a; ln -s ../../x b; mkfifo c; ln -s d/.. e; mkdir d; echo f>f"
    )
    report = await box.get_tree("/srv/t", tmp_path / "target")
    assert report.skipped == ("a", "b", "c")
    assert sorted(path.name for path in (tmp_path / "target").iterdir()) == ["d", "e", "f"]


async def test_files_full_of_holes(driver: Driver, tmp_path: Path) -> None:
    """Files that seem far larger than the disk fill neither the host's disk nor its time."""
    async with driver.start(SandboxSpec.model_validate({"limits": {"disk_bytes": 64 << 20}})) as box:
        assert (await sh(box, "truncate -s 1T /srv/huge")).exit_status != 0
        await sh(box, "mkdir /srv/t; cd /srv/t; for i in $(seq 40); do truncate -s 60M $i; echo x >> $i; done")
        assert len((await box.diff()).of("added")) == 42
        with pytest.raises(SandboxFileError) as caught:
            await box.get_tree("/srv/t", tmp_path / "target", max_bytes=100 << 20)
        assert caught.value.errno == errno.EFBIG
        with pytest.raises(SandboxFileError) as caught:
            await box.snapshot()
        assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize("target", ["/proc/1/environ", "/proc/1/mem", "/proc/self/status", "/sys/kernel/notes"])
async def test_link_into_the_kernel_is_not_followed(box: Sandbox, target: str) -> None:
    await sh(box, f"ln -s {target} /srv/answer")
    with pytest.raises(SandboxFileError):
        await box.read("/srv/answer")
    try:
        await box.write("/srv/answer", b"x")
    except SandboxFileError:
        return
    # The link was replaced by a file of its own.
    assert await out(box, "stat -c %F /srv/answer") == "regular file"


async def test_get_tree_needs_an_empty_target(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "present").touch()
    with pytest.raises(FileExistsError):
        await box.get_tree("/etc", tmp_path)


async def test_put_tree_does_not_go_through_a_link(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_text("x")
    await sh(box, "mkdir /srv/t; ln -s /etc /srv/t/sub")
    with pytest.raises(SandboxFileError):
        await box.put_tree(tmp_path, "/srv/t")
    assert (await sh(box, "test -e /etc/file")).exit_status == 1


async def test_diff_tells_each_kind_of_change(box: Sandbox) -> None:
    await box.write("/srv/kept", b"x")
    await sh(box, "mkdir -p /srv/new/sub; echo a > /srv/new/sub/file; ln -s /x /srv/link; echo more >> /etc/profile")
    await sh(box, "chmod 600 /etc/services; rm /etc/shells; rm -r /etc/skel; mkdir /etc/skel; touch /etc/skel/fresh")
    changes = await box.diff()
    assert set(changes.of("added")) >= {
        "/srv/kept",
        "/srv/new",
        "/srv/new/sub",
        "/srv/new/sub/file",
        "/srv/link",
        "/etc/skel/fresh",
    }
    assert "/etc/profile" in changes.of("modified")
    assert "/etc/services" in changes.of("metadata")
    assert {"/etc/shells", "/etc/skel/.profile"} <= set(changes.of("removed"))
    link = changes.get("/srv/link")
    assert link is not None
    assert (link.kind, link.target) == ("symlink", "/x")


async def test_diff_of_nothing(box: Sandbox) -> None:
    await sh(box, "cat /etc/* >/dev/null 2>&1; ls -R /usr/share/doc > /dev/null; echo x > /srv/x; rm /srv/x; true")
    assert (await box.diff()).changes == ()


async def test_diff_since_a_snapshot(box: Sandbox) -> None:
    await sh(box, "echo 1 > /srv/a; echo 1 > /srv/b; echo 1 > /srv/c; echo 1 > /srv/d")
    snapshot = await box.snapshot()
    await sh(box, "echo 2 > /srv/b; rm /srv/c; chmod 700 /srv/d; echo 1 > /srv/e; touch -d @0 /srv/a")
    changes = await box.diff(snapshot)
    assert [(change.path, change.change) for change in changes.changes] == [
        ("/srv/b", "modified"), ("/srv/c", "removed"), ("/srv/d", "metadata"), ("/srv/e", "added"),
    ]  # fmt: skip
    snapshot.close()


async def test_diff_sees_content_behind_a_reset_time(box: Sandbox) -> None:
    await box.write("/srv/a", b"one")
    snapshot = await box.snapshot()
    await sh(box, "touch -r /srv/a /tmp/ref; printf two > /srv/a; touch -r /tmp/ref /srv/a")
    assert "/srv/a" in (await box.diff(snapshot)).of("modified")
    snapshot.close()


async def test_diff_since_anothers_snapshot(driver: Driver, box: Sandbox) -> None:
    async with driver.start(SandboxSpec()) as other:
        snapshot = await other.snapshot()
        with pytest.raises(ValueError, match="not taken in this sandbox"):
            await box.diff(snapshot)
        snapshot.close()


STATE = (
    "echo changed > /etc/profile; rm /etc/shells; rm -r /etc/skel; mkdir /etc/skel; echo s > /etc/skel/s;"
    " mkdir -m 1777 /srv/d; echo x > /srv/d/x; ln /srv/d/x /srv/d/y; ln -s x /srv/d/z; chmod 4711 /srv/d/x;"
    " mkfifo /srv/d/p; echo t > /usr/t;"
    " touch -d @1234567890.123456789 /srv/d/x; printf 1 > \"/srv/$(printf 'o\\ndd\\377')\""
)


def view(driver: Driver) -> str:
    """A script that shows what the state above made, with times as exact as the driver's snapshots keep them."""
    return VIEW.format(time=SNAPSHOT_TIMES.get(driver.name, "%.9Y"))


VIEW = (
    "cat /etc/profile /usr/t /srv/d/z; ls /etc/shells; ls -A /etc/skel;"
    " stat -c '%n %a %h %F' /srv/d; stat -c '%n %a %h %F %s' /srv/d/*;"
    " stat -c {time} /srv/d/x; ls -b /srv"
)


@pytest.mark.parametrize("sealed", [False, True])
async def test_fork_has_the_same_files(driver: Driver, *, sealed: bool) -> None:
    async with driver.start(SandboxSpec()) as box:
        await sh(box, STATE)
        before = await sh(box, view(driver))
        if sealed:
            await box.seal()
        snapshot = await box.snapshot()
        async with driver.start(snapshot) as first, driver.start(snapshot) as second:
            assert (await sh(first, view(driver))).stdout == before.stdout
            assert (await first.diff()).changes == ()
            await sh(first, "echo other > /etc/profile; rm -r /srv/d; touch /etc/shells")
            assert (await sh(second, view(driver))).stdout == before.stdout
            assert (await first.diff()).of("removed") == ("/srv/d",)
        snapshot.close()


async def test_diff_since_a_snapshot_names_a_removed_folder_alone(box: Sandbox) -> None:
    await sh(box, "mkdir -p /srv/new/deep; echo x >/srv/new/deep/x; echo more >>/etc/profile")
    snapshot = await box.snapshot()
    await sh(box, "rm -r /srv/new /etc/profile")
    since = await box.diff(snapshot)
    assert since.of("removed") == ("/etc/profile", "/srv/new")
    assert since.of("added") == since.of("modified") == ()
    snapshot.close()


async def test_fork_outlives_its_origin(driver: Driver) -> None:
    async with driver.start(SandboxSpec()) as box:
        await sh(box, STATE)
        before = (await sh(box, view(driver))).stdout
        await box.seal()
        snapshot = await box.snapshot()
    async with driver.start(snapshot) as fork:
        assert (await sh(fork, view(driver))).stdout == before
    snapshot.close()


async def test_fork_of_a_fork(driver: Driver, tmp_path: Path) -> None:
    async with driver.start(SandboxSpec()) as box:
        await sh(box, "echo 1 > /srv/one; echo 1 > /srv/gone")
        await box.seal()
        first = await box.snapshot()
        async with driver.start(first) as middle:
            await sh(middle, "echo 2 > /srv/two; rm /srv/gone")
            second = await middle.snapshot()
            async with driver.start(second) as last:
                assert await out(last, "cd /srv; ls; cat *") == "one\ntwo\n1\n2"
                await second.save(tmp_path / "chain.tar")
    loaded = driver.load(tmp_path / "chain.tar")
    async with driver.start(loaded) as last:
        assert await out(last, "cd /srv; ls; cat *") == "one\ntwo\n1\n2"
    for snapshot in (first, second, loaded):
        snapshot.close()


async def test_saved_snapshot_loads_in_another_process(driver: Driver, sandbox_home: Path, tmp_path: Path) -> None:
    async with driver.start(SandboxSpec(env={"MARK": "kept"})) as box:
        await sh(box, STATE)
        before = (await sh(box, view(driver))).stdout
        snapshot = await box.snapshot()
        await snapshot.save(tmp_path / "state.tar")
        snapshot.close()
    program = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "sys.path.insert(0, sys.argv[5])\n"
        "from sandbox.support import DRIVERS\n"
        "async def main():\n"
        " async with DRIVERS[sys.argv[4]](Path(sys.argv[1])) as driver:\n"
        "  async with driver.start(driver.load(Path(sys.argv[2]))) as box:\n"
        "   result = await box.exec(['sh', '-c', 'echo $MARK; ' + sys.argv[3]])\n"
        "   sys.stdout.buffer.write(result.stdout)\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, str(sandbox_home), str(tmp_path / "state.tar"), view(driver)]
    command += [driver.name, str(Path(__file__).parents[1])]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
    assert done.stdout == b"kept\n" + before


async def test_saved_snapshot_of_a_sealed_sandbox(driver: Driver, tmp_path: Path) -> None:
    async with driver.start(SandboxSpec()) as box:
        await sh(box, STATE)
        before = (await sh(box, view(driver))).stdout
        await box.seal()
        snapshot = await box.snapshot()
        await snapshot.save(tmp_path / "state.tar")
        snapshot.close()
    loaded = driver.load(tmp_path / "state.tar")
    async with driver.start(loaded) as fork:
        assert (await sh(fork, view(driver))).stdout == before
    loaded.close()


async def test_sealed_sandbox_is_final(driver: Driver, tmp_path: Path) -> None:
    async with driver.start(SandboxSpec()) as box:
        await sh(box, "setsid sleep 80 >/dev/null 2>&1 & echo x > /srv/x")
        await box.seal()
        assert await box.processes() == ()
        for refused in (box.exec(["true"]), box.write("/srv/y", b""), box.put_tree(tmp_path, "/srv")):
            with pytest.raises(SandboxBroken, match="sealed"):
                await refused
        assert await box.read("/srv/x") == b"x\n"
        assert (await box.diff()).of("added") == ("/srv/x",)


@pytest.mark.parametrize("content", [b"", b"not a tar at all" * 100, bytes(1024)])
def test_file_that_is_no_snapshot(driver: Driver, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ImageError, match="not a snapshot"):
        driver.load(tmp_path / "file")


def test_snapshot_that_does_not_exist(driver: Driver, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="No such file"):
        driver.load(tmp_path / "missing")
