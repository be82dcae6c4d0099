"""Probes beyond files: users, cron, services, simple YAML."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest
import yaml

from termarena.forge.inside.system import cron_jobs, listening_ports, owner, people, serves, services, user, yaml_value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: -2.5\nc: yes sir\nd: 'it # is'\ne: \"x: y\"\nf: null\ng: true\n",
        "top:\n  one:\n    - a\n    - b: 1\n      c: 2\n    -\n      - deep\n  two: []\n",
        "- x\n- y: 1\n- http://example.org/#a\n",
        "services:\n  web:\n    image: nginx:1.25 # why\n    ports:\n    - '80:80'\n",
        "---\nname: build\non: [push]\n",
        "a: &x 1\nb: *x\n",
        "a: |\n  b\n",
        "just text\n",
        "a: 'it''s'\n",
        "a: 1\na: 2\n",
        "",
        "\tb: 1\n",
        "a: [1, 2\n",
    ],
)
def test_simple_yaml_is_read_as_others_read_it_and_the_rest_is_not_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    try:
        found = yaml_value(str(path))
    except ValueError:
        assert text.startswith(("---", "a: &", "a: |", "just", "a: 'it", "a: 1\na", "\t", "a: [")) or not text
    else:
        assert found == yaml.safe_load(text)


def test_nesting_without_end_is_no_simple_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("".join(f"{' ' * n}a:\n" for n in range(100)))
    with pytest.raises(ValueError, match="too deep"):
        yaml_value(str(tmp_path / "a.yaml"))


def test_jobs_of_cron_are_lines_without_comments(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("# DO NOT EDIT (installed on Sun Nov 15 2026)\n5  4 * * *  backup\n\n@daily tidy\n")
    assert cron_jobs(str(tmp_path / "t")) == ["5 4 * * * backup", "@daily tidy"]


def test_a_user_is_told_by_names() -> None:
    assert user("root")["home"] == "/root"
    assert all(probe in ("user", "group") for probe, _ in people())
    with pytest.raises(KeyError):
        user("nobody-has-this-name")


def test_an_owner_without_a_name_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    if os.geteuid() == 0:
        os.chown(tmp_path / "f", 54321, 54321)
        assert owner(str(tmp_path / "f")) == ["54321", "54321"]
    else:
        assert not owner(str(tmp_path / "f"))[0].isdecimal()


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers one request for a page after another."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nDate: today\r\n\r\nhello\n")

    thread = threading.Thread(target=answer)
    thread.start()
    yield server.getsockname()[1]
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def test_a_service_is_seen_and_asked(port: int) -> None:
    assert port in listening_ports()
    assert ("serves", [port]) in services()
    assert serves(port) == "HTTP 200\nhello\n"


def test_a_port_where_nobody_listens_is_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody else can listen there
        monkeypatch.setattr("termarena.forge.inside.system.SERVICE_PATIENCE_S", 0.1)
        with pytest.raises(ConnectionRefusedError):
            serves(taken.getsockname()[1])
