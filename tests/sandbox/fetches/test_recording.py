"""What real clients fetch in a sandbox is kept, and given again when the servers are gone."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import socket
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox.fetches.internet import serving, wheel
from termarena.core.errors import CapabilityMissing, DigestMismatch, FetchError, FetchNotRecorded, TaskFormatError
from termarena.core.scrub import Scrubber
from termarena.sandbox import Network, Root, SandboxSpec
from termarena.sandbox.docker import DockerDriver
from termarena.sandbox.fetches import open_fetches, read_index
from termarena.sandbox.fetches.addresses import bare_address
from termarena.sandbox.fetches.exchange import Asked
from termarena.sandbox.fetches.index import merge_index, recording_digest
from termarena.sandbox.fetches.neighbours import ask_plainly
from termarena.sandbox.fetches.plan import FetchPlan
from termarena.sandbox.fetches.recording import Recorder
from termarena.sandbox.namespace import NamespaceDriver
from termarena.sandbox.spec import Fetches

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from sandbox.fetches.internet import Internet
    from termarena.sandbox import ExecResult

HOST = Root(kind="host")
pytestmark = pytest.mark.needs("user-namespaces")


@pytest.fixture
def internet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Internet]:
    with serving(tmp_path) as found:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.crt"))
        yield found


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[NamespaceDriver]:
    async with NamespaceDriver(home=tmp_path / "home") as opened:
        yield opened


class Bench:
    """Runs a script in sandboxes that record, or replay."""

    def __init__(self, driver: NamespaceDriver | DockerDriver, folder: Path, root: Root = HOST) -> None:
        self.driver = driver
        self.folder = folder
        self.root = root

    async def record(self, script: str, internet: Internet) -> ExecResult:
        return await self._run(script, Fetches(mode="record", folder=self.folder), internet.hosts)

    async def replay(self, script: str) -> ExecResult:
        # The servers may still be there: nothing is to be asked of them.
        return await self._run(script, Fetches(mode="replay", folder=self.folder), ("*.nowhere",))

    async def _run(self, script: str, fetches: Fetches, hosts: tuple[str, ...]) -> ExecResult:
        network = Network(mode="allowlist", allowed_hosts=hosts)
        spec = SandboxSpec(root=self.root, network=network, fetches=fetches)
        async with self.driver.start(spec) as box:
            return await box.exec(["/bin/sh", "-c", script], timeout_s=120)


@pytest.fixture
def bench(embedded: NamespaceDriver, tmp_path: Path) -> Bench:
    return Bench(embedded, tmp_path / "fetches")


async def test_curl_over_both_schemes(bench: Bench, internet: Internet) -> None:
    internet.files["/data.bin"] = bytes(range(256)) * 4096
    internet.moved["/latest"] = "/data.bin"
    script = f"""set -e
    curl -fsS http://{internet.http}/data.bin | sha256sum
    curl -fsSL https://{internet.https}/latest | sha256sum
    curl -s -o /dev/null -w '%{{http_code}}\\n' https://{internet.https}/gone
    """
    recorded = await bench.record(script, internet)
    assert recorded.exit_status == 0, recorded.stderr
    assert len(set(recorded.stdout.split(b"\n")[:2])) == 1
    assert recorded.stdout.endswith(b"404\n")
    asked = len(internet.asked)
    replayed = await bench.replay(script)
    assert (replayed.exit_status, replayed.stdout) == (0, recorded.stdout), replayed.stderr
    assert len(internet.asked) == asked == 4
    paths = [path.name for path in (bench.folder / "sha256").iterdir()]
    assert len(paths) == 3  # the file once for both addresses, the empty redirect, the error page


async def test_a_connection_through_the_proxy_is_used_once(tmp_path: Path) -> None:
    """The proxy ends it after one answer: a second request may come too late, and would be recorded as not reached."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1\n")
        writer.close()

    network = Network(mode="allowlist", allowed_hosts=("127.0.0.9",))
    async with await asyncio.start_server(serve, "127.0.0.9", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with Recorder(tmp_path / "kept", network, Scrubber()) as recorder:
            for name in ("one", "two"):
                answer = await recorder.answer(Asked("GET", f"http://127.0.0.9:{port}/{name}", {}))
                assert [part async for part in answer.body] == [b"1\n"]
    assert connections == 2


async def test_a_server_of_the_sandbox_is_sent_what_came_in_pieces() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=theirs)
    headers = {"host": "web", "transfer-encoding": "chunked", "x-name": "M\xfcller"}
    asking = asyncio.create_task(ask_plainly(ours, Asked("POST", "http://web/in", headers, b"a body"), path="/in"))
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"POST /in HTTP/1.1\r\n")
        assert {b"x-name: M\xfcller", b"content-length: 6", b"connection: close"} <= set(head.split(b"\r\n"))
        assert b"chunked" not in head
        assert await reader.readexactly(6) == b"a body"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
        answer = await asking
        assert (answer.status, [chunk async for chunk in answer.body]) == (200, [b"done"])
    writer.close()


