"""Tasks of several services: `docker compose` or `docker-compose` brings them up, the Engine API does the rest.

The file is read, given our labels, limits and closed networks, and handed to Compose as a file of ours. One service is
the sandbox; the others can be reached by `ComposeSandbox.service`. Everything is removed by its labels.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import yaml

from termarena.core.errors import (
    BuildError,
    CapabilityMissing,
    EngineError,
    ImageError,
    SandboxBroken,
    SandboxStartError,
    ServiceFailed,
)
from termarena.sandbox.compositions import Beside, has_binds, load_composition
from termarena.sandbox.docker import labels
from termarena.sandbox.docker.box import DockerSandbox, Origin
from termarena.sandbox.docker.changes import Rows
from termarena.sandbox.docker.composition import rewrite
from termarena.sandbox.docker.container import Container
from termarena.sandbox.docker.images import inspect_image
from termarena.sandbox.docker.snapshots import DockerSnapshot, SavedSnapshot, restore
from termarena.sandbox.docker.sweeping import remove_all_with
from termarena.sandbox.staged import staged
from termarena.sandbox.values import Surroundings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from termarena.sandbox.contract import Snapshot
    from termarena.sandbox.docker.address import Address
    from termarena.sandbox.docker.driver import DockerDriver
    from termarena.sandbox.docker.hub import Hub
    from termarena.sandbox.spec import Root, SandboxSpec

__all__ = ["ComposeSandbox", "composed"]

UP_TIMEOUT_S: Final = 900.0
"""Images may have to be pulled and built."""
HEALTHY_TIMEOUT_S: Final = 180.0
ASK_AGAIN_S: Final = 5.0
"""How long an event of health is waited for before the engine is asked: it may have been lost."""
ASK_TIMEOUT_S: Final = 30.0
TAIL_CHARACTERS: Final = 4000
STEP: Final = re.compile(r"Step \d+/\d+ : .*")


class ComposeSandbox(DockerSandbox):
    """The main service, with doors to the others; Compose starts a fork of it from an image."""

    keeps_layers = False

    def __init__(self, sandbox_id: str, spec: SandboxSpec, container: Container, origin: Origin) -> None:
        """Alone, until it has joined the others."""
        super().__init__(sandbox_id, spec, container, origin)
        self._beside: Beside[DockerSandbox] = Beside(sandbox_id)

    def join(self, others: Mapping[str, DockerSandbox]) -> None:
        """Learn of the other services."""
        self._beside = Beside(self.id, others)

    @property
    def services(self) -> tuple[str, ...]:
        """The names of the other services."""
        return self._beside.names

    def service(self, name: str) -> DockerSandbox:
        """Another service, to run commands in; raises `SandboxBroken` for a name that the file does not have."""
        return self._beside.find(name)

    async def surroundings(self) -> Surroundings:
        """See the contract."""
        try:
            answer = await self.container.engine.call("GET", f"/containers/{self.container.id}/json")
        except EngineError as error:
            raise SandboxBroken(self.id, error.problem) from error
        config = answer.json().get("Config") or {}
        env = dict(pair.partition("=")[::2] for pair in config.get("Env") or ())
        return Surroundings({**env, **self.spec.env}, self.spec.workdir or config.get("WorkingDir") or None)

    async def logs(self, name: str) -> bytes:
        """What a service wrote so far, both outputs in order."""
        container = self.service(name).container
        try:
            query = {"stdout": True, "stderr": True}
            answer = await container.engine.call("GET", f"/containers/{container.id}/logs", query=query)
        except EngineError as error:
            raise SandboxBroken(self.id, error.problem) from error
        return _unwrapped(answer.content)

    async def freeze(self) -> None:
        """See the contract: every service."""
        await super().freeze()
        await self._beside.freeze()

    async def thaw(self) -> None:
        """See the contract: every service."""
        await self._beside.thaw()
        await super().thaw()

    async def _stop(self) -> None:
        try:
            for other in self._beside.boxes.values():
                other.container.end("its sandbox has been stopped")
                other.container.hub.forget(other.container.id)
                await other.container.commands.close()
            await super()._stop()
        finally:
            await _remove(self._origin.address, self.id)


async def _remove(address: Address, sandbox_id: str) -> None:
    await asyncio.to_thread(remove_all_with, address, f"{labels.SANDBOX}={sandbox_id}")


def _unwrapped(content: bytes) -> bytes:
    """A log without the heads of its frames."""
    out, at = bytearray(), 0
    while at + 8 <= len(content):
        size = int.from_bytes(content[at + 4 : at + 8], "big")
        out += content[at + 8 : at + 8 + size]
        at += 8 + size
    return bytes(out)


async def _program(driver: DockerDriver, env: Mapping[str, str]) -> list[str]:
    """The command that is Compose here, looked for once; raises `CapabilityMissing`."""
    if not driver.compose_words:
        driver.compose_words = await _find_program(env)
    return driver.compose_words


async def _find_program(env: Mapping[str, str]) -> list[str]:
    if shutil.which("docker") is not None:
        process = await asyncio.create_subprocess_exec(
            "docker",
            "compose",
            "version",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=env,
        )
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S):
                has_plugin = await process.wait() == 0
        except TimeoutError:
            has_plugin = False
            process.kill()
            await process.wait()
        if has_plugin:
            return ["docker", "compose"]
    if shutil.which("docker-compose") is not None:
        return ["docker-compose"]
    raise CapabilityMissing(
        "several services",
        driver="docker",
        why="neither `docker compose` nor `docker-compose` is installed here",
        hint="install the Compose plugin, or docker-compose",
    )


def _environment(address: Address, spec: SandboxSpec) -> dict[str, str]:
    """What Compose sees: where the engine is, and the spec's variables for the file; nothing else of the harness."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "SSH_AUTH_SOCK", "DOCKER_CONFIG") if name in os.environ}
    kept |= {"DOCKER_HOST": str(address), "COMPOSE_IGNORE_ORPHANS": "1", "DOCKER_BUILDKIT": "0"}
    if address.scheme == "tls":
        kept |= {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(address.certificates or "")}
    return {**kept, **spec.env}


