"""Servers on loopback that stand for the internet: files over HTTP and HTTPS, and what was asked for."""

from __future__ import annotations

import base64
import hashlib
import io
import threading
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from termarena.sandbox.fetches.authority import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Not 127.0.0.1, which clients do not ask a proxy for.
PLACE = "127.0.0.9"


@dataclass
class Internet:
    """What there is to fetch."""

    files: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """`METHOD path` of everything that was asked for."""
    authorizations: list[str] = field(default_factory=list)
    http: str = ""
    https: str = ""
    hosts: tuple[str, ...] = ()


def _handler(internet: Internet) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            internet.asked.append(f"{self.command} {self.path}")
            internet.authorizations += [
                value for name, value in self.headers.items() if name.lower() == "authorization"
            ]
            path = self.path.partition("?")[0]
            if path in internet.moved:
                self._send(302, b"", {"Location": internet.moved[path]})
            elif path in internet.files:
                self._send(200, internet.files[path], {"Set-Cookie": "session=cookie-monster", "ETag": '"one"'})
            else:
                self._send(404, b"no such file\n", {})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            is_page = self.path.endswith("/")
            self.send_header("Content-Type", "text/html" if is_page else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(folder: Path, place: str = PLACE) -> Iterator[Internet]:
    """Both servers; `folder` gets the certificate that clients of the second have to trust."""
    internet, authority = Internet(), Authority()
    (folder / "trusted.crt").write_bytes(authority.certificate)
    plain = ThreadingHTTPServer((place, 0), _handler(internet))
    secure = ThreadingHTTPServer((place, 0), _handler(internet))
    secure.socket = authority.context_for(place).wrap_socket(secure.socket, server_side=True)
    internet.http, internet.https = (f"{place}:{server.server_address[1]}" for server in (plain, secure))
    internet.hosts = (internet.http, internet.https)
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in (plain, secure)]
    for thread in threads:
        thread.start()
    try:
        yield internet
    finally:
        for server in (plain, secure):
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()


def wheel(name: str, code: str) -> bytes:
    """A wheel of one module."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": code,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_encoded(text)},{len(text)}\n" for path, text in files.items()]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": "".join(rows) + f"{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return out.getvalue()


def _encoded(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
