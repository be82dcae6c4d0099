"""A compose file made ours: labels on everything, limits and an idle command for the main service, closed networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from termarena.sandbox.compositions import check_reach, service_of
from termarena.sandbox.docker.scripts import KEEPER, LIMIT_KB, OWN_PROCESSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.spec import SandboxSpec

__all__ = ["rewrite"]


def rewrite(
    document: dict[str, Any],
    spec: SandboxSpec,
    *,
    service: str,
    tags: Mapping[str, str],
    source: str,
    image: str | None,
) -> dict[str, Any]:
    """A new document; `image` replaces the main service's own. Raises `ImageError` for a file that cannot be used."""
    service_of(document, service, source=source)
    made = {name: _service(name, dict(body or {}), tags, source) for name, body in document["services"].items()}
    made[service] = _main(made[service], spec, image=image)
    rest = {key: value for key, value in document.items() if key not in ("version", "name", "services")}
    is_closed = spec.network.mode != "public"
    networks = {"default": None, **(rest.get("networks") or {})}
    rest["networks"] = {name: _network(body, tags, is_closed=is_closed) for name, body in networks.items()}
    if rest.get("volumes"):
        rest["volumes"] = {name: _labelled(body, tags) for name, body in rest["volumes"].items()}
    return {**rest, "services": made}


def _service(name: str, body: dict[str, Any], tags: Mapping[str, str], source: str) -> dict[str, Any]:
    check_reach(name, body, source=source)
    # Names would clash between trials, and what died is to stay dead.
    kept = {key: value for key, value in body.items() if key not in ("container_name", "restart", "ports")}
    if isinstance(kept.get("build"), str):
        kept["build"] = {"context": kept["build"]}
    if isinstance(kept.get("build"), dict):
        kept["build"] = _labelled(kept["build"], tags)
    return _labelled(kept, tags)


def _main(body: dict[str, Any], spec: SandboxSpec, *, image: str | None) -> dict[str, Any]:
    limits = spec.limits
    if image is not None:
        body = {key: value for key, value in body.items() if key != "build"} | {"image": image}
    if not body.get("command") and not body.get("entrypoint"):
        idle = ["/bin/sh", "-c", KEEPER]
        own = {"command": idle} if spec.runs_entrypoint and image is None else {"entrypoint": idle, "user": "0:0"}
        body |= {**own, "stdin_open": True}
    body |= {
        "init": True,
        "hostname": body.get("hostname") or spec.hostname,
        "mem_limit": limits.memory_bytes,
        "memswap_limit": limits.memory_bytes,
        "pids_limit": limits.pids + OWN_PROCESSES,
        "ulimits": {"memlock": {"soft": LIMIT_KB << 10, "hard": LIMIT_KB << 10}, "core": 0},
    }
    if limits.cpus is not None:
        body["cpus"] = limits.cpus
    if spec.mounts:
        lent = [
            {"type": "bind", "source": str(mount.source), "target": mount.target, "read_only": True}
            for mount in spec.mounts
        ]
        body["volumes"] = [*(body.get("volumes") or ()), *lent]
    return body


def _network(body: dict[str, Any] | None, tags: Mapping[str, str], *, is_closed: bool) -> dict[str, Any]:
    if body and body.get("external"):
        return body
    made = _labelled(body, tags)
    if is_closed:
        made["internal"] = True
    return made


def _labelled(body: dict[str, Any] | None, tags: Mapping[str, str]) -> dict[str, Any]:
    made = dict(body or {})
    given = made.get("labels") or {}
    if isinstance(given, list):
        given = dict(str(item).partition("=")[::2] for item in given)
    made["labels"] = {**given, **tags}
    return made