@asynccontextmanager
async def composed(
    driver: DockerDriver, hub: Hub, spec: SandboxSpec, root: Root, *, snapshot: Snapshot | None = None
) -> AsyncIterator[ComposeSandbox]:
    """The services of a compose file, healthy; removed in the end. Errors as the driver's `start`."""
    sandbox_id = f"ta-{secrets.token_hex(6)}"
    tags = driver.new_labels(sandbox_id, root)
    with staged("services") as folder:
        own = await asyncio.to_thread(_own_folder, root, folder)
        try:
            await _up(driver, spec, own, tags, await _image_of(driver, hub, root, tags, snapshot))
            box = await _gather(driver, hub, spec, root, tags)
            try:
                await _await_health(box)
                yield box
            finally:
                await asyncio.shield(box.stop())
        finally:
            await asyncio.shield(_remove(driver.address, sandbox_id))


def _own_folder(root: Root, folder: Path) -> Root:
    """The root in a copy of its folder where services mount parts of that: what they write is no other trial's."""
    path = Path(str(root.path))
    if not has_binds(load_composition(path)):
        return root
    shutil.copytree(path.parent, folder / "files", symlinks=True)
    return root.model_copy(update={"path": folder / "files" / path.name})


async def _image_of(
    driver: DockerDriver, hub: Hub, root: Root, tags: dict[str, str], snapshot: Snapshot | None
) -> str | None:
    """The image of a snapshot, for the main service; None without one. Raises `ImageError`."""
    if snapshot is None or isinstance(snapshot, DockerSnapshot):
        return None if snapshot is None else snapshot.image
    if not isinstance(snapshot, SavedSnapshot):
        raise ImageError("snapshot", "was not made by the docker driver")
    path = Path(str(root.path))
    main = load_composition(path)["services"].get(root.service) or {}
    base = await inspect_image(hub.engine, str(main.get("image") or "none"))
    if base is None:
        raise ImageError(str(path), "does not say which image the snapshot was taken on", hint="prepare it first")
    own = {**tags, labels.SANDBOX: f"{tags[labels.SANDBOX]}.snapshot"}
    return (await restore(hub.engine, snapshot, base, address=driver.address, labels=own)).image


