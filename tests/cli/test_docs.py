"""`termarena docs`: which site it serves, to whom, and what it says where there is none."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from running import PATIENCE_S, termarena
from termarena.cli import site
from termarena.cli.site import current_site, site_server
from termarena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = tmp_path / "site"
    (pages / "empty").mkdir(parents=True)
    (pages / "index.html").write_text("<p>the first page</p>")
    (tmp_path / "secret.txt").write_text("not a page")
    return pages


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    with site_server(folder, host="127.0.0.1", port=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def _get(url: str, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    connection.request("GET", path)
    return connection.getresponse()


def test_it_serves_pages_and_lets_them_load_nothing_from_elsewhere(folder: Path) -> None:
    with _served(folder) as url:
        answer = _get(url, "/")
        assert (answer.status, answer.read()) == (200, b"<p>the first page</p>")
        assert (answer.headers["Content-Security-Policy"] or "").startswith("default-src 'self'")


@pytest.mark.parametrize("path", ["/empty/", "/nowhere.html", "/../secret.txt", "/%2e%2e/secret.txt"])
def test_it_serves_nothing_else(folder: Path, path: str) -> None:
    with _served(folder) as url:
        assert _get(url, path).status == 404


def test_an_address_that_others_can_reach_is_asked_for_twice() -> None:
    done = termarena("docs", "--host", "0.0.0.0", "--no-open")  # noqa: S104 - that is what is refused
    assert done.returncode == 2
    assert "--public" in done.stderr


def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    with (
        _served(folder) as url,
        pytest.raises(UsageError, match="cannot listen") as refused,
    ):
        site_server(folder, host="127.0.0.1", port=urlsplit(url).port or 0)
    assert "--port" in (refused.value.hint or "")


def test_the_installed_site_is_taken_first(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_INSTALLED", folder)
    assert current_site(clone=tmp_path) == folder


def test_an_installation_without_a_site_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no documentation") as refused:
        current_site(clone=tmp_path)
    assert "make docs" in (refused.value.hint or "")


def _clone(tmp_path: Path) -> Path:
    for name in ("docs", "examples", "scripts", "src", "benchmarks"):
        (tmp_path / name).mkdir()
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md"):
        (tmp_path / name).write_text("")
    (tmp_path / "mkdocs.yml").write_text("site_name: small\nplugins: []\n")
    (tmp_path / "docs" / "index.md").write_text("# First\n")
    return tmp_path


@pytest.mark.slow
def test_a_clone_builds_its_site_when_it_is_missing_or_old(tmp_path: Path) -> None:
    clone, builds = _clone(tmp_path), []
    for _ in range(2):
        built = current_site(clone=clone, on_build=lambda: builds.append("built"))
    assert (builds, built) == (["built"], clone / "site")
    assert "First" in (built / "index.html").read_text()

    (clone / "docs" / "index.md").write_text("# Second\n")
    later = (built / "index.html").stat().st_mtime + 10
    os.utime(clone / "docs" / "index.md", (later, later))
    current_site(clone=clone)
    assert "Second" in (built / "index.html").read_text()


@pytest.mark.slow
def test_a_site_that_does_not_build_says_why(tmp_path: Path) -> None:
    clone = _clone(tmp_path)
    (clone / "docs" / "index.md").write_text("[gone](gone.md)\n")
    with pytest.raises(UsageError, match=r"gone\.md"):
        current_site(clone=clone)


def test_without_mkdocs_a_clone_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "find_spec", lambda _name: None)
    with pytest.raises(UsageError) as refused:
        current_site(clone=_clone(tmp_path))
    assert "make docs" in (refused.value.hint or "")


# Stands in for the installation's own folder, so that the command has a site without a build.
SERVE = (
    "import sys; from pathlib import Path; from termarena.cli import main, site; site._INSTALLED = Path(sys.argv[1])"
)
SERVE += "; sys.exit(main.main(['docs', '--port', '0', '--json']))"


def test_the_command_tells_its_address_and_ends_at_ctrl_c(folder: Path) -> None:
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", SERVE, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert _get(url, "/index.html").status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
