"""Real servers on loopback: HTTP with ranges and faults, a hub that looks like Hugging Face's, git over HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import socket
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Request(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]


class Reply(NamedTuple):
    """What to answer; `cut_after` bytes of the body the connection is dropped, or held if `held`."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    cut_after: int | None = None
    held: bool = False


class Site:
    """Answers from `pages`; `faults` for a path are used up first, one for each request."""

    def __init__(self) -> None:
        self.pages: dict[str, Reply] = {}
        self.faults: dict[str, list[Reply]] = {}
        self.requests: list[Request] = []
        self.reached = threading.Event()
        self.released = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.site = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def reply_to(self, path: str) -> Reply:
        return self.pages.get(urlsplit(path).path, Reply(404))

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            self.released.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has above
        """Tests look at `requests`."""

    def do_GET(self) -> None:
        site = self.server.site
        site.requests.append(Request(self.path, dict(self.headers)))
        faults = site.faults.get(urlsplit(self.path).path)
        reply = faults.pop(0) if faults else site.reply_to(self.path)
        self._send(self._ranged(reply) if reply.status == 200 else reply)

    def _ranged(self, reply: Reply) -> Reply:
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if found is None or self.headers.get("If-Range", reply.headers.get("ETag")) != reply.headers.get("ETag"):
            return reply
        start, size = int(found[1]), len(reply.body)
        if start >= size:
            return Reply(416, headers={"Content-Range": f"bytes */{size}"})
        headers = reply.headers | {"Content-Range": f"bytes {start}-{size - 1}/{size}"}
        return reply._replace(status=206, body=reply.body[start:], headers=headers)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if reply.cut_after is None:
            self.wfile.write(reply.body)
            return
        self.wfile.write(reply.body[: reply.cut_after])
        self.wfile.flush()
        if reply.held:
            self.server.site.reached.set()
            self.server.site.released.wait(60)
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(Site):
    """A hub with one dataset repository at one commit, as the public one answers."""

    def __init__(self, name: str = "org/tasks", *, commit: str = COMMIT) -> None:
        super().__init__()
        self.name = name
        self.commit = commit
        self.files: dict[str, bytes] = {}
        self.in_lfs: set[str] = set()
        self.page_size = 1000
        self.moved_to: str | None = None

    def reply_to(self, path: str) -> Reply:
        parts = urlsplit(path)
        api, files = f"/api/datasets/{self.name}/", f"/datasets/{self.name}/resolve/{self.commit}/"
        if parts.path == f"{api}revision/main":
            return _json({"id": self.name, "sha": self.commit})
        if parts.path.startswith(f"{api}tree/{self.commit}"):
            folder = unquote(parts.path.removeprefix(f"{api}tree/{self.commit}").strip("/"))
            return self._listing(folder, parts.path, int(parse_qs(parts.query).get("cursor", ["0"])[0]))
        name = unquote(parts.path.removeprefix(files))
        if parts.path.startswith(files) and name in self.files:
            if self.moved_to is not None:
                return Reply(302, headers={"Location": f"{self.moved_to}{parts.path}?signature=SIGNED"})
            return Reply(body=self.files[name])
        return super().reply_to(path)

    def listing_of(self, name: str) -> dict[str, object]:
        content = self.files[name]
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        row: dict[str, object] = {"type": "file", "oid": blob, "size": len(content), "path": name}
        if name in self.in_lfs:
            row["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return row

    def _listing(self, folder: str, path: str, cursor: int) -> Reply:
        names = sorted(name for name in self.files if not folder or name.startswith(folder + "/"))
        if folder and not names:
            return Reply(404, headers={"X-Error-Code": "EntryNotFound"})
        rows = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder or "tasks"}]
        rows += [self.listing_of(name) for name in names]
        end = cursor + self.page_size
        link = f'<{self.url}{path}?recursive=true&cursor={end}>; rel="next"' if end < len(rows) else None
        return _json(rows[cursor:end], {"Link": link} if link else {})


def _json(value: object, headers: dict[str, str] | None = None) -> Reply:
    return Reply(body=json.dumps(value).encode(), headers={"Content-Type": "application/json", **(headers or {})})


class GitSite(Site):
    """Serves the bare repositories below `root` through `git http-backend`, each at its own path."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.speaks_version_2 = True
        self.login: tuple[str, str] | None = None
        self._server.RequestHandlerClass = _GitHandler


class _GitHandler(_Handler):
    def do_GET(self) -> None:
        site = self.server.site
        assert isinstance(site, GitSite)
        site.requests.append(Request(self.path, dict(self.headers)))
        if site.login is not None:
            expected = base64.b64encode(":".join(site.login).encode()).decode()
            if self.headers.get("Authorization") != f"Basic {expected}":
                self._read_body()
                self._send(Reply(401, headers={"WWW-Authenticate": 'Basic realm="git"'}))
                return
        faults = site.faults.get(urlsplit(self.path).path)
        if faults:
            self._send(faults.pop(0))
            return
        self._send(self._backend(site, self._read_body()))

    do_POST = do_GET  # noqa: N815 - the name that the server looks for

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _backend(self, site: GitSite, body: bytes) -> Reply:
        parts = urlsplit(self.path)
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(site.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": "127.0.0.1",
            "REMOTE_USER": "someone",
        }
        if site.speaks_version_2:
            environment["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        command = ["git", "http-backend"]
        done = subprocess.run(command, input=body, env=environment, capture_output=True, check=True)  # noqa: S603
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        return Reply(int(headers.pop("Status", "200")[:3]), content, headers)
