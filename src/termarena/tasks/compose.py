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
from termarena.tasks.compose_types import check_service

if TYPE_CHECKING:
    from termarena.core.records import Json
    from termarena.tasks.checking import Checker

__all__ = ["MAIN_SERVICE", "Build", "Composition", "Plain", "canonical_composition"]

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
_VARIABLE = re.compile(r"\$\$|\$\{(T_BENCH_\w+)(?::?([-?+])([^{}]*))?\}|\$(T_BENCH_\w+)")
_SHELL = r"(?:/\S*/)?(?:ba|da|k|z)?sh"
_IDLE = re.compile(rf"""(?:{_SHELL} -c ["']?)?(?:sleep (?:infinity|inf|\d{{4,}})|tail -f /dev/null|{_SHELL})["']?""")
_PLAIN_KEYS = frozenset({"build", "environment", "working_dir"})
# Top-level sections without effect on a service that names none of them.
_IDLE_SECTIONS = frozenset({"version", "name", "volumes", "configs", "secrets"})
# An environment's variables are resolved in these two spellings only.
_KEPT_VARIABLE = re.compile(r"\$\{\w+(?::-[^{}]*)?\}")


class Build(NamedTuple):
    """What one service is built from."""

    context: str = "."
    dockerfile: str = "Dockerfile"
    """Relative to the context."""
    inline: str | None = None
    """The Dockerfile's text, when it stands in the compose file."""


class Plain(NamedTuple):
    """What a compose file adds to a Dockerfile, if that is all it does."""

    env: dict[str, str]
    workdir: str | None


class Composition(NamedTuple):
    """A compose file in canonical form."""

    document: dict[str, Any]
    builds: tuple[Build, ...]
    plain: Plain | None
    """None when it takes a compose file to say what this one does."""

    def text(self) -> str:
        """The canonical file."""
        return yaml.safe_dump(self.document, sort_keys=True, allow_unicode=True)


def canonical_composition(check: Checker, document: Json) -> Composition:
    """Translate one parsed file.

    Raises TaskFormatError if it has no services, none that could be the agent's, a field of a type that compose does
    not take, or a service that cannot keep its meaning once the agent's is called `main`.
    """
    resolved = _resolve(document)
    services = resolved.get("services") if isinstance(resolved, dict) else None
    if not isinstance(services, dict) or not services or not all(isinstance(one, dict) for one in services.values()):
        raise TaskFormatError(check.file, field="services", found=_shape(services), expected="a table of services")
    for name, service in services.items():
        check_service(check, f"services.{name}", service)
    name = _main_name(check, services)
    main = _without_harness_keys(services.pop(name))
    others = {other: _without_harness_values(service, main) for other, service in services.items()}
    rest = {key: value for key, value in resolved.items() if key not in ("services", "version")}
    plain = None if others or not _is_idle(rest) else _plain(main)
    builds = tuple(_build(service["build"]) for service in (main, *others.values()) if service.get("build"))
    if plain is None:
        _note_mounts(check, name, main)
    _refuse_confusion(check, others, name)
    if name != MAIN_SERVICE:
        main = _with_alias(main, name)
        others = {other: _renamed_references(service, name) for other, service in others.items()}
    return Composition({**rest, "services": {**others, MAIN_SERVICE: main}}, builds or (Build(),), plain)


