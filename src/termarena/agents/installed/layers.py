"""Layers: agents installed once, kept in the cache folder, and shown read-only to every sandbox that needs them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from termarena.agents.installed.description import PREFIX
from termarena.agents.installed.errors import AgentNotInstalled
from termarena.core.errors import SandboxError
from termarena.core.home import Home
from termarena.core.records import write_record
from termarena.sandbox import Limits, Mount, Network, SandboxSpec
from termarena.sandbox.drivers import open_driver

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from termarena.agents.contract import Ground
    from termarena.agents.installed.description import Description
    from termarena.sandbox import Driver, ExecResult, Sandbox

    Making = Callable[[Path], Awaitable[None]]
    Starting = Callable[[], AbstractAsyncContextManager[Sandbox]]

__all__ = ["Layer", "Layers"]

GIB: Final = 1 << 30
INSTALLING: Final = Limits(memory_bytes=8 * GIB, disk_bytes=4 * GIB, pids=4096)
PASSED: Final = ("NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL")
"""Of the harness's variables: where packages come from, for those who have their own index."""
TRUST: Final = "/etc/ssl/certs/ca-certificates.crt"
TRUSTING: Final = ("NODE_EXTRA_CA_CERTS", "PIP_CERT", "SSL_CERT_FILE")
"""Installers that come with certificates of their own trust the sandbox's system as well."""
SHOWN_CHARACTERS: Final = 4000
SHOWN_WORDS: Final = 300
START_S: Final = 120.0
"""For an agent to say its version in an image: a large program that nobody has read yet takes seconds."""
HAS_LOADER: Final = "test -e /lib64/ld-linux-x86-64.so.2 || test -e /lib/ld-linux-aarch64.so.1"
CARRIED: Final = "carried/node"
NODE: Final = f"{PREFIX}/{CARRIED}"
NODE_VERSION: Final = "24.21.0"
WITH_NODE: Final = f"""
case "$(uname -m)" in aarch64 | arm64) machine=arm64 ;; *) machine=x64 ;; esac
npm install --prefix "$PREFIX/carried" --no-audit --no-fund --loglevel=error "node-linux-$machine@{NODE_VERSION}"
ln -s "node_modules/node-linux-$machine/bin/node" "{NODE}"
"""
TREE: Final = "tree"
RECORD: Final = "layer.json"


@dataclass(frozen=True, slots=True)
class Layer:
    """An installed agent on this machine's disk."""

    folder: Path
    was_cached: bool
    install_s: float

    @property
    def mount(self) -> Mount:
        """How a sandbox gets it."""
        return Mount(source=(self.folder / TREE).resolve(), target=PREFIX)

    @property
    def node(self) -> str:
        """The Node.js that was brought along, or whichever the sandbox finds."""
        return NODE if (self.folder / TREE / CARRIED).exists() else "node"

    def mounted(self, spec: SandboxSpec) -> SandboxSpec:
        """A sandbox that has it."""
        return spec.model_copy(update={"mounts": (*spec.mounts, self.mount)})


class Layers:
    """Installs each agent once per root file system, whoever asks first; a failure is told to all who ask.

    The next run tries again what failed. What is there is used by every later run.
    """

    def __init__(self, home: Path, *, environ: Mapping[str, str] | None = None) -> None:
        """`home` is the cache folder, `environ` by default the harness's own."""
        self._home = Home(home)
        self._environ = os.environ if environ is None else environ
        self._jobs: dict[str, asyncio.Task[Layer]] = {}

    async def on_host_root(self, description: Description, driver: Driver) -> Layer:
        """For every task that lies on this machine's own files. Raises `AgentNotInstalled`."""
        base = await driver.prepare(SandboxSpec(limits=INSTALLING, network=Network(mode="public")))

        async def make(tree: Path) -> None:
            async with driver.start(base.spec) as box:
                await self._install(box, description, tree)

        return await self._layer(description, f"{driver.name} {base.digest}", make)

    async def on_ground(self, description: Description, ground: Ground) -> Layer:
        """For the root file system of one task: an image has tools and libraries of its own.

        Where it lacks what the agent's script requires, an agent that is portable is installed on this machine's own
        files instead. Raises `AgentNotInstalled`.
        """
        if ground.start.is_host_root:
            return await self.on_host_root(description, ground.driver)
        spec = ground.start.spec.model_copy(update={"network": Network(mode="public"), "limits": INSTALLING})

        async def make(tree: Path) -> None:
            async with ground.start.start(spec=spec) as box:
                lacking = await _lacking(box, description)
                if lacking is None or description.portable == "no":
                    await self._install(box, description, tree)
                    return
            brought = await self._brought(description, lacking)
            await _try_in_image(description, lambda: ground.start.start(spec=brought.mounted(spec)))
            await asyncio.to_thread(tree.symlink_to, brought.folder / TREE)

        base = f"{ground.driver.name} {ground.start.digest}"
        if description.portable != "no":  # what was tried in the image is tried anew where it is another thing
            base += f" {description.portable} {description.starts}"
        return await self._layer(description, base, make)

    async def _brought(self, description: Description, lacking: str) -> Layer:
        """One that needs nothing of the image but its C library. Raises `AgentNotInstalled`."""
        carrying = description
        if description.portable == "with-node":
            carrying = description.model_copy(update={"install": description.install + WITH_NODE})
        driver = open_driver("namespace", home=self._home.path, run_id="agents")
        try:
            return await self.on_host_root(carrying, driver)
        except SandboxError as error:
            raise _lacks(description, lacking) from error
        finally:
            await driver.aclose()

    async def _layer(self, description: Description, base: str, make: Making) -> Layer:
        key = hashlib.sha256(f"{description.digest}\n{base}".encode()).hexdigest()[:32]
        if key not in self._jobs:
            self._jobs[key] = asyncio.create_task(self._made(description, key, make))
        return await asyncio.shield(self._jobs[key])

    async def _made(self, description: Description, key: str, make: Making) -> Layer:
        folder = self._home.folder("agents") / f"{description.name}-{key}"
        if (folder / RECORD).is_file():
            if (folder / TREE).is_dir():
                return Layer(folder, was_cached=True, install_s=0.0)
            shutil.rmtree(folder)  # it stood on another layer, which is gone
        began = time.monotonic()
        unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            await make(unfinished / TREE)
            took = time.monotonic() - began
            facts = {"agent": description.name, "version": description.version, "base": key}
            await asyncio.to_thread(_settle, unfinished, folder, {**facts, "install_s": round(took, 3)})
        except SandboxError as error:
            raise AgentNotInstalled(description.name, f"the sandbox failed: {error}") from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        return Layer(folder, was_cached=False, install_s=took)

    async def _install(self, box: Sandbox, description: Description, tree: Path) -> None:
        await _install(box, description, self._passed())
        await box.get_tree(PREFIX, tree)

    def _passed(self) -> dict[str, str]:
        return {name: self._environ[name] for name in PASSED if name in self._environ}

    async def aclose(self) -> None:
        """Give up what is being installed."""
        for job in self._jobs.values():
            job.cancel()
        await asyncio.gather(*self._jobs.values(), return_exceptions=True)