async def test_pip_installs_from_an_index(bench: Bench, internet: Internet) -> None:
    internet.files["/simple/tiny/"] = f'<a href="https://{internet.https}/f/tiny-1.0-py3-none-any.whl">t</a>'.encode()
    internet.files["/f/tiny-1.0-py3-none-any.whl"] = wheel("tiny", "WORD = 'installed'\n")
    # The pip that Debian's own `venv` would unpack, as it lies there.
    script = f"""set -e; export PYTHONPATH=$(echo /usr/share/python-wheels/pip-*.whl) PIP_DISABLE_PIP_VERSION_CHECK=1
    /usr/bin/python3 -m pip install -q --target /tmp/t --index-url https://{internet.https}/simple tiny
    PYTHONPATH=/tmp/t /usr/bin/python3 -c 'import tiny; print(tiny.WORD)'"""
    recorded = await bench.record(script, internet)
    assert (recorded.exit_status, recorded.stdout) == (0, b"installed\n"), recorded.stderr
    replayed = await bench.replay(script)
    assert (replayed.exit_status, replayed.stdout) == (0, b"installed\n"), replayed.stderr


@pytest.fixture
def repository(internet: Internet, tmp_path: Path) -> str:
    """The address of a repository with one file, behind git's own server."""
    work = tmp_path / "repositories/one"
    commands = f"""git init -q {work}; cd {work}; git config user.email a@b.c; git config user.name a
    echo cloned > file; git add file; git commit -qm one"""
    subprocess.run(["/bin/sh", "-ec", commands], check=True)  # noqa: S603 - our own words
    internet.repositories = tmp_path / "repositories"
    return f"https://{internet.https}/git/one"


async def test_git_clones(bench: Bench, internet: Internet, repository: str) -> None:
    script = f"git clone -q {repository} /tmp/r && cat /tmp/r/file"
    recorded = await bench.record(script, internet)
    assert (recorded.exit_status, recorded.stdout) == (0, b"cloned\n"), recorded.stderr
    asked = list(internet.asked)
    assert "POST /git/one/git-upload-pack" in asked
    replayed = await bench.replay(script)
    assert (replayed.exit_status, replayed.stdout) == (0, b"cloned\n"), replayed.stderr
    assert internet.asked == asked


RELEASE = "Origin: tests\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nValid-Until: Fri, 02 Jan 2026 00:00:00 UTC\n"


