"""Packages of a day: an index that tells when files came, an archive that keeps Debian by the moment."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from support.sessions import session
from termarena.forge.dating import PackageRules, archive_of, versions_on
from termarena.forge.draft import on_its_day, synthesize
from termarena.forge.taskfiles import write_environment
from termarena.forge.transcript import Facts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = "2024-03-01T08:00:00Z"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if "garbled" in self.path:
            self.wfile.write(b"SSH-2.0-elsewhere\r\n")
            return
        self.path += "index.json" if self.path.endswith("/") else ""
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    root = tmp_path / "www"
    root.mkdir()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield root, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def _file(name: str, day: str, **more: object) -> dict[str, Any]:
    return {"filename": name, "upload-time": f"{day}T10:00:00.000000Z", "hashes": {}, "url": "x", **more}


def _offer(root: Path, name: str, *files: dict[str, Any]) -> None:
    (root / "simple" / name).mkdir(parents=True)
    (root / "simple" / name / "index.json").write_text(json.dumps({"name": name, "files": files}))


def test_the_newest_final_version_of_the_day_is_taken(served: tuple[Path, str]) -> None:
    root, address = served
    _offer(
        root,
        "some-tool",
        _file("some_tool-1.9.0-py3-none-any.whl", "2023-01-01"),
        _file("some-tool-1.10.0.tar.gz", "2024-02-29"),
        _file("some_tool-1.9.1.tar.gz", "2024-03-01"),
        _file("some_tool-2.0rc1.tar.gz", "2024-02-01"),
        _file("some_tool-1.11.0.tar.gz", "2024-01-01", yanked="broken"),
        _file("some_tool-2.0.0.tar.gz", "2024-03-02"),
    )
    _offer(root, "undated", {"filename": "undated-1.0.tar.gz"})
    (root / "simple" / "page").mkdir()
    (root / "simple" / "page" / "index.json").write_text("<html>")
    (root / "simple" / "garbled").mkdir()
    rules = PackageRules(python_index=f"{address}/simple/")
    names = ["Some_Tool", "undated", "page", "nowhere", "garbled"]
    assert versions_on(rules, names, DAY) == {"Some_Tool": "1.10.0"}
    assert versions_on(rules, names, "2022-01-01") == {}
    assert versions_on(rules, names, None) == {}
    assert versions_on(PackageRules(), names, DAY) == {}


@pytest.mark.parametrize(
    "address", ["file:///srv", "https://x y", "https://ada:word@h/", "https://h/'; touch x", "https://h/\nRUN x"]
)
def test_an_address_that_is_none_is_no_setting(address: str) -> None:
    with pytest.raises(ValueError, match="debian_archive"):
        PackageRules(debian_archive=address)


def test_images_take_the_packages_of_the_day(served: tuple[Path, str], tmp_path: Path) -> None:
    root, address = served
    _offer(root, "rich", _file("rich-13.7.0.tar.gz", "2024-01-01"), _file("rich-14.0.0.tar.gz", "2025-01-01"))
    rules = PackageRules(debian_archive="http://archive.example/debian", python_index=f"{address}/simple")
    told = session("Colours", "pip install rich", "jq . a.json > b.json", facts=Facts(recorded_at=DAY))
    draft = on_its_day(synthesize(told), rules)
    write_environment(draft, tmp_path / "task")
    recipe = (tmp_path / "task" / "environment" / "Dockerfile").read_text()
    assert "deb [check-valid-until=no] http://archive.example/debian/20240301T235959Z bookworm main" in recipe
    assert "--allow-downgrades jq python3" in recipe
    assert "rich==13.7.0" in recipe
    assert "newest version" not in recipe
    assert (draft.dated, draft.installed.undated) == ({"rich": "13.7.0"}, ())


def test_of_days_before_the_release_and_without_an_archive_the_base_is_taken(tmp_path: Path) -> None:
    rules = PackageRules(debian_archive="http://archive.example/debian")
    assert archive_of(rules, "2021-06-01T00:00:00Z") is None
    assert archive_of(rules, None) is None
    assert archive_of(PackageRules(), DAY) is None
    write_environment(synthesize(session("Older", "jq . a.json > b.json")), tmp_path / "task")
    assert "sources.list" not in (tmp_path / "task" / "environment" / "Dockerfile").read_text()


@pytest.mark.needs("apt-get")
def test_apt_takes_the_line_and_asks_for_that_day(served: tuple[Path, str], tmp_path: Path) -> None:
    """An archive of that shape, without signatures, which apt has to be told about here."""
    root, address = served
    archive = archive_of(PackageRules(debian_archive=f"{address}/archive/debian"), DAY)
    lists = root / "archive/debian/20240301T235959Z/dists/bookworm"
    arch = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607 - whichever is here
    (lists / f"main/binary-{arch}").mkdir(parents=True)
    package = f"Package: made-up\nVersion: 1.2-3\nArchitecture: {arch}\nFilename: x.deb\nSize: 1\n\n"
    (lists / f"main/binary-{arch}/Packages").write_text(package)
    (lists / "Release").write_text(f"Suite: bookworm\nCodename: bookworm\nComponents: main\nArchitectures: {arch}\n")
    draft = synthesize(session("Now", "jq . a.json > b.json", facts=Facts(recorded_at=DAY)))
    write_environment(replace(draft, archive=archive), tmp_path / "task")
    recipe = (tmp_path / "task" / "environment" / "Dockerfile").read_text()
    (line,) = [row.split("'")[1] for row in recipe.splitlines() if "echo 'deb " in row]
    for folder in ("etc/apt/preferences.d", "state/lists/partial", "cache/archives/partial"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sources.list").write_text(line + "\n")
    (tmp_path / "status").touch()
    places = {
        "Dir::Etc::sourcelist": tmp_path / "sources.list",
        "Dir::Etc::sourceparts": tmp_path / "none",
        "Dir::Etc::preferencesparts": tmp_path / "none",
        "Dir::State": tmp_path / "state",
        "Dir::State::status": tmp_path / "status",
        "Dir::Cache": tmp_path / "cache",
        "APT::Sandbox::User": "",
        "Acquire::AllowInsecureRepositories": "true",
        "Acquire::http::Proxy": "DIRECT",
    }
    options = [word for name, value in places.items() for word in ("-o", f"{name}={value}")]
    updated = subprocess.run(["apt-get", *options, "update"], capture_output=True, text=True, check=False)  # noqa: S603, S607 - our own words
    assert updated.returncode == 0, updated.stderr
    shown = subprocess.run(["apt-cache", *options, "policy", "made-up"], capture_output=True, text=True, check=True)  # noqa: S603, S607 - as above
    assert "Candidate: 1.2-3" in shown.stdout
