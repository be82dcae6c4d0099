"""Compose files of Terminal-Bench 1, brought into the canonical form: the harness's variables resolved, the agent's
service called `main`.

Almost every one of them is the template's single service and says nothing that a Dockerfile does not; those become a
plain environment.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from termarena.core.errors import TaskFormatError

if TYPE_CHECKING:
    from termarena.core.records import Json
    from termarena.tasks.checking import Checker

__all__ = ["MAIN_SERVICE", "Composition", "canonical_composition"]

MAIN_SERVICE = "main"

_CLIENT_NAME = "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME"
# What `tb` exports to compose and a task may rely on. Its host paths and image names are the harness's own business:
# see _OURS.
_VARIABLES = {
    "T_BENCH_TEST_DIR": "/tests",
    "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
    "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
    "T_BENCH_TASK_DOCKER_NAME_PREFIX": "task",
}
_OURS = re.compile(r"\$\{?T_BENCH_TASK_(?:LOGS_PATH|AGENT_LOGS_PATH|DOCKER_CLIENT_\w+)")
_VARIABLE = re.compile(r"\$\{(T_BENCH_\w+)(?::?-[^}]*)?\}|\$(T_BENCH_\w+)")
_IDLE = re.compile(r"(?:\S*sh -c )?(?:sleep (?:infinity|inf|\d{4,})|tail -f /dev/null|/?\S*sh)")
_PLAIN_KEYS = frozenset({"build", "environment", "working_dir"})


class Composition(NamedTuple):
    """What a compose file adds to the build context."""

    text: str | None
    """The canonical compose file; None when one plain Dockerfile says it all."""
    env: dict[str, str]
    workdir: str | None


def canonical_composition(check: Checker, document: Json) -> Composition:
    """Translate one parsed file. Raises TaskFormatError if it has no services, or none that could be the agent's."""
    services = document.get("services") if isinstance(document, dict) else None
    if not isinstance(services, dict) or not services or not all(isinstance(one, dict) for one in services.values()):
        raise TaskFormatError(check.file, field="services", found=_shape(services), expected="a table of services")
    name = _main_name(check, services)
    resolved: dict[str, Any] = {other: _resolve(service) for other, service in services.items() if other != name}
    main = _without_harness_keys(_resolve(services[name]))
    if not resolved and main.keys() <= _PLAIN_KEYS and _is_plain_build(main.get("build")) and _env_of(main) is not None:
        return Composition(None, _env_of(main) or {}, main.get("working_dir"))
    _note_mounts(check, main)
    if name != MAIN_SERVICE:
        main = _with_alias(main, name)
        resolved = {other: _renamed_dependencies(service, name) for other, service in resolved.items()}
    rest = {key: value for key, value in document.items() if key not in ("services", "version")}  # type: ignore[union-attr]  # a dict: see above
    text = yaml.safe_dump({**rest, "services": {**resolved, MAIN_SERVICE: main}}, sort_keys=True, allow_unicode=True)
    return Composition(text, {}, None)


def _shape(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"


def _main_name(check: Checker, services: dict[str, Any]) -> str:
    for name, service in services.items():
        if _CLIENT_NAME in str(service.get("container_name", "")):
            return name
    if len(services) == 1 or "client" in services:
        name = "client" if "client" in services else next(iter(services))
        check.note(
            "no-client-container",
            f"no service sets container_name to ${{{_CLIENT_NAME}}}; taking {name} as the agent's",
        )
        return name
    raise TaskFormatError(
        check.file,
        field="services",
        found=", ".join(services),
        expected=f"one with container_name: ${{{_CLIENT_NAME}}}, the machine the agent works on",
    )


def _resolve(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _VARIABLES.get(match[1] or match[2], match[0]), value)
    if isinstance(value, list):
        return [_resolve(item) for item in value]
    if isinstance(value, dict):
        return {name: _resolve(item) for name, item in value.items()}
    return value


def _without_harness_keys(service: dict[str, Any]) -> dict[str, Any]:
    """The service without what only keeps a container idle, names it for `tb`, or mounts `tb`'s log folders."""
    kept = {name: value for name, value in service.items() if name not in ("container_name", "tty", "stdin_open")}
    if "build" in kept or _OURS.search(str(kept.get("image", ""))):
        kept.pop("image", None)
    if _IDLE.fullmatch(_command_line(kept.get("command"))):
        kept.pop("command", None)
    if isinstance(kept.get("volumes"), list):
        kept["volumes"] = [mount for mount in kept["volumes"] if not _OURS.search(str(mount))]
    return {name: value for name, value in kept.items() if value not in ([], {}, None)}


def _command_line(command: object) -> str:
    return " ".join(map(str, command)) if isinstance(command, list) else str(command or "")


def _is_plain_build(build: object) -> bool:
    if isinstance(build, dict):
        plain = {"context": (".", "./"), "dockerfile": ("Dockerfile", "./Dockerfile")}
        return all(value in plain.get(name, ()) for name, value in build.items())
    return build in (".", "./", None)


def _env_of(service: dict[str, Any]) -> dict[str, str] | None:
    """The service's variables as a table, in either spelling; None if a value is to be taken from the host."""
    env = service.get("environment", {})
    if isinstance(env, list):
        pairs = [str(entry).partition("=") for entry in env]
        return {name: value for name, _, value in pairs} if all(sign for _, sign, _ in pairs) else None
    if not isinstance(env, dict) or any(value is None for value in env.values()):
        return None
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in env.items()}


def _with_alias(service: dict[str, Any], name: str) -> dict[str, Any]:
    """The service under its canonical name still answers to the old one on the task's network."""
    networks = service.get("networks", ["default"])
    table = dict.fromkeys(networks) if isinstance(networks, list) else networks
    if "network_mode" in service or not isinstance(table, dict):
        return service
    aliased = {
        net: {**(spec or {}), "aliases": [*((spec or {}).get("aliases") or []), name]} for net, spec in table.items()
    }
    return {**service, "networks": aliased}


def _renamed_dependencies(service: dict[str, Any], name: str) -> dict[str, Any]:
    waits = service.get("depends_on")
    if isinstance(waits, list) and name in waits:
        return {**service, "depends_on": [MAIN_SERVICE if other == name else other for other in waits]}
    if isinstance(waits, dict) and name in waits:
        return {
            **service,
            "depends_on": {MAIN_SERVICE if other == name else other: how for other, how in waits.items()},
        }
    return service


def _note_mounts(check: Checker, service: dict[str, Any]) -> None:
    mounts = service.get("volumes", [])
    for mount in mounts if isinstance(mounts, list) else []:
        source = str(mount.get("source", "")) if isinstance(mount, dict) else str(mount).split(":")[0]
        if source.startswith((".", "/", "~")):
            check.note(
                "host-mount",
                f"the agent's service mounts the host folder {source}",
                hint="COPY what it needs in the Dockerfile",
            )