@pytest.mark.needs("apt-get", "dpkg-deb")
async def test_apt_takes_an_archive_that_is_valid_no_more(bench: Bench, internet: Internet, tmp_path: Path) -> None:
    package, name = await asyncio.to_thread(_package, tmp_path), "tiny_1.0_all.deb"
    facts = [f"Filename: ./{name}", f"Size: {len(package)}", f"SHA256: {hashlib.sha256(package).hexdigest()}"]
    listed = (CONTROL + "\n".join(facts) + "\n").encode()
    release = f"{RELEASE}SHA256:\n {hashlib.sha256(listed).hexdigest()} {len(listed)} Packages\n"
    internet.files |= {"/Release": release.encode(), "/Packages": listed, f"/{name}": package}
    script = f"""set -e; mkdir -p /tmp/a/state/lists/partial /tmp/a/cache/archives/partial; cd /tmp/a; : > status
    echo 'deb [trusted=yes] https://{internet.https} ./' > list
    set -- -q -o Dir::Etc::sourcelist=/tmp/a/list -o Dir::Etc::sourceparts=- -o Dir::State=/tmp/a/state \
        -o Dir::State::status=/tmp/a/status -o Dir::Cache=/tmp/a/cache -o APT::Sandbox::User=root
    apt-get "$@" update && apt-get "$@" download tiny && dpkg-deb -f {name} Package"""
    recorded = await bench.record(script, internet)
    assert recorded.exit_status == 0, (recorded.stdout, recorded.stderr)
    replayed = await bench.replay(script)
    assert (replayed.exit_status, replayed.stdout[-5:]) == (0, b"tiny\n"), (replayed.stdout, replayed.stderr)


CONTROL = "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: Tests <a@b.c>\nDescription: tiny\n"


def _package(folder: Path) -> bytes:
    (folder / "deb/DEBIAN").mkdir(parents=True)
    (folder / "deb/DEBIAN/control").write_text(CONTROL)
    subprocess.run(["dpkg-deb", "-b", str(folder / "deb"), str(folder / "tiny.deb")], check=True, capture_output=True)  # noqa: S603, S607 - Debian's own
    return (folder / "tiny.deb").read_bytes()


async def test_commands_of_a_living_sandbox_go_through_a_recording_for_a_while(
    bench: Bench, internet: Internet
) -> None:
    internet.files["/one"] = b"1"
    script = (
        f"curl -fsS https://{internet.https}/one; ls /dev/termarena* 2>/dev/null | wc -l; echo ${{CURL_CA_BUNDLE:-}}"
    )
    network = Network(mode="allowlist", allowed_hosts=internet.hosts)
    async with bench.driver.start(SandboxSpec(network=network)) as box:
        async with box.through(Fetches(mode="record", folder=bench.folder)):
            recorded = await box.exec(["/bin/sh", "-c", script])
        assert recorded.stdout.startswith(b"13\n/dev/"), recorded
        async with box.through(Fetches(mode="replay", folder=bench.folder)):
            assert (await box.exec(["/bin/sh", "-c", script])).stdout == recorded.stdout
        assert internet.asked == ["GET /one"]
        # Without it the certificate is not trusted, nothing is left of it, and the plain way is as it was.
        assert (await box.exec(["/bin/sh", "-c", script])).stdout == b"0\n\n"
        assert (await box.exec(["curl", "-fsS", f"http://{internet.http}/one"])).stdout == b"1"


async def test_what_was_not_recorded_is_a_fault_that_names_it_and_never_asked_for(
    bench: Bench, internet: Internet
) -> None:
    internet.files["/one"] = b"1"
    await bench.record(f"curl -fsS http://{internet.http}/one", internet)
    asked = list(internet.asked)
    with pytest.raises(FetchNotRecorded) as caught:
        await bench.replay(f"curl -s https://{internet.https}/two; curl -s http://{internet.http}/one; true")
    assert caught.value.requests == (f"GET https://{internet.https}/two",)
    assert "--record-fetches" in str(caught.value.hint)
    assert internet.asked == asked


async def test_a_failing_command_does_not_hide_the_fetch_that_is_missing(bench: Bench, internet: Internet) -> None:
    with pytest.raises(FetchNotRecorded, match="GET http://"):
        await bench.replay(f"curl -fsS http://{internet.http}/one; exit 3")


