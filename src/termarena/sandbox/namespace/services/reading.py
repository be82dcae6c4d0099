"""A compose file as embedded sandboxes follow it: every key is known, noted to have no effect here, or refused."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from termarena.core.errors import ImageError
from termarena.sandbox.compositions import check_reach, service_of, with_source
from termarena.sandbox.images.config import this_architecture
from termarena.sandbox.namespace.services.model import Build, Composition, Condition, Health, Service, Volume
from termarena.sandbox.namespace.services.ordering import check_order
from termarena.sandbox.namespace.services.values import Place, filled, parse_env_file, unsupported
from termarena.sandbox.namespace.services.volumes import (
    GIVEN,
    read_declared,
    read_given,
    read_lent,
    read_memories,
    read_uses,
)
from termarena.sandbox.spec import Limits
from termarena.tasks.checking import Checker
from termarena.tasks.compose_types import check_service
from termarena.tasks.documents import read_text
from termarena.tasks.model import Healthcheck

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.sandbox.spec import Root

__all__ = ["health_of_image", "read_services"]

TOP: Final = ("version", "name", "services", "volumes", "networks", "secrets", "configs")
FOLLOWED: Final = frozenset(
    {
        "image", "build", "command", "entrypoint", "environment", "env_file", "working_dir", "user", "hostname",
        "depends_on", "healthcheck", "volumes", "tmpfs", "networks", "links", "extra_hosts", "expose", "ports",
        "deploy", "mem_limit", "cpus", "pids_limit", "platform", "secrets", "configs", "profiles",
    }
)  # fmt: skip
NOTED: Final = frozenset(
    {"container_name", "restart", "init", "labels", "logging", "stop_signal", "stop_grace_period", "annotations"}
)
"""Without effect here: what died stays dead, process 1 is always an init, and services end with the sandbox."""
IDLE_ONLY: Final = frozenset({"tty", "stdin_open"})
"""For the main service, whose terminals are the sandbox's own."""
MAX_SERVICES: Final = 100
MAX_USES: Final = 32
"""Volumes of one service: each is a descriptor in one message, which takes 64."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
ENV_FILE: Final = ".env"


def read_services(
    document: dict[str, Any], root: Root, *, values: Mapping[str, str], folder: Path | None, source: str
) -> Composition:
    """The services of a parsed file; `values` fill in its variables, after those of a `.env` beside it.

    `folder` holds the files that it names; without one they are not looked at. Raises `CapabilityMissing` for a key
    that is not followed here, `ImageError` for what no driver does, `TaskFormatError` for what compose would not take.
    """
    service_of(document, root.service, source=source)
    if folder is not None and (folder / ENV_FILE).is_file():
        beside = read_text(str(folder / ENV_FILE), boundary=str(folder))
        values = {**parse_env_file(beside, values), **values}
    made = filled({key: value for key, value in document.items() if not key.startswith("x-")}, values, source=source)
    for key in made.keys() - set(TOP):
        if made[key]:
            raise unsupported(key, "embedded sandboxes do not follow it")
    if len(made["services"]) > MAX_SERVICES:
        raise ImageError(source, f"has more than {MAX_SERVICES} services", cause="task")
    check = Checker(source, source)
    declared = read_declared(Place(source, "volumes", made.get("volumes")))
    networks = _read_networks(Place(source, "networks", made.get("networks")))
    given = {kind: read_given(Place(source, kind, made.get(kind))) for kind in GIVEN}
    reader = _Reader(source, values=values, folder=folder, declared=declared, networks=networks, given=given)
    services: dict[str, Service] = {}
    for name, body in _active(made["services"], root, values=values, source=source).items():
        if _NAME.fullmatch(name) is None:
            raise Place(source, "services", name).wrong("names of at most 63 letters, digits, dots, dashes and _")
        is_main = name == root.service
        table = with_source(dict(body or {}), root, is_main=is_main)
        check_service(check, f"services.{name}", table)
        check_reach(name, table, source=source)
        services[name] = reader.read(Place(source, f"services.{name}", table), name, is_main=is_main)
    reader.check_networks()
    check_order(services, source=source)
    return Composition(services)


def _active(
    services: dict[str, Any], root: Root, *, values: Mapping[str, str], source: str
) -> dict[str, dict[str, Any] | None]:
    """Those that belong to no profile, or to one of `COMPOSE_PROFILES`; the main service always must."""
    wished = {word.strip() for word in values.get("COMPOSE_PROFILES", "").split(",")} - {""}
    found = {}
    for name, body in services.items():
        profiles = Place(source, f"services.{name}", body or {}).at("profiles")
        its = {one.text() for one in profiles.items()}
        if not its or "*" in wished or its & wished:
            found[name] = body
        elif name == root.service:
            raise profiles.wrong("none for the main service, or one that COMPOSE_PROFILES names")
    return found


def _read_networks(networks: Place) -> frozenset[str]:
    for name in networks.table():
        networks.at(name).only(("driver", "internal", "name", "labels", "attachable"))
        if networks.at(name).at("driver").value not in (None, "bridge", "default"):
            raise networks.at(name).at("driver").refused("all services share one network of their own")
    return frozenset({"default", *networks.table()})


class _Reader:
    """Reads one service after the other."""

    def __init__(
        self,
        source: str,
        *,
        values: Mapping[str, str],
        folder: Path | None,
        declared: frozenset[str],
        networks: frozenset[str],
        given: Mapping[str, Mapping[str, Volume]],
    ) -> None:
        self.source = source
        self.values = values
        self.folder = folder
        self.declared = declared
        self.networks = networks
        self.given = given
        self.joined: dict[str, frozenset[str]] = {}

    def read(self, body: Place, name: str, *, is_main: bool) -> Service:
        body.only(FOLLOWED | NOTED | (IDLE_ONLY if is_main else frozenset()))
        self._check_platform(body.at("platform"))
        if body.at("image").value is None and body.at("build").value is None:
            raise body.wrong("image or build")
        uses, memories = read_uses(body.at("volumes"), service=name, declared=self.declared)
        uses += tuple(use for kind, files in self.given.items() for use in read_lent(body.at(kind), files, kind=kind))
        if len(uses) > MAX_USES:
            raise body.at("volumes").refused(f"a service has at most {MAX_USES} volumes here")
        return Service(
            name=name,
            image=body.at("image").value,
            build=None if body.at("build").value is None else self._build(body.at("build")),
            entrypoint=body.at("entrypoint").words(),
            command=body.at("command").words(),
            environment=self._environment(body),
            workdir=body.at("working_dir").value,
            user=_text_or_none(body.at("user")),
            hostname=_text_or_none(body.at("hostname")),
            names=self._names(body.at("networks"), name),
            hosts=_read_hosts(body.at("extra_hosts")),
            links=_read_links(body.at("links")),
            waits_for=_read_waits(body.at("depends_on")),
            health=_read_health(body.at("healthcheck")),
            uses=uses,
            memories=(*memories, *read_memories(body.at("tmpfs"))),
            limits=_read_limits(body),
            ports=_read_ports(body),
        )

    def _check_platform(self, platform: Place) -> None:
        here = f"linux/{this_architecture()}"
        if platform.value not in (None, here, "linux"):
            raise platform.refused(f"this machine is {here}")

    def _build(self, build: Place) -> Build:
        if isinstance(build.value, str):
            build = Place(build.source, build.path, {"context": build.value})
        build.only(("context", "dockerfile", "args", "target", "labels"), why="our own builder does not know it")
        context = build.at("context").text() if build.at("context").value else "."
        if "://" in context:
            raise build.at("context").refused("a build takes a folder of the task")
        args = {name: self.values.get(name, "") if value is None else value for name, value in _pairs(build, "args")}
        dockerfile, target = build.at("dockerfile").value, build.at("target").value
        return Build(context, dockerfile or "Dockerfile", args, target or "")

    def _environment(self, body: Place) -> dict[str, str]:
        found: dict[str, str] = {}
        for one in body.at("env_file").items():
            found |= self._env_file(one)
        for name, value in _pairs(body, "environment"):
            if value is not None:
                found[name] = value
            elif name in self.values:
                found[name] = self.values[name]
        return found

    def _env_file(self, one: Place) -> dict[str, str]:
        table = one.value if isinstance(one.value, dict) else {"path": one.text()}
        one = Place(one.source, one.path, table)
        one.only(("path", "required"))
        if self.folder is None:
            return {}
        path = self.folder / one.at("path").text()
        if not path.is_file() and one.at("required").value is False:
            return {}
        return parse_env_file(read_text(str(path), boundary=str(self.folder)), self.values)

    def _names(self, networks: Place, name: str) -> tuple[str, ...]:
        """What the service is called on its networks, which are remembered."""
        table = networks.value if isinstance(networks.value, dict) else {one.text(): None for one in networks.items()}
        found: list[str] = []
        for network in table:
            if network not in self.networks:
                raise networks.wrong(f"networks of the file's own section; {network} is none")
            one = Place(networks.source, f"{networks.path}.{network}", table[network])
            one.only(("aliases",))
            found += [alias.text() for alias in one.at("aliases").items()]
        self.joined[name] = frozenset(table) or frozenset({"default"})
        return tuple(dict.fromkeys(found))

    def check_networks(self) -> None:
        """Refuse services that are to be kept apart."""
        for (one, its), (other, others) in combinations(self.joined.items(), 2):
            if not its & others:
                why = f"it keeps {one} and {other} apart, and here all services share one network"
                raise unsupported(f"services.{one}.networks", why)


def _text_or_none(place: Place) -> str | None:
    return None if place.value is None else place.text()


def _pairs(body: Place, key: str) -> list[tuple[str, str | None]]:
    return list(body.at(key).pairs().items())


def _read_hosts(hosts: Place) -> tuple[tuple[str, str], ...]:
    found = []
    lines = [f"{k}:{v}" for k, v in hosts.value.items()] if isinstance(hosts.value, dict) else None
    for line in lines or [one.text() for one in hosts.items()]:
        name, _, address = line.replace("=", ":", 1).partition(":")
        if address == "host-gateway":
            raise hosts.refused("services do not reach the machine they run on")
        found.append((address.strip("[]"), name))
    return tuple(found)


def _read_links(links: Place) -> tuple[tuple[str, str], ...]:
    parts = [one.text().partition(":") for one in links.items()]
    return tuple((service, alias or service) for service, _, alias in parts)


def _read_waits(waits: Place) -> dict[str, Condition]:
    if isinstance(waits.value, list):
        return {one.text(): "service_started" for one in waits.items()}
    known: dict[str, Condition] = {
        "service_started": "service_started",
        "service_healthy": "service_healthy",
        "service_completed_successfully": "service_completed_successfully",
    }
    found: dict[str, Condition] = {}
    for name in waits.table():
        one = waits.at(name)
        one.only(("condition", "restart"))
        wanted = str(one.at("condition").value or "service_started")
        if wanted not in known:
            raise one.at("condition").wrong(f"one of {', '.join(known)}")
        found[name] = known[wanted]
    return found


def _read_health(check: Place) -> Health | Literal["none"] | None:
    if check.value is None:
        return None
    check.only(("test", "interval", "timeout", "retries", "start_period", "start_interval", "disable"))
    test = check.at("test")
    if check.at("disable").flag() or test.value in ("NONE", ["NONE"]):
        return "none"
    if test.value is None:
        raise check.wrong("a test, or disable")
    argv = ("/bin/sh", "-c", test.text()) if isinstance(test.value, str) else _test_words(test)
    times = {
        f"{name}_sec": check.at(name).seconds()
        for name in ("interval", "timeout", "start_period", "start_interval")
        if check.at(name).value is not None
    }
    retries = check.at("retries")
    count = {} if retries.value is None else {"retries": int(retries.number())}
    return _health(argv, times, count, place=check)


def _test_words(test: Place) -> tuple[str, ...]:
    kind, *words = test.words() or ("",)
    if kind not in ("CMD", "CMD-SHELL") or not words:
        raise test.wrong("NONE, or CMD or CMD-SHELL with a command")
    return tuple(words) if kind == "CMD" else ("/bin/sh", "-c", words[0])


def _health(argv: tuple[str, ...], times: dict[str, float], count: dict[str, int], *, place: Place) -> Health:
    """Docker's own times where none are given, or nought."""
    given = {name: value for name, value in times.items() if value > 0}
    try:
        rules = Healthcheck.model_validate({"command": " ".join(argv), "interval_sec": 30.0, **given, **count})
    except ValidationError as error:
        raise place.wrong("times and retries above nought") from error
    return Health(argv, rules)