def _shape(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"


def _main_name(check: Checker, services: dict[str, Any]) -> str:
    for name, service in services.items():
        if _CLIENT_NAME in (service.get("container_name") or ""):
            return name
    if len(services) == 1 or "client" in services:
        name = "client" if "client" in services else next(iter(services))
        check.note(
            "no-client-container",
            f"no service sets container_name to ${{{_CLIENT_NAME}}}; taking {name} as the agent's",
            field=f"services.{name}",
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
        return _VARIABLE.sub(_value_of, value) if "$" in value else value
    if isinstance(value, list):
        return [_resolve(item) for item in value]
    if isinstance(value, dict):
        return {name: _resolve(item) for name, item in value.items()}
    return value


def _value_of(match: re.Match[str]) -> str:
    known = _VARIABLES.get(match[1] or match[4] or "")
    if known is None:
        return match[0]
    return match[3] if match[2] == "+" else known


def _without_harness_keys(service: dict[str, Any]) -> dict[str, Any]:
    """The agent's service without what only keeps a container idle, names it for `tb`, or mounts `tb`'s log folders."""
    kept = {name: value for name, value in service.items() if name not in ("container_name", "tty", "stdin_open")}
    if kept.get("build") or _OURS.search(kept.get("image") or ""):
        kept.pop("image", None)
    if _IDLE.fullmatch(_command_line(kept.get("command"))):
        kept.pop("command", None)
    kept = _without_log_mounts(kept)
    return {name: value for name, value in kept.items() if name == "entrypoint" or value not in ([], {}, None)}


def _without_harness_values(service: dict[str, Any], main: dict[str, Any]) -> dict[str, Any]:
    """Another service without `tb`'s log folders; one that runs the agent's image builds it from the same recipe."""
    kept = _without_log_mounts(service)
    if _OURS.search(kept.get("image") or ""):
        build = kept.get("build") or main.get("build")
        kept = {**kept, "build": build} if build else dict(kept)
        kept.pop("image")
    return kept


def _without_log_mounts(service: dict[str, Any]) -> dict[str, Any]:
    mounts = service.get("volumes")
    if not mounts:
        return service
    return {**service, "volumes": [mount for mount in mounts if not _OURS.search(str(mount))]}


def _command_line(command: object) -> str:
    return " ".join(map(str, command)) if isinstance(command, list) else str(command or "")


def _is_idle(rest: dict[str, Any]) -> bool:
    """Whether the sections beside `services` can be left out for a service that names none of them."""
    used = {name for name in rest if name not in _IDLE_SECTIONS and not name.startswith("x-")}
    networks = rest.get("networks") or {}
    return used <= {"networks"} and isinstance(networks, dict) and "default" not in networks


def _plain(main: dict[str, Any]) -> Plain | None:
    workdir = main.get("working_dir")
    env = _env_of(main)
    if not main.keys() <= _PLAIN_KEYS or not _is_plain_build(main.get("build")) or env is None:
        return None
    return None if workdir and "$" in workdir else Plain(env, workdir or None)


def _is_plain_build(build: object) -> bool:
    if isinstance(build, dict):
        plain = {"context": (".", "./"), "dockerfile": ("Dockerfile", "./Dockerfile")}
        return all(value in plain.get(name, ()) for name, value in build.items())
    return build in (".", "./", None)


def _build(build: str | dict[str, Any]) -> Build:
    if isinstance(build, str):
        return Build(build)
    return Build(build.get("context") or ".", build.get("dockerfile") or "Dockerfile", build.get("dockerfile_inline"))


def _env_of(service: dict[str, Any]) -> dict[str, str] | None:
    """The service's variables as a table, in either spelling; None if compose would look into the host's for one in a
    way that an environment does not know."""
    env = service.get("environment") or {}
    if isinstance(env, list):
        pairs = [entry.partition("=") for entry in env]
        table = {name: value for name, _, value in pairs} if all(sign for _, sign, _ in pairs) else None
    elif None in env.values():
        table = None
    else:
        table = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in env.items()}
    if table is None or any("$" in _KEPT_VARIABLE.sub("", value) for value in table.values()):
        return None
    return table


def _refuse_confusion(check: Checker, others: dict[str, Any], name: str) -> None:
    """Refuse whatever would change its meaning when the agent's service is called `main` and answers to both names."""
    for other, service in others.items():
        place = f"services.{other}"
        networks = service.get("networks")
        specs = networks.values() if isinstance(networks, dict) else ()
        if other == MAIN_SERVICE or any(MAIN_SERVICE in _aliases(spec) for spec in specs):
            raise TaskFormatError(
                check.file,
                field=place,
                found=f"a service called {MAIN_SERVICE} beside the agent's, {name}",
                expected=f"another name: {MAIN_SERVICE} is what the agent's is called in every task",
            )
        extended = service.get("extends")
        if extended == name or (isinstance(extended, dict) and _extends_here(extended, name)):
            raise check.refuse(
                f"{place}.extends",
                found=extended,
                expected="a service of its own: the harness changes the agent's, its name and its command",
            )


def _extends_here(extended: dict[str, Any], name: str) -> bool:
    file = (extended.get("file") or "docker-compose.yaml").removeprefix("./")
    return extended.get("service") == name and file == "docker-compose.yaml"


def _with_alias(service: dict[str, Any], name: str) -> dict[str, Any]:
    """The service under its canonical name still answers to the old one on the task's network."""
    if service.get("network_mode"):
        return service
    networks = service.get("networks") or ["default"]
    table = dict.fromkeys(networks) if isinstance(networks, list) else networks
    aliased = {net: {**(spec or {}), "aliases": _with_name(spec, name)} for net, spec in table.items()}
    return {**service, "networks": aliased}


def _with_name(network: dict[str, Any] | None, name: str) -> list[str]:
    return list(dict.fromkeys([*_aliases(network), name]))


def _aliases(network: dict[str, Any] | None) -> list[str]:
    return (network or {}).get("aliases") or []


def _renamed_references(service: dict[str, Any], name: str) -> dict[str, Any]:
    """The service with every mention of the agent's, in whichever field compose takes a service's name."""
    changed: dict[str, Any] = {}
    waits = service.get("depends_on")
    if isinstance(waits, list):
        changed["depends_on"] = [MAIN_SERVICE if other == name else other for other in waits]
    elif waits:
        changed["depends_on"] = {MAIN_SERVICE if other == name else other: how for other, how in waits.items()}
    if links := service.get("links"):
        changed["links"] = [_renamed_link(link, name) for link in links]
    if sources := service.get("volumes_from"):
        changed["volumes_from"] = [_renamed_head(source, name) for source in sources]
    for field in ("network_mode", "ipc", "pid"):
        if service.get(field) == f"service:{name}":
            changed[field] = f"service:{MAIN_SERVICE}"
    build = service.get("build")
    if isinstance(build, dict) and build.get("additional_contexts"):
        contexts = _renamed_contexts(build["additional_contexts"], name)
        changed["build"] = {**build, "additional_contexts": contexts}
    return {**service, **changed}


def _renamed_link(link: str, name: str) -> str:
    """`SERVICE` or `SERVICE:ALIAS`; a link without an alias makes the service answer to its own name."""
    head, _, alias = link.partition(":")
    return f"{MAIN_SERVICE}:{alias or name}" if head == name else link


def _renamed_head(source: str, name: str) -> str:
    """`SERVICE` or `SERVICE:MODE`, but not `container:NAME`."""
    head, colon, mode = source.partition(":")
    is_mode = not colon or mode in ("ro", "rw")
    return f"{MAIN_SERVICE}{colon}{mode}" if head == name and is_mode else source


def _renamed_contexts(contexts: list[str] | dict[str, str], name: str) -> list[str] | dict[str, str]:
    old, new = f"service:{name}", f"service:{MAIN_SERVICE}"
    if isinstance(contexts, dict):
        return {key: new if value == old else value for key, value in contexts.items()}
    return [f"{entry.removesuffix(old)}{new}" if entry.endswith(f"={old}") else entry for entry in contexts]


def _note_mounts(check: Checker, name: str, service: dict[str, Any]) -> None:
    for mount in service.get("volumes", ()):
        source = str(mount.get("source", "")) if isinstance(mount, dict) else mount.split(":")[0]
        if source.startswith((".", "/", "~")):
            check.note(
                "host-mount",
                f"the agent's service mounts the host folder {source}",
                field=f"services.{name}.volumes",
                hint="COPY what it needs in the Dockerfile",
            )