async def _up(driver: DockerDriver, spec: SandboxSpec, root: Root, tags: dict[str, str], image: str | None) -> None:
    path = Path(str(root.path))
    document = rewrite(load_composition(path), spec, service=root.service, tags=tags, source=str(path), image=image)
    env = _environment(driver.address, spec)
    program = await _program(driver, env)
    with staged("compose") as folder:
        file = folder / "compose.yaml"
        file.write_text(yaml.safe_dump(document, sort_keys=True))
        place = ["-p", tags[labels.SANDBOX], "-f", str(file), "--project-directory", str(path.parent.absolute())]
        if any("build" in body for body in document["services"].values()):
            # `up` would build too, but leave the container of a failing step, which has no label.
            await _run([*program, *place, "build", "--force-rm"], env, str(path))
        await _run([*program, *place, "up", "-d"], env, str(path))


async def _run(command: list[str], env: Mapping[str, str], source: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), UP_TIMEOUT_S)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
        if isinstance(error, TimeoutError):
            raise SandboxStartError(f"{source}: the services did not start within {UP_TIMEOUT_S:g} s") from error
        raise
    if process.returncode != 0:
        raise _up_error(source, said.decode(errors="replace"))


def _up_error(source: str, said: str) -> Exception:
    tail = said.strip()[-TAIL_CHARACTERS:]
    steps = STEP.findall(said)
    last = tail.splitlines()[-1] if tail else "Compose failed without a word"
    if steps and ("non-zero code" in said or "failed to build" in said.lower()):
        return BuildError(
            source, last, step=steps[-1], log_tail=tail, cause="task" if "non-zero code" in said else None
        )
    return SandboxStartError(f"{source}: the services did not start: {last}", hint=tail)


async def _gather(
    driver: DockerDriver, hub: Hub, spec: SandboxSpec, root: Root, tags: dict[str, str]
) -> ComposeSandbox:
    """Take hold of the containers that Compose started."""
    sandbox_id = tags[labels.SANDBOX]
    chosen = {"label": [f"{labels.SANDBOX}={sandbox_id}", "com.docker.compose.service"]}
    rows = (await hub.engine.call("GET", "/containers/json", query={"all": True, "filters": chosen})).json()
    boxes: dict[str, DockerSandbox] = {}
    for row in rows:
        service = str(row["Labels"]["com.docker.compose.service"])
        is_main = service == root.service
        container = Container(
            hub, str(row["Id"]), sandbox_id, allow_local=driver.allows_local, has_layers=driver.has_layers
        )
        image = await inspect_image(hub.engine, str(row["ImageID"]))
        if image is None:
            raise ImageError(str(row["Image"]), "is not on the engine although a service runs it")
        kind = ComposeSandbox if is_main else DockerSandbox
        seen = spec if is_main else spec.model_copy(update={"workdir": None, "user": "root"})
        origin = Origin(image, image, Rows({}), tags, driver.address)
        boxes[service] = kind(sandbox_id if is_main else f"{sandbox_id}/{service}", seen, container, origin)
        with contextlib.suppress(SandboxBroken):
            await container.attend()
    main = boxes.pop(root.service, None)
    if not isinstance(main, ComposeSandbox):
        raise SandboxStartError(f"no container came of the service {root.service}")
    main.join(boxes)
    if spec.workdir is not None:
        who = await main.identity(None)
        await main.container.files.make_folder(spec.workdir, owner=(who.uid, who.gid))
    return main


async def _await_health(main: ComposeSandbox) -> None:
    try:
        await asyncio.wait_for(_until_healthy(main), HEALTHY_TIMEOUT_S)
    except TimeoutError as error:
        raise SandboxStartError("a service did not become healthy in time", hint="see its healthcheck") from error


async def _until_healthy(main: ComposeSandbox) -> None:
    """Wait until every service with a healthcheck has passed it; raises `SandboxStartError`."""
    for name, box in [("", main), *((name, main.service(name)) for name in main.services)]:
        while True:
            container = box.container
            container.health_word.clear()
            told = (await container.engine.call("GET", f"/containers/{container.id}/json")).json()
            health = (told["State"].get("Health") or {}).get("Status", "none")
            if health in ("none", "healthy"):
                break
            if health == "unhealthy" or not told["State"]["Running"]:
                tail = (await main.logs(name)).decode(errors="replace")[-TAIL_CHARACTERS:] if name else ""
                raise ServiceFailed(name or "main", f"is {health}", tail)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(container.health_word.wait(), ASK_AGAIN_S)
