"""Pulls from Debian's own registry, and from one that wants tokens, breaks off and lies."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from sandbox.images.making import MadeImage, entry, tar_of
from sandbox.support import out
from termarena.core.errors import FetchError, ImageError, UsageError
from termarena.sandbox import Root, SandboxSpec
from termarena.sandbox.images import PullOptions
from termarena.sandbox.images.config import digest_of
from termarena.sandbox.images.credentials import find_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox.images.making import PushTarget
    from termarena.sandbox.images import ImageShelf

needs_registry = pytest.mark.needs("docker-registry")


@needs_registry
@pytest.mark.parametrize("packing", ["gzip", "zstd"])
async def test_pull_and_run(shelf: ImageShelf, registry: PushTarget, root_layer: bytes, packing: str) -> None:
    image = MadeImage([root_layer, tar_of(entry("hello", b"hi"))], {"Env": ["A=b"]}, packing=packing)
    digest = registry.push(f"tests/{packing}", "1", image)
    name = f"{registry.host}/tests/{packing}:1"
    seen: list[tuple[int, int | None]] = []
    got = await shelf.pull(name, PullOptions(on_progress=lambda done, total: seen.append((done, total))))
    assert got.manifest_digest == digest
    assert seen[-1] == (sum(map(len, image.packed())),) * 2
    assert list((shelf.store.folder / "partial").iterdir()) == []
    spec = SandboxSpec(root=Root(kind="image", image=name))
    async with shelf.driver.start(spec) as box:
        assert await out(box, "cat /hello; echo $A") == "hib"
    prepared = await shelf.driver.prepare(spec)
    assert prepared.was_cached
    assert prepared.image_digest == got.id
    assert prepared.digest == digest_of("\n".join(got.config.diff_ids).encode())


@needs_registry
async def test_a_start_pulls_what_is_missing_and_layers_are_shared(
    shelf: ImageShelf, registry: PushTarget, root_layer: bytes
) -> None:
    for tag in ("1", "2"):
        registry.push("tests/shared", tag, MadeImage([root_layer, tar_of(entry("tag", tag.encode()))]))
    for tag in ("1", "2"):
        spec = SandboxSpec(root=Root(kind="image", image=f"{registry.host}/tests/shared:{tag}"))
        async with shelf.driver.start(spec) as box:
            assert await out(box, "cat /tag") == tag
    assert len([path for path in shelf.store.layers_folder.iterdir() if not path.name.startswith(".")]) == 3


@needs_registry
async def test_the_manifest_for_this_machine_is_taken(
    shelf: ImageShelf, registry: PushTarget, root_layer: bytes
) -> None:
    ours = MadeImage([root_layer])
    other = MadeImage([tar_of(entry("other", b""))], architecture="s390x")
    registry.push_index("tests/many", "1", [other, ours])
    registry.push_index("tests/foreign", "1", [other])
    got = await shelf.pull(f"{registry.host}/tests/many:1")
    assert got.config.diff_ids == (digest_of(ours.layers[0]),)
    with pytest.raises(ImageError, match=r"there is none for linux/.*linux/s390x") as caught:
        await shelf.pull(f"{registry.host}/tests/foreign:1")
    assert caught.value.cause == "task"


@needs_registry
async def test_what_is_not_there_is_the_tasks_fault(shelf: ImageShelf, registry: PushTarget) -> None:
    with pytest.raises(ImageError, match="is not in the registry") as caught:
        await shelf.pull(f"{registry.host}/tests/nothing:1")
    assert caught.value.cause == "task"
    with pytest.raises(FetchError):
        await shelf.pull("127.0.0.1:1/tests/nothing:1")


@needs_registry
async def test_a_mirror_is_asked_first_and_a_dead_one_is_passed_over(
    shelf: ImageShelf, registry: PushTarget, root_layer: bytes
) -> None:
    registry.push("tests/mirrored", "1", MadeImage([root_layer]))
    options = PullOptions(mirrors={"registry.invalid": f"http://{registry.host}"})
    got = await shelf.pull("registry.invalid/tests/mirrored:1", options)
    assert got.name == "registry.invalid/tests/mirrored:1"
    said: list[str] = []
    dead = PullOptions(mirrors={registry.host: "http://127.0.0.1:1"}, on_log=said.append)
    await shelf.pull(f"{registry.host}/tests/mirrored:1", dead)
    assert "does not help" in said[0]


class _Difficult(BaseHTTPRequestHandler):
    """A registry that wants a token, breaks off the first download, and may send something else."""

    image: ClassVar[MadeImage]
    seen: ClassVar[list[str]]
    lies: ClassVar[bool] = False

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the base class's signature
        """Tests are silent."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/token":
            self._token(parse_qs(url.query))
        elif self.headers.get("Authorization") != "Bearer of-the-token":
            host = self.headers["Host"]
            self.send_response(401)
            challenge = f'Bearer realm="http://{host}/token",service="tests",scope="repository:a/b:pull"'
            self.send_header("WWW-Authenticate", challenge)
            self.end_headers()
        elif "/manifests/" in url.path:
            self._send(self.image.manifest())
        else:
            self._blob(url.path.rpartition("/")[2])

    def _token(self, query: dict[str, list[str]]) -> None:
        expected = "Basic " + base64.b64encode(b"alice:secret").decode()
        if self.headers.get("Authorization") != expected or query["scope"] != ["repository:a/b:pull"]:
            self.send_response(401)
            self.end_headers()
            return
        self._send(json.dumps({"token": "of-the-token"}).encode())

    def _blob(self, digest: str) -> None:
        blobs = {digest_of(blob): blob for blob in (*self.image.packed(), self.image.config_json())}
        content = blobs[digest]
        if digest == digest_of(self.image.config_json()):
            self._send(content)
            return
        asked = self.headers.get("Range")
        self.seen.append(asked or "whole")
        if self.lies:
            self._send(bytes(len(content)))
        elif asked is None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        else:
            self.send_response(206)
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            self._send(content[start:], is_begun=True)

    def _send(self, body: bytes, *, is_begun: bool = False) -> None:
        if not is_begun:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def difficult(image: MadeImage, *, lies: bool = False) -> Iterator[tuple[str, list[str]]]:
    seen: list[str] = []
    handler = type("Handler", (_Difficult,), {"image": image, "seen": seen, "lies": lies})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def log_in(folder: Path, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    auth = base64.b64encode(b"alice:secret").decode()
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))