def health_of_image(told: dict[str, Any] | None, *, source: str) -> Health | None:
    """The HEALTHCHECK of an image; raises `TaskFormatError` for one that is none."""
    check = Place(source, "Healthcheck", told)
    test = check.at("Test")
    if not test.value or test.value == ["NONE"]:
        return None
    keys = {
        "interval": "Interval",
        "timeout": "Timeout",
        "start_period": "StartPeriod",
        "start_interval": "StartInterval",
    }
    times = {f"{name}_sec": check.at(key).number() / 1e9 for name, key in keys.items() if check.at(key).value}
    count = {"retries": int(check.at("Retries").number())} if check.at("Retries").value else {}
    return _health(_test_words(test), times, count, place=test)


def _read_limits(body: Place) -> Limits:
    deploy = body.at("deploy")
    deploy.only(("resources", "replicas", "restart_policy", "labels"))
    if deploy.at("replicas").value not in (None, 1):
        raise deploy.at("replicas").refused("a service runs once")
    resources = deploy.at("resources")
    resources.only(("limits", "reservations"))
    resources.at("reservations").only(("cpus", "memory"))
    limits = resources.at("limits")
    limits.only(("cpus", "memory", "pids"))
    found: dict[str, Any] = {}
    for name, places, read in (
        ("cpus", (limits.at("cpus"), body.at("cpus")), Place.number),
        ("memory_bytes", (limits.at("memory"), body.at("mem_limit")), Place.size_bytes),
        ("pids", (limits.at("pids"), body.at("pids_limit")), lambda place: int(place.number())),
    ):
        given = next((place for place in places if place.value is not None), None)
        if given is not None:
            found[name] = read(given)
    try:
        return Limits(**found)
    except ValidationError as error:
        raise body.wrong("limits of at least 16 MiB of memory and 4 processes") from error


def _read_ports(body: Place) -> frozenset[str]:
    """Where the service says that it listens; the machine's side of `ports` is not opened."""
    found = {_port(one.text()) for one in body.at("expose").items()}
    for one in body.at("ports").items():
        if isinstance(one.value, dict):
            found.add(f"{one.at('target').text()}/{one.at('protocol').value or 'tcp'}")
        else:
            found.add(_port(one.text().rpartition(":")[2]))
    return frozenset(found)


def _port(text: str) -> str:
    return text if "/" in text else f"{text}/tcp"
