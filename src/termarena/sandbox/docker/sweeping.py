"""Finding and removing what carries our labels, without an event loop: for lists, sweeps and the reaper process."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from termarena.core.errors import EngineError
from termarena.sandbox.docker.address import ADVICE, dial, tls_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.sandbox.docker.address import Address

__all__ = ["ask", "containers_with", "remove_all_with", "remove_with"]

API: Final = "/v1.40"
TIMEOUT_S: Final = 60.0
REMOVE_TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.02
"""Between two rounds of removing: what an engine is still removing is not there sooner for being asked again."""
STUCK: Final = "see what holds it: docker ps -a; an engine that is stuck has to be restarted"
REFUSED_FROM: Final = 400
GONE: Final = (404, 409)


def ask(address: Address, method: str, path: str, **query: object) -> Any:  # noqa: ANN401 - foreign JSON
    """One call on a connection of its own. Raises `EngineError`."""
    dialled = dial(address)
    connection = http.client.HTTPConnection("docker", timeout=TIMEOUT_S)
    try:
        dialled.socket.settimeout(TIMEOUT_S)
        is_tls = address.scheme == "tls"
        connection.sock = (
            tls_context(address).wrap_socket(dialled.socket, server_hostname=address.host) if is_tls else dialled.socket
        )
        pairs = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in query.items()}
        connection.request(method, API + quote(path, safe="/:@") + ("?" + urlencode(pairs) if pairs else ""))
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise EngineError(str(address), dialled.said() or str(error) or "no answer", hint=ADVICE) from error
    finally:
        connection.close()
        dialled.close()
    if answer.status >= REFUSED_FROM:
        raise EngineError(str(address), content.decode(errors="replace").strip(), status=answer.status)
    return json.loads(content) if content else None


def containers_with(address: Address, *labels: str) -> list[dict[str, Any]]:
    """Containers that carry all the labels, running or not. Raises `EngineError`."""
    found = ask(address, "GET", "/containers/json", all=1, filters={"label": list(labels)})
    return [row for row in found if isinstance(row, dict)]


def remove_with(address: Address, label: str) -> int:
    """Remove the containers, networks, volumes and snapshot images with this label; how many things there were."""
    count = 0
    for kind, name in _things(address, label):
        count += 1
        query = {"containers": {"force": 1, "v": 1}, "images": {"force": 1}, "volumes": {"force": 1}}.get(kind, {})
        try:
            ask(address, "DELETE", f"/{kind}/{name}", **query)
        except EngineError as error:
            # Someone else removes it at this moment, or it is still used by what comes next round.
            if error.status not in GONE:
                raise
    return count


def remove_all_with(address: Address, label: str) -> None:
    """Remove until nothing with this label is left; raises `EngineError` when that does not come true in time."""
    give_up = time.monotonic() + REMOVE_TIMEOUT_S
    while remove_with(address, label):
        if time.monotonic() > give_up:
            raise EngineError(str(address), f"what is labelled {label} cannot be removed", hint=STUCK)
        time.sleep(PAUSE_S)


def _things(address: Address, label: str) -> Iterator[tuple[str, str]]:
    for row in containers_with(address, label):
        yield "containers", str(row["Id"])
    chosen = {"label": [label]}
    for row in ask(address, "GET", "/networks", filters=chosen):
        yield "networks", str(row["Id"])
    for row in ask(address, "GET", "/volumes", filters=chosen).get("Volumes") or []:
        yield "volumes", str(row["Name"])
    for row in ask(address, "GET", "/images/json", filters=chosen):
        yield "images", str(row["Id"])
