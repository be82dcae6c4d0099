"""doctor against machines of our own making, and once against the real one."""

from __future__ import annotations

import http.server
import json
import os
import socket
import socketserver
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from running import termarena
from termarena.cli.checks import CHECKS, Machine, check_engine
from termarena.cli.checks.engines import check_compose
from termarena.cli.checks.extras import KEY_NAMES, check_keys
from termarena.cli.checks.hardware import check_disk, check_gpu, check_processors
from termarena.cli.checks.sandbox import (
    check_cgroups,
    check_overlay,
    check_proc,
    check_seccomp,
    check_user_namespaces,
)
from termarena.cli.checks.system import check_settings
from termarena.sandbox.namespace.probe import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.sandbox.namespace.probe import FactName

VERSION = {"Version": "28.2.2", "ApiVersion": "1.50"}


class _Engine(http.server.BaseHTTPRequestHandler):
    """Enough of an engine: a ping and a version."""

    protocol_version = "HTTP/1.1"
    answers: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        status, content = self.answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "a unix socket has no address"


@contextmanager
def _engine(path: Path, **answers: tuple[int, bytes]) -> Iterator[str]:
    """A server on a unix socket that answers /_ping and /version; gives its address."""
    usual = {"/_ping": (200, b"OK"), "/version": (200, json.dumps(VERSION).encode())}
    handler = type("Handler", (_Engine,), {"answers": usual | {f"/{name}": answer for name, answer in answers.items()}})
    path.parent.mkdir(parents=True, exist_ok=True)
    with socketserver.ThreadingUnixStreamServer(str(path), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"unix://{path}"
        server.shutdown()
        thread.join()


@pytest.fixture
def socket_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A relative path, since the name of a unix socket has at most 107 bytes."""
    monkeypatch.chdir(tmp_path)
    return Path("engine.sock")


def test_an_engine_is_found_where_docker_host_points(socket_path: Path) -> None:
    with _engine(socket_path) as address:
        check = check_engine(Machine(environment={"DOCKER_HOST": address}))
    assert (check.status, check.found) == ("ok", f"Docker 28.2.2 at {address}")
    assert check.details == {"address": address, "version": "28.2.2", "api_version": "1.50"}


@pytest.mark.parametrize(
    "place", ["var/run/docker.sock", "run/user/7/docker.sock", "h/.docker/run/docker.sock", "run/podman/podman.sock"]
)
def test_an_engine_is_found_at_the_usual_sockets(socket_path: Path, place: str) -> None:
    root = socket_path.parent
    with _engine(root / place) as address:
        check = check_engine(Machine(environment={"HOME": "/h"}, root=root, user_id=7))
    assert (check.status, check.details["address"]) == ("ok", address)


def test_podman_is_called_podman(socket_path: Path) -> None:
    version = json.dumps({**VERSION, "Components": [{"Name": "Podman Engine"}]}).encode()
    with _engine(socket_path, version=(200, version)) as address:
        assert check_engine(Machine(environment={"DOCKER_HOST": address})).found.startswith("Podman 28.2.2")


def test_an_engine_over_tcp_is_asked_too() -> None:
    answers = {"/_ping": (200, b"OK"), "/version": (200, json.dumps(VERSION).encode())}
    handler = type("Handler", (_Engine,), {"answers": answers})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        check = check_engine(Machine(environment={"DOCKER_HOST": f"tcp://127.0.0.1:{server.server_port}"}))
        server.shutdown()
        thread.join()
    assert check.status == "ok"


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"_ping": (500, b"")}, "answered 500 Internal Server Error"),
        ({"_ping": (200, b"<html>")}, "something else than an engine listens there"),
        ({"version": (200, b"not json")}, "something else than an engine listens there"),
        ({"version": (200, b"[]")}, "something else than an engine listens there"),
        ({"version": (200, b"{}")}, "something else than an engine listens there"),
    ],
)
def test_what_does_not_answer_as_an_engine_is_none(
    socket_path: Path, answers: dict[str, tuple[int, bytes]], problem: str
) -> None:
    with _engine(socket_path, **answers) as address:
        check = check_engine(Machine(environment={"DOCKER_HOST": address}))
    assert (check.status, check.details) == ("missing", {"tried": {address: problem}})
    assert check.advice


def test_an_engine_that_hangs_is_given_up_on(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(socket_path))
        silent.listen()
        check = check_engine(Machine(environment={"DOCKER_HOST": f"unix://{socket_path}"}, patience_s=0.05))
    assert (check.status, check.found) == ("missing", f"unix://{socket_path}: no answer within 0.05 s")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("unix:///nowhere/docker.sock", "No such file or directory"),
        ("ssh://host", "doctor can ask unix:// and tcp:// addresses only"),
        ("tcp://nohost", "doctor can ask unix:// and tcp:// addresses only"),
        ("rubbish", "doctor can ask unix:// and tcp:// addresses only"),
    ],
)
def test_an_address_that_cannot_be_asked_says_why(address: str, problem: str) -> None:
    check = check_engine(Machine(environment={"DOCKER_HOST": address}))
    assert (check.status, check.details) == ("missing", {"tried": {address: problem}})


def test_docker_on_request_decides_the_exit_status(socket_path: Path) -> None:
    absent = termarena("doctor", "--docker", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert absent.returncode == 1
    assert "error: no container engine answers: unix:///nowhere/docker.sock: No such file" in absent.stderr
    with _engine(socket_path) as address:
        assert termarena("doctor", "--docker", env={"DOCKER_HOST": address}).returncode == 0
    assert termarena("doctor", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"}).returncode == 0


def test_keys_are_named_and_never_shown() -> None:
    secret = "sk-this-must-not-appear"  # noqa: S105 - not one
    environment = dict.fromkeys(KEY_NAMES, secret)
    for flags in ((), ("--json",)):
        done = termarena("doctor", *flags, env=environment)
        assert done.returncode == 0
        assert "OPENAI_API_KEY" in done.stdout
        assert secret not in done.stdout + done.stderr


def test_an_empty_key_is_no_key() -> None:
    check = check_keys(Machine(environment={"OPENAI_API_KEY": "", "GROQ_API_KEY": "x"}))
    assert check.details == {"names": ["GROQ_API_KEY"]}
    assert check_keys(Machine(environment={})).status == "missing"


def test_json_holds_every_check_with_advice_for_each_that_is_not_well() -> None:
    done = termarena("doctor", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert (answer["schema_version"], answer["kind"]) == (1, "doctor")
    assert len(answer["checks"]) == len(CHECKS)
    assert len({check["name"] for check in answer["checks"]}) == len(CHECKS)
    for check in answer["checks"]:
        assert check["status"] in {"ok", "limited", "missing"}
        assert check["found"]
        assert (check["advice"] is None) == (check["status"] == "ok"), check["name"]


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = termarena("doctor", cwd=tmp_path, env={"TMPDIR": str(temporary), "TERMARENA_HOME": str(tmp_path / "home")})
    assert done.returncode == 0
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert sorted(tmp_path.rglob("*")) == [temporary]


@pytest.mark.needs("user-namespaces")
def test_namespaces_are_found_by_making_them() -> None:
    machine = Machine()
    checks = (check_user_namespaces, check_overlay, check_proc, check_seccomp)
    assert {check(machine).status for check in checks} == {"ok"}


def _refused(name: FactName, *, is_needed: bool) -> dict[str, Fact]:
    fact = Fact(name, is_there=False, is_needed=is_needed, detail="unshare: EPERM", remedy="do something")
    return {name: fact}


class _Blocked(Machine):
    """A machine on which the probe met a refusal."""

    facts = _refused("user_namespaces", is_needed=True)


@pytest.mark.parametrize(
    ("file", "content", "cure"),
    [
        ("proc/sys/kernel/unprivileged_userns_clone", "0\n", "sysctl kernel.unprivileged_userns_clone=1"),
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", "apparmor_restrict_unprivileged_userns=0"),
        ("proc/sys/user/max_user_namespaces", "0\n", "sysctl user.max_user_namespaces=10000"),
        (".dockerenv", "", "seccomp=unconfined"),
        ("proc/sys/user/max_user_namespaces", "9\n", "ask the administrator"),
    ],
)
def test_blocked_namespaces_come_with_the_cure_for_this_machine(
    tmp_path: Path, file: str, content: str, cure: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    check = check_user_namespaces(_Blocked(root=tmp_path))
    assert (check.status, check.found) == ("missing", "unshare: EPERM")
    assert cure in str(check.advice)


def test_what_only_weakens_a_sandbox_is_limited_and_not_missing() -> None:
    class Weak(Machine):
        facts = _refused("cgroups", is_needed=False)

    check = check_cgroups(Weak())
    assert (check.status, check.found, check.advice) == ("limited", "unshare: EPERM", "do something")


def test_a_machine_without_anything_still_gets_an_answer_from_every_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    machine = Machine(environment={}, root=tmp_path, user_id=4242)
    answers = {check.name: check.status for check in (each(machine) for each in CHECKS)}
    assert {answers[name] for name in ("git", "compose", "gpu", "container engine")} == {"missing"}
    assert answers["cpu, memory"] == "limited"


def _command(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_compose_is_either_of_its_two_forms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _command(tmp_path, "docker", 'echo "unknown command" >&2; exit 1')
    missing = check_compose(Machine(root=tmp_path))
    assert missing.status == "missing"
    assert "with the docker driver" in (missing.advice or "")
    _command(tmp_path, "docker-compose", "echo 1.29.2")
    assert check_compose(Machine(root=tmp_path)).found == "docker-compose 1.29.2"
    _command(tmp_path, "docker", "echo 2.27.0")
    assert check_compose(Machine(root=tmp_path)).found == "docker compose 2.27.0, docker-compose 1.29.2"


def test_a_command_that_hangs_is_given_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _command(tmp_path, "nvidia-smi", "exec tail -f /dev/null")
    assert check_gpu(Machine(root=tmp_path, patience_s=0.05)).status == "missing"


def test_a_gpu_is_named_or_at_least_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert check_gpu(Machine(root=tmp_path)).status == "limited"
    _command(tmp_path / "bin", "nvidia-smi", "echo 'NVIDIA H100, 81559 MiB'")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    assert check_gpu(Machine(root=tmp_path)).found == "NVIDIA H100, 81559 MiB"


def test_little_memory_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n")
    check = check_processors(Machine(root=tmp_path))
    assert check.status == "limited"
    assert check.details["available_bytes"] == 524288 * 1024


def test_disk_is_measured_where_home_will_be(tmp_path: Path) -> None:
    home = tmp_path / "not" / "yet"
    check = check_disk(Machine(environment={"TERMARENA_HOME": str(home)}))
    assert str(home) in check.found
    assert not home.parent.exists()


def test_broken_settings_are_a_finding_and_not_an_end(tmp_path: Path) -> None:
    (tmp_path / "termarena.toml").write_text("[tasks\n")
    done = termarena("doctor", "--json", cwd=tmp_path)
    settings = next(check for check in json.loads(done.stdout)["checks"] if check["name"] == "settings")
    assert (done.returncode, settings["status"]) == (0, "limited")
    assert "termarena.toml: cannot be read as TOML" in settings["found"]
    assert check_settings(Machine(environment={"HOME": str(tmp_path)})).status == "ok"


def test_the_table_ends_with_what_to_do() -> None:
    done = termarena("doctor", env={"DOCKER_HOST": "unix:///nowhere/docker.sock", "PATH": os.environ["PATH"]})
    table, _, todo = done.stdout.partition("\nWhat to do:\n")
    assert table.splitlines()[0].split() == ["check", "status", "found"]
    assert "  container engine: install Docker or Podman" in todo