async def test_what_is_fetched_is_bounded(internet: Internet, tmp_path: Path) -> None:
    internet.files["/large"] = bytes(100_000)
    network = Network(mode="allowlist", allowed_hosts=internet.hosts)
    async with Recorder(tmp_path / "kept", network, Scrubber(), most_bytes=1000) as recorder:
        answer = await recorder.answer(Asked("GET", f"http://{internet.http}/large", {}))
        with pytest.raises(FetchError, match="more than 1000 bytes"):
            async for _ in answer.body:
                pass
        assert isinstance(recorder.fault, FetchError)
    assert list((tmp_path / "kept/sha256").iterdir()) == []


async def test_another_request_than_a_reading_one_is_not_sent_and_says_so_again(
    bench: Bench, internet: Internet
) -> None:
    script = f"curl -s -o /dev/null -w '%{{http_code}}' -d sent http://{internet.http}/form"
    recorded = await bench.record(script, internet)
    assert recorded.stdout == b"501"
    assert internet.asked == []
    assert "POST is not recorded" in read_index(bench.folder)[0].problem
    assert (await bench.replay(script)).stdout == b"501"
    assert (await bench.replay(script.replace("sent", "sent-later"))).stdout == b"501"


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("author=ann&keyword=one", "author=ann&keyword=one"),
        ("api_key=a&oauth=b&AuthToken=c", "api_key=hidden&oauth=hidden&AuthToken=hidden"),
    ],
)
def test_queries_that_only_sound_like_secrets_are_told_apart(query: str, written: str) -> None:
    assert bare_address(f"http://host/x?{query}", Scrubber()) == f"http://host/x?{written}"


async def test_the_length_of_a_file_is_told_again_without_the_file(bench: Bench, internet: Internet) -> None:
    internet.files["/data.bin"] = b"x" * 1234
    script = f"curl -fsSI http://{internet.http}/data.bin | tr -d '\\r' | grep -i ^content-length"
    recorded = await bench.record(script, internet)
    assert recorded.stdout.lower() == b"content-length: 1234\n"
    assert (await bench.replay(script)).stdout.lower() == recorded.stdout.lower()


async def test_a_server_that_is_not_there_is_not_there_again(bench: Bench, internet: Internet) -> None:
    script = f"curl -s -o /dev/null -w '%{{http_code}}' {internet.https.partition(':')[0]}:1/x; true"
    nobody = replace(internet, hosts=("127.0.0.9:1",))
    assert (await bench.record(script, nobody)).stdout == b"502"
    assert (await bench.replay(script)).stdout == b"502"


