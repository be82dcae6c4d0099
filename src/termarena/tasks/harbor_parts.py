"""Sections of a `task.toml` turned into parts of a `Task`: the rules of the format that types alone cannot say."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from termarena.core.errors import TaskFormatError
from termarena.tasks.files import FileTree
from termarena.tasks.model import AgentPhase, Artifact, Environment, Grading, McpServer
from termarena.tasks.network import PUBLIC, policy_of

if TYPE_CHECKING:
    from termarena.tasks.checking import Checker
    from termarena.tasks.harbor_schema import AgentSection, EnvironmentSection, VerifierSection

__all__ = ["NOTHING", "Bundled", "agent_phase", "artifacts", "check_buildable", "compose_in", "environment", "grading"]

# Harbor reads this name and no other; tasks ship files called docker-compose.yml as data.
COMPOSE_NAME = "docker-compose.yaml"
_FREE_AGENT = AgentPhase()
_PLAIN_GRADING = Grading()
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG])(?:I?B)?", re.IGNORECASE)
_MB_PER = {"K": 1 / 1024, "M": 1, "G": 1024}


def environment(
    check: Checker,
    section: EnvironmentSection,
    context: FileTree,
    *,
    names: tuple[str, ...],
    place: str = "environment",
) -> Environment:
    """`[environment]` or `[verifier.environment]`, with its build context, whose top level holds `names`."""
    system = section.os.lower()
    if system not in ("linux", "windows"):
        raise check.refuse(f"{place}.os", found=section.os, expected="linux or windows")
    for server in section.mcp_servers:
        _check_mcp(check, server, place)
    network = policy_of(
        check, place, mode=section.network_mode, hosts=section.allowed_hosts, allow_internet=section.allow_internet
    )
    return Environment(
        image=section.docker_image,
        context=context,
        compose=compose_in(names),
        os="windows" if system == "windows" else "linux",
        cpus=section.cpus,
        memory_mb=_megabytes(check, f"{place}.memory", section.memory, section.memory_mb),
        storage_mb=_megabytes(check, f"{place}.storage", section.storage, section.storage_mb),
        gpus=section.gpus or 0,
        gpu_types=section.gpu_types or (),
        tpu=section.tpu,
        network=network or PUBLIC,
        env=section.env,
        workdir=section.workdir,
        skills_dir=section.skills_dir,
        mcp_servers=section.mcp_servers,
        healthcheck=section.healthcheck,
        build_timeout_s=section.build_timeout_sec,
    )


def compose_in(names: tuple[str, ...]) -> str | None:
    """The compose file among the names of a folder, if there is one."""
    return COMPOSE_NAME if COMPOSE_NAME in names else None


def check_buildable(environment: Environment, names: tuple[str, ...], folder: str) -> None:
    """Refuse an environment that nothing could be made from."""
    if not (environment.image or environment.compose or "Dockerfile" in names):
        raise TaskFormatError(
            f"{folder}/environment",
            found="no Dockerfile, no compose file and no docker_image",
            expected="one of them",
            hint="write environment/Dockerfile, or set docker_image in [environment]",
        )


def _check_mcp(check: Checker, server: McpServer, place: str) -> None:
    needed = "command" if server.transport == "stdio" else "url"
    if not getattr(server, needed):
        raise check.refuse(
            f"{place}.mcp_servers", found=server.name, expected=f"a {needed}, as its transport is {server.transport}"
        )


def _megabytes(check: Checker, place: str, text: str | None, number: int | None) -> int | None:
    """The size in MB, from the current field or from the older `"2G"` spelling of it."""
    if text is None:
        return number
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _MB_PER[match[2].upper()]) if match else 0
    if size < 1 or (number is not None and number != size):
        raise check.refuse(place, found=text, expected='a size such as "2G" or "512M", and no other one beside it')
    return size


def agent_phase(check: Checker, section: AgentSection, place: str, *, above: AgentPhase | None = None) -> AgentPhase:
    """`[agent]`; in a step, `above` is the task's own, which holds for whatever the step leaves out."""
    above = above or _FREE_AGENT
    own = policy_of(check, place, mode=section.network_mode, hosts=section.allowed_hosts)
    return AgentPhase(
        timeout_s=above.timeout_s if section.timeout_sec is None else section.timeout_sec,
        user=above.user if section.user is None else section.user,
        network=own or above.network,
    )


def grading(
    check: Checker,
    section: VerifierSection,
    place: str,
    *,
    bundled: Bundled,
    outer: Environment,
    above: Grading | None = None,
) -> Grading:
    """`[verifier]`. `outer` is the task's environment; `above`, in a step, is the task's own grading."""
    if section.environment_mode == "shared" and section.environment is not None:
        raise check.refuse(
            f"{place}.environment_mode", found="shared", expected=f"separate, as [{place}.environment] is set"
        )
    above = above or _PLAIN_GRADING
    mode = section.environment_mode or ("separate" if section.environment else above.mode)
    own = _grader_environment(check, section, place, bundled, outer) if mode == "separate" else None
    return Grading(
        timeout_s=above.timeout_s if section.timeout_sec is None else section.timeout_sec,
        env={**above.env, **section.env},
        user=above.user if section.user is None else section.user,
        network=policy_of(check, place, mode=section.network_mode, hosts=section.allowed_hosts) or above.network,
        mode=mode,
        environment=own or (above.environment if mode == "separate" else None),
        collect=section.collect or above.collect,
    )


class Bundled(NamedTuple):
    """A folder of tests, which may bring the grader's own image."""

    tree: FileTree
    names: tuple[str, ...]


NOTHING = Bundled(FileTree(), ())


def _grader_environment(
    check: Checker, section: VerifierSection, place: str, bundled: Bundled, outer: Environment
) -> Environment | None:
    """The grader's own machine: from `[verifier.environment]`, from an image in the tests' folder, or none."""
    has_image = "Dockerfile" in bundled.names or compose_in(bundled.names) is not None
    tree, names = bundled if has_image else (FileTree(), ())
    if section.environment is not None:
        return environment(check, section.environment, tree, names=names, place=f"{place}.environment")
    if not has_image:
        return None
    changes = {"image": None, "bare": None, "services": (), "context": tree, "compose": compose_in(names)}
    return outer.model_copy(update=changes)


def artifacts(check: Checker, entries: tuple[str | Artifact, ...], place: str) -> tuple[Artifact, ...]:
    """`artifacts`, where a bare path stands for an artifact of that source. No path may climb out of where it
    belongs."""
    found = tuple(Artifact(source=entry) if isinstance(entry, str) else entry for entry in entries)
    for artifact in found:
        climbs = ".." in PurePosixPath(artifact.source).parts or ".." in PurePosixPath(artifact.destination or "").parts
        if climbs or (artifact.destination or "").startswith("/") or "\\" in (artifact.destination or ""):
            raise check.refuse(
                place, found=artifact.source, expected="a source without `..` and a relative destination"
            )
    return found
