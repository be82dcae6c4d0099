"""A workspace at the other end of a conversation: what our agents have in a trial, spoken as shell-v1 requests.

With a referee that offers files and keys those are used; with one that only runs commands, files go through `base64`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import math
import os
import posixpath
import shlex
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from termarena.agents.workspace import SCRIPT
from termarena.battles.remote_terminal import RemoteTerminal
from termarena.core.errors import AgentError, SandboxFileError, WorkspaceClosed
from termarena.sandbox.contract import ExecResult, TreeReport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from termarena.core.records import Json
    from termarena.core.trajectory import Step
    from termarena.sandbox.terminal import TerminalOptions

__all__ = ["Errand", "RemoteWorkspace"]

LONGEST_COMMAND_S: Final = 300
"""Of a referee that announces no other limit."""
CHUNK: Final = 48 << 10
"""Bytes of a file in one command; a multiple of three, so that each part is base64 by itself."""


@dataclass(frozen=True, slots=True)
class Errand:
    """The task message, read."""

    instruction: str
    task_id: str | None
    step: str | None
    workdir: str | None
    user: str | None
    network: Literal["none", "allowlist", "model_only", "public"]
    timeout_s: float
    actions: frozenset[str]
    max_timeout_s: float

    @classmethod
    def of(cls, message: Mapping[str, object]) -> Errand:
        """What is missing or odd has the value of a referee that tells nothing."""
        actions = message.get("actions")
        network = message.get("network")
        return cls(
            instruction=str(message.get("instruction", "")),
            task_id=_text(message.get("task_id")),
            step=_text(message.get("step")),
            workdir=_text(message.get("cwd")),
            user=_text(message.get("user")),
            network=network if network in ("none", "allowlist", "model_only") else "public",
            timeout_s=_number(message.get("deadline_sec"), 3600.0),
            actions=frozenset(map(str, actions)) if isinstance(actions, list) else frozenset({"exec"}),
            max_timeout_s=_number(message.get("max_timeout"), LONGEST_COMMAND_S),
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    return float(value) if is_number else default  # type: ignore[arg-type]  # just looked


class RemoteWorkspace:
    """See `Workspace`. Commands run as whoever the session is: another user cannot be asked for."""

    def __init__(self, ask: Callable[[dict[str, Json]], Awaitable[Mapping[str, Json]]], errand: Errand) -> None:
        """`ask` sends one request and gives what came of it."""
        self._ask = ask
        self.errand = errand
        self._deadline = time.monotonic() + errand.timeout_s
        self._thought = ""

    @property
    def seconds_left(self) -> float:
        """Until the deadline, as it was told."""
        return max(self._deadline - time.monotonic(), 0.0)

    async def request(self, table: dict[str, Json]) -> Mapping[str, Json]:
        """One request, with what the agent thought before it."""
        if self.seconds_left <= 0:
            raise WorkspaceClosed("the time is up")
        thought, self._thought = self._thought, ""
        return await self._ask({**table, "thought": thought} if thought else table)

    async def run(self, command: str, *, timeout_s: float | None = None) -> Mapping[str, Json]:
        """A command in the session's own shell. Raises `AgentError` for an answer that is none."""
        seconds = min(timeout_s or self.seconds_left, self.errand.max_timeout_s)
        told = await self.request({"kind": "exec_request", "command": command, "timeout": max(math.ceil(seconds), 1)})
        if told.get("kind") != "exec_result":
            raise AgentError(f"the referee answered a command with {str(told)[:300]}")
        return told

    async def exec(
        self,
        argv: Sequence[str] | str,
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        user: str | None = None,  # noqa: ARG002 - the contract's
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """See the contract; the session's shell is as it was before."""
        words = ["/bin/sh", "-c", SCRIPT, "sh", argv] if isinstance(argv, str) else list(argv)
        variables = [f"{name}={value}" for name, value in (env or {}).items()]
        command = shlex.join([*(["env", *variables] if variables else []), *words])
        async with self._given(stdin) as source:
            folder = f"cd {shlex.quote(cwd)} && " if cwd else ""
            began = time.monotonic()
            told = await self.run(f"( {folder}{command} <{source} )", timeout_s=timeout_s)
        return _executed(told, time.monotonic() - began)

    @contextlib.asynccontextmanager
    async def _given(self, stdin: bytes) -> AsyncIterator[str]:
        if not stdin:
            yield "/dev/null"
            return
        path = f"/tmp/.input-{os.urandom(8).hex()}"  # noqa: S108 - inside the sandbox, by a name of its own
        await self.write(path, stdin)
        yield path
        await self.run(f"rm -f {path}")

    @contextlib.asynccontextmanager
    async def terminal(self, options: TerminalOptions | None = None) -> AsyncIterator[RemoteTerminal]:
        """The session's one terminal; variables of the options are set in its shell."""
        env = options.env if options is not None else {}
        if env:
            words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
            await self.run(f"export {words}")
        yield RemoteTerminal(self)

    async def read(self, path: str) -> bytes:
        """See the contract."""
        if "read_file" not in self.errand.actions:
            told = await self.run(f"base64 <{shlex.quote(path)}")
            if told.get("exit_code") != 0:
                raise SandboxFileError("read", path, problem=str(told.get("stdout"))[-300:])
            return _decoded(path, str(told.get("stdout", "")))
        told = await self.request({"kind": "read_file", "path": path})
        self._require("read", path, told)
        if told.get("truncated"):
            raise SandboxFileError("read", path, problem="it is larger than the referee gives", errno=errno.EFBIG)
        content = str(told.get("content", ""))
        return _decoded(path, content) if told.get("encoding") == "base64" else content.encode()

    async def write(self, path: str, content: bytes) -> None:
        """See the contract."""
        if "write_file" in self.errand.actions:
            encoded = base64.b64encode(content).decode()
            told = await self.request({"kind": "write_file", "path": path, "content": encoded, "encoding": "base64"})
            self._require("write", path, told)
            return
        folder, quoted = shlex.quote(posixpath.dirname(path) or "."), shlex.quote(path)
        await self._must(f"mkdir -p {folder} && : >{quoted}", "write", path)
        for start in range(0, len(content), CHUNK):
            part = base64.b64encode(content[start : start + CHUNK]).decode()
            await self._must(f"printf %s {part} | base64 -d >>{quoted}", "write", path)

    async def put_tree(self, source: Path, target: str) -> TreeReport:
        """See the contract."""
        files, size_bytes, commands = 0, 0, [f"mkdir -p {shlex.quote(target)}"]
        for path in sorted(await asyncio.to_thread(lambda: list(source.rglob("*")))):
            there = f"{target}/{path.relative_to(source)}"
            files += 1
            if path.is_symlink():
                commands.append(f"ln -sfn {shlex.quote(str(path.readlink()))} {shlex.quote(there)}")
            elif path.is_dir():
                commands.append(f"mkdir -p {shlex.quote(there)}")
            else:
                content = await asyncio.to_thread(path.read_bytes)
                await self.write(there, content)
                size_bytes += len(content)
                commands.append(f"chmod {path.stat().st_mode & 0o777:o} {shlex.quote(there)}")
        await self._must(" && ".join(commands), "write", target)
        return TreeReport(files, size_bytes)

    def note(self, step: Step) -> None:
        """Told with the next request."""
        if isinstance(step.message, str) and step.message:
            self._thought = f"{self._thought}\n{step.message}".strip()

    def message(self, direction: Literal["sent", "received"], content: object) -> None:
        """The referee keeps the record: nothing is kept here."""

    async def _must(self, command: str, operation: str, path: str) -> None:
        told = await self.run(command)
        if told.get("exit_code") != 0:
            raise SandboxFileError(operation, path, problem=str(told.get("stdout"))[-300:])

    def _require(self, operation: str, path: str, told: Mapping[str, Json]) -> None:
        if told.get("kind") == "error":
            raise SandboxFileError(operation, path, problem=str(told.get("message")))


def _executed(told: Mapping[str, Json], duration_s: float) -> ExecResult:
    stdout = str(told.get("stdout", "")).encode("utf-8", "replace")
    stderr = str(told.get("stderr", "")).encode("utf-8", "replace")
    status = told.get("exit_code")
    if not isinstance(status, int):
        raise AgentError(f"the referee told no exit status: {str(told)[:300]}")
    total = told.get("total_bytes")
    return ExecResult(
        exit_status=status,
        stdout=stdout,
        stderr=stderr,
        stdout_bytes=max(total, len(stdout)) if isinstance(total, int) else len(stdout),
        stderr_bytes=len(stderr),
        duration_s=duration_s,
        timed_out=told.get("timed_out") is True,
    )


def _decoded(path: str, text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise SandboxFileError("read", path, problem=f"it did not arrive whole: {error}") from error
