"""Container engines: whichever of Docker's and Podman's sockets answers, asked over HTTP as any client would."""

from __future__ import annotations

import http.client
import json
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from termarena.cli.checks.contract import Check, first_line_of

if TYPE_CHECKING:
    from termarena.cli.checks.contract import Machine

__all__ = ["check_compose", "check_engine"]

ADVICE = (
    "install Docker or Podman and start it (`sudo systemctl start docker`, or `systemctl --user start podman.socket`); "
    "its user must be allowed to open the socket (`sudo usermod -aG docker $USER`); where the embedded sandbox works, "
    "few tasks need one"
)
ANSWER_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class Engine:
    """An engine that answered."""

    address: str
    name: str
    version: str
    api_version: str


class EngineSilent(Exception):
    """An address that did not answer as an engine does; the text says why."""


def check_engine(machine: Machine) -> Check:
    """The first engine that answers, looked for where its clients look."""
    problems: dict[str, str] = {}
    for address in _addresses(machine):
        try:
            engine = _ask(address, machine.patience_s)
        except EngineSilent as problem:
            problems[address] = str(problem)
            continue
        details = {"address": engine.address, "version": engine.version, "api_version": engine.api_version}
        return Check("container engine", "ok", f"{engine.name} {engine.version} at {address}", details=details)
    tried = "; ".join(f"{address}: {problem}" for address, problem in problems.items())
    return Check("container engine", "missing", tried, ADVICE, {"tried": problems})


def _addresses(machine: Machine) -> list[str]:
    """DOCKER_HOST alone where it is set, since that is what every client would use; otherwise the usual sockets."""
    named = machine.environment.get("DOCKER_HOST")
    if named:
        return [named]
    own = machine.environment.get("XDG_RUNTIME_DIR", f"/run/user/{machine.user_id}")
    home = machine.environment.get("HOME", "")
    sockets = [
        machine.root / "var/run/docker.sock",
        machine.root / own.lstrip("/") / "docker.sock",
        machine.root / home.lstrip("/") / ".docker/run/docker.sock",
        machine.root / own.lstrip("/") / "podman/podman.sock",
        machine.root / "run/podman/podman.sock",
    ]
    there = [f"unix://{path}" for path in sockets if os.path.exists(path)]  # noqa: PTH110 - never raises
    return there or [f"unix://{sockets[0]}"]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _ask(address: str, timeout_s: float) -> Engine:
    """Ping the engine and ask for its version. Raises EngineSilent."""
    connection = _connection(address, timeout_s)
    try:
        if _get(connection, "/_ping").strip() != b"OK":
            raise EngineSilent("something else than an engine listens there")
        answer = json.loads(_get(connection, "/version"))
        return Engine(address, _engine_name(answer), str(answer["Version"]), str(answer.get("ApiVersion", "unknown")))
    except TimeoutError as error:
        raise EngineSilent(f"no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise EngineSilent(error.strerror or str(error)) from error
    except (http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineSilent("something else than an engine listens there") from error
    finally:
        connection.close()


def _connection(address: str, timeout_s: float) -> http.client.HTTPConnection:
    scheme, _, place = address.partition("://")
    if scheme == "unix":
        return _UnixConnection(place, timeout_s)
    if scheme in {"tcp", "http"}:
        host, _, port = place.partition("/")[0].rpartition(":")
        if host and port.isdecimal():
            return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout_s)
    raise EngineSilent("doctor can ask unix:// and tcp:// addresses only")


def _get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path, headers={"Host": "localhost"})
    answer = connection.getresponse()
    content = answer.read(ANSWER_LIMIT_BYTES)
    if answer.status != http.client.OK:
        raise EngineSilent(f"answered {answer.status} {answer.reason}")
    return content


def _engine_name(answer: dict[str, object]) -> str:
    components = answer.get("Components")
    is_podman = isinstance(components, list) and any("podman" in str(part).lower() for part in components)
    return "Podman" if is_podman else "Docker"


def check_compose(machine: Machine) -> Check:
    """Compose, for tasks of several services: the plugin, or the program of its own."""
    variants = {
        "docker compose": ["docker", "compose", "version", "--short"],
        "docker-compose": ["docker-compose", "version", "--short"],
    }
    versions = {name: first_line_of(command, patience_s=machine.patience_s) for name, command in variants.items()}
    there = {name: version for name, version in versions.items() if version}
    if there:
        found = ", ".join(f"{name} {version}" for name, version in there.items())
        return Check("compose", "ok", found, details=there)
    advice = (
        "install the Compose plugin (docker-compose-v2 or docker-compose-plugin): with the docker driver, tasks of "
        "several services need it"
    )
    return Check("compose", "missing", "neither docker compose nor docker-compose", advice)