async def test_a_token_is_fetched_and_a_broken_download_goes_on(
    shelf: ImageShelf, root_layer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = MadeImage([root_layer])
    with difficult(image) as (host, seen):
        with pytest.raises(ImageError, match="no token was given"):
            await shelf.pull(f"{host}/a/b:1")
        log_in(tmp_path / "docker", host, monkeypatch)
        got = await shelf.pull(f"{host}/a/b:1")
    assert got.config.diff_ids == (digest_of(image.layers[0]),)
    assert seen == ["whole", f"bytes={len(image.packed()[0]) // 2}-"]


async def test_a_layer_that_is_not_of_its_digest_is_refused(
    shelf: ImageShelf, root_layer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with difficult(MadeImage([root_layer]), lies=True) as (host, _):
        log_in(tmp_path / "docker", host, monkeypatch)
        with pytest.raises(ImageError, match="arrived damaged") as caught:
            await shelf.pull(f"{host}/a/b:1")
    assert caught.value.cause == "infra"
    assert "secret" not in str(caught.value)
    assert list((shelf.store.folder / "partial").iterdir()) == []


def test_credentials_come_from_a_helper_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-tests"
    helper.write_text('#!/bin/sh\nread host\necho "{\\"Username\\": \\"u\\", \\"Secret\\": \\"of $host\\"}"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {"example.org": "tests"}, "auths": {}}))
    found = find_credentials("example.org")
    assert found is not None
    assert (found.user, found.password) == ("u", "of example.org")
    assert "of example.org" not in repr(found)
    assert find_credentials("other.example") is None
    (tmp_path / "config.json").write_text(json.dumps({"credsStore": "missing"}))
    with pytest.raises(UsageError, match="docker-credential-missing is not installed"):
        find_credentials("example.org")
