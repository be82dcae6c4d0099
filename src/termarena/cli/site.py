"""The site of the documentation: where it is, how a clone builds it, and a server for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import termarena
from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SiteServer", "current_site", "site_server"]

_INSTALLED: Final = Path(termarena.__file__).parent / "site"
_CLONE: Final = Path(termarena.__file__).resolve().parents[2]
# What the pages are made from, in a clone.
_SOURCES: Final = (
    "mkdocs.yml",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "docs",
    "examples",
    "scripts",
    "src",
)
_SELF_ALONE: Final = "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'"


def current_site(*, clone: Path = _CLONE, on_build: Callable[[], None] = lambda: None) -> Path:
    """The folder of the site: the one that was installed, else the clone's, built where it is missing or old.

    Raises `UsageError` where there is neither a site nor what builds it, and where a build fails.
    """
    if (_INSTALLED / "index.html").is_file():
        return _INSTALLED
    if not (clone / "mkdocs.yml").is_file():
        hint = "install a wheel that `make dist` built, or run `make docs` in a clone and install from there"
        raise UsageError("this installation carries no documentation", hint=hint)
    site = clone / "site"
    if _is_current(site, clone):
        return site
    if find_spec("mkdocs") is None:
        raise UsageError("the pages have not been built, and MkDocs is not installed here", hint="run `make docs`")
    on_build()
    _build(clone, site)
    return site


def _is_current(site: Path, clone: Path) -> bool:
    built = site / "index.html"
    return built.is_file() and built.stat().st_mtime >= max(map(_changed_at, _inputs(clone)))


def _changed_at(path: Path) -> float:
    return path.stat().st_mtime


def _inputs(clone: Path) -> Iterator[Path]:
    for name in _SOURCES:
        place = clone / name
        yield place
        yield from (path for path in place.rglob("*") if path.suffix in {".md", ".py", ".png", ".svg", ".toml"})


def _build(clone: Path, site: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=clone,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise UsageError(
            f"the pages do not build: {done.stderr.strip()[-400:]}", hint="run `make docs` to see all of it"
        )


class SiteServer(ThreadingHTTPServer):
    """Files of one folder over HTTP; `url` is where."""

    daemon_threads = True

    def __init__(self, folder: Path, *, host: str, port: int) -> None:
        """Bind. Raises `OSError` where the address is taken or is none."""
        self.folder = folder
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Pages)
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self.server_address[1]}"


def site_server(folder: Path, *, host: str, port: int) -> SiteServer:
    """A server that is bound and does not serve yet. Raises `UsageError` where the address is taken or is none."""
    try:
        return SiteServer(folder, host=host, port=port)
    except OSError as error:
        hint = "choose another --port, or 0 for any"
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}", hint=hint) from error


class _Pages(SimpleHTTPRequestHandler):
    server: SiteServer

    def __init__(self, request: Any, address: Any, server: SiteServer) -> None:  # noqa: ANN401 - socketserver's own
        super().__init__(request, address, server, directory=str(server.folder))

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", _SELF_ALONE)
        self.send_header("X-Content-Type-Options", "nosniff")
        super().end_headers()

    def list_directory(self, _path: str | os.PathLike[str]) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, *_words: object) -> None:
        """Requests are nobody's talk."""