async def test_no_secret_is_written(bench: Bench, internet: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_TOKEN", "correct-horse-battery")
    internet.files["/file"] = b"content"
    internet.moved["/go"] = f"http://{internet.http}/file?X-Amz-Signature=deadbeef42&part=1"
    script = f"""curl -fsS -u me:hunter2hunter2 -H 'X-Key: abcdefghijkl' 'http://{internet.http}/file?token=sesame42&a=b'
    curl -fsSL http://{internet.http}/go; curl -fsS 'http://{internet.http}/file?q=correct-horse-battery'"""
    recorded = await bench.record(script, internet)
    assert recorded.stdout == b"content" * 3, recorded.stderr
    assert len(internet.authorizations) == 1
    assert "GET /file?token=sesame42&a=b" in internet.asked
    written = (bench.folder / "fetches.json").read_text()
    words = ("hunter2", "bWU6", "abcdefghijkl", "sesame42", "deadbeef42", "correct-horse", "cookie-monster")
    assert [word for word in words if word in written] == []
    assert "a=b" in written
    assert (await bench.replay(script)).stdout == b"content" * 3


async def test_a_content_that_was_changed_is_refused(bench: Bench, internet: Internet) -> None:
    internet.files["/one"] = b"original"
    script = f"curl -fsS http://{internet.http}/one || true"
    await bench.record(script, internet)
    (content,) = (bench.folder / "sha256").iterdir()
    content.write_bytes(b"tampered")
    with pytest.raises(DigestMismatch, match=content.name):
        await bench.replay(script)
    content.unlink()
    content.symlink_to("/etc/hostname")
    with pytest.raises(DigestMismatch, match=content.name):
        await bench.replay(script)


@pytest.mark.needs("docker")
@pytest.mark.skipif(os.geteuid() != 0, reason="a container's network is entered by root only")
async def test_a_container_is_recorded_and_given_the_same_again(internet: Internet, tmp_path: Path) -> None:
    internet.files["/one"] = b"fetched"
    script = f"python3 -c \"import urllib.request as u; print(u.urlopen('https://{internet.https}/one').read())\""
    async with DockerDriver(home=tmp_path / "home") as driver:
        bench = Bench(driver, tmp_path / "fetches", Root(kind="image", image="debian:bookworm"))
        assert (await bench.record(script, internet)).stdout == b"b'fetched'\n"
        assert (await bench.replay(script)).stdout == b"b'fetched'\n"
        assert internet.asked == ["GET /one"]
        spec = SandboxSpec(root=Root(kind="dockerfile", path=tmp_path), fetches=Fetches(mode="replay", folder=tmp_path))
        with pytest.raises(CapabilityMissing, match="recorded fetches"):
            await driver.prepare(spec)


ENTRY = {
    "method": "GET",
    "url": "http://host/x",
    "status": 200,
    "digest": f"sha256:{'0' * 64}",
    "size_bytes": 1,
    "recorded_at": "2026-11-15T00:00:00+00:00",
}


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "sha256:../../etc/passwd"},
        {"digest": "md5:0"},
        {"url": "file:///etc/passwd"},
        {"url": "http://host/x\r\nX: y"},
        {"status": 101},
        {"status": "200"},
        {"headers": {"set-cookie": "a=b"}},
        {"headers": {"location": "x\r\nSet-Cookie: a=b"}},
        {"headers": {"transfer-encoding": "chunked"}},
        {"headers": {"content-length": "5"}},
        {"method": "HEAD", "headers": {"content-length": "5, 6"}},
        {"size_bytes": -1},
        {"more": 1},
    ],
    ids=str,
)
def test_an_index_that_is_made_to_do_harm_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    def write(entries: list[dict[str, object]]) -> None:
        document = {"schema_version": 1, "kind": "fetches", "entries": entries}
        (tmp_path / "fetches.json").write_text(json.dumps(document))

    write([dict(ENTRY)])
    assert read_index(tmp_path)[0].url == "http://host/x"
    write([{**ENTRY, **change}])
    with pytest.raises(TaskFormatError, match=r"fetches\.json"):
        read_index(tmp_path)
    write([dict(ENTRY), dict(ENTRY)])
    with pytest.raises(TaskFormatError, match="two of the same request"):
        read_index(tmp_path)


def test_a_recording_of_a_task_is_where_its_folder_is_whatever_a_link_says(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task/fetches").symlink_to(tmp_path)
    assert FetchPlan("record").of(tmp_path / "task", "t").folder == tmp_path.resolve() / "task/fetches"


@pytest.mark.parametrize("place", [".", "sha256", ".fetches.json.lock"])
async def test_links_in_a_recording_are_not_followed(place: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("kept")
    folder = tmp_path / "fetches"
    if place == ".":
        folder.symlink_to(theirs)
    else:
        folder.mkdir()
        (folder / place).symlink_to(theirs / "file" if place.endswith("lock") else theirs)
    with pytest.raises(TaskFormatError, match="a link"):
        async with open_fetches(Fetches(mode="record", folder=folder), Network()):
            pytest.fail("it was opened")
    assert [path.name for path in theirs.iterdir()] == ["file"]


def test_a_lock_that_became_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / ".fetches.json.lock").symlink_to(tmp_path / "file")
    with pytest.raises(OSError, match="symbolic"):
        merge_index(tmp_path, ())
    assert (tmp_path / "file").read_text() == "kept"


def test_an_index_that_is_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "fetches.json").mkdir()
    with pytest.raises(TaskFormatError, match=r"fetches\.json"):
        recording_digest(tmp_path)