async def _install(box: Sandbox, description: Description, passed: Mapping[str, str]) -> None:
    """Raises `AgentNotInstalled` with what is missing, or with the end of what the script said."""
    lacking = await _lacking(box, description)
    if lacking is not None:
        raise _lacks(description, lacking)
    await box.exec(["mkdir", "-p", PREFIX])
    has_trust = (await box.exec(["test", "-r", TRUST])).exit_status == 0
    trusting = dict.fromkeys(TRUSTING, TRUST) if has_trust else {}
    variables = {**trusting, **passed, "PREFIX": PREFIX, "VERSION": description.version, "HOME": "/root"}
    script = ["/bin/sh", "-e", "-c", description.install]
    done = await box.exec(script, timeout_s=description.install_timeout_s, cwd="/", env=variables)
    if done.exit_status != 0:
        raise _failed(description, done)
    # A link that leads out of the folder would not be kept, and what nobody may read could not be shown.
    await box.exec(["chmod", "-R", "a+rX", PREFIX])


async def _lacking(box: Sandbox, description: Description) -> str | None:
    """The first command that the agent requires and the sandbox has not."""
    for command in description.requires:
        found = await box.exec(["/bin/sh", "-c", 'command -v "$1" >/dev/null', "sh", command])
        if found.exit_status != 0:
            return command
    return None


def _lacks(description: Description, command: str) -> AgentNotInstalled:
    hint = f"add {command} to the task's image, or write a description that brings its own"
    return AgentNotInstalled(description.name, f"the sandbox has no {command}", hint=hint)


async def _try_in_image(description: Description, starting: Starting) -> None:
    """Raises `AgentNotInstalled` where an agent that was installed elsewhere does not start in the image."""
    async with starting() as box:
        if (await box.exec(["/bin/sh", "-c", HAS_LOADER])).exit_status != 0:
            raise _stays_out(description, "no GNU C library, which one that is brought along needs")
        for script in _first_steps(description):
            variables = {"PREFIX": PREFIX, "NODE": NODE, "HOME": "/tmp"}  # noqa: S108 - in a sandbox that nobody else sees
            done = await box.exec(["/bin/sh", "-e", "-c", script], timeout_s=START_S, cwd="/", env=variables)
            if done.exit_status != 0:
                said = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").strip()
                last = said.splitlines()[-1][:SHOWN_WORDS] if said else f"status {done.exit_status}"
                raise _stays_out(description, f"what is brought along does not start there: {last}", said)


def _first_steps(description: Description) -> Iterator[str]:
    """What has to work in an image before a trial may count on it."""
    if description.portable == "with-node":
        yield f"{NODE} --version"
    if description.starts is not None:
        yield description.starts


def _stays_out(description: Description, problem: str, said: str = "") -> AgentNotInstalled:
    hint = f"take an image with {description.requires[0]}, or add what is missing to the task's"
    told = f"the image has no {description.requires[0]}, and {problem}"
    return AgentNotInstalled(description.name, told, log_tail=said[-SHOWN_CHARACTERS:], hint=hint)


def _failed(description: Description, done: ExecResult) -> AgentNotInstalled:
    said = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
    limit = f"did not end within {description.install_timeout_s:g} s"
    how = limit if done.timed_out else f"ended with status {done.exit_status}"
    return AgentNotInstalled(description.name, f"its install script {how}", log_tail=said)


def _settle(unfinished: Path, folder: Path, facts: dict[str, object]) -> None:
    """Make it the cached one, unless another process was faster. Raises `UsageError` where nothing can be written."""
    unfinished.chmod(0o755)
    if not (unfinished / TREE).is_symlink():
        (unfinished / TREE).chmod(0o755)
    write_record(unfinished / RECORD, "agent-layer", facts)
    try:
        unfinished.rename(folder)
    except OSError:
        if not (folder / RECORD).is_file():
            raise
