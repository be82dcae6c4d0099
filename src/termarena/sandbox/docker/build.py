"""Images from Dockerfiles, by the engine's own builder, kept under the digest of their context."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import deque
from typing import IO, TYPE_CHECKING, Any, Final

from termarena.core.errors import BuildError, EngineError, ImageError
from termarena.sandbox.docker.archives import Packing, from_thread, pack
from termarena.sandbox.docker.client import LONG_S, Request
from termarena.sandbox.docker.ignore import Ignored

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from termarena.sandbox.docker.client import Engine

__all__ = ["build_image", "context_digest"]

REPOSITORY: Final = "termarena/build"
CONTEXT_LABEL: Final = "termarena.context"
TAIL_LINES: Final = 40
STEP: Final = re.compile(r"Step \d+/\d+ : .*")
NOT_FOUND: Final = 404


class _Hash:
    """A file that is only a digest."""

    def __init__(self) -> None:
        self.state = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.state.update(content)
        return len(content)

    def flush(self) -> None:
        """Nothing waits."""


def context_digest(context: Path, dockerfile: str) -> str:
    """Names, modes, links and contents of what would be sent, and the Dockerfile's name; times do not count."""
    digest = _Hash()
    digest.write(dockerfile.encode() + b"\0")
    pack(context, digest, _packing(context, dockerfile))  # type: ignore[arg-type]  # only written to
    return digest.state.hexdigest()


def _packing(context: Path, dockerfile: str) -> Packing:
    ignored = Ignored.of(context, dockerfile)

    def excludes(path: str, is_folder: bool) -> bool:  # noqa: FBT001 - called by position
        return path not in (dockerfile, ".dockerignore") and ignored.excludes(path, is_folder=is_folder)

    return Packing(owner=(0, 0), excludes=excludes, is_dated=False)


async def build_image(
    engine: Engine, context: Path, *, dockerfile: str = "Dockerfile", on_log: Callable[[str], None] | None = None
) -> str:
    """The name of the built image; an unchanged context is built once per engine.

    `on_log` gets the builder's words as they come. Raises `ImageError` for a folder without the Dockerfile,
    `BuildError` with the failing step and the end of the log.
    """
    if not (context / dockerfile).is_file():
        raise ImageError(str(context), f"has no {dockerfile}", hint="give the folder that holds the Dockerfile")
    digest = await asyncio.to_thread(context_digest, context, dockerfile)
    name = f"{REPOSITORY}:{digest[:40]}"
    try:
        await engine.call("GET", f"/images/{name}/json")
    except EngineError as error:
        if error.status != NOT_FOUND:
            raise
    else:
        return name
    packing = _packing(context, dockerfile)
    query = {"t": name, "dockerfile": dockerfile, "rm": True, "forcerm": True, "labels": {CONTEXT_LABEL: digest}}

    def produce(out: IO[bytes]) -> None:
        pack(context, out, packing)

    log = _Log(str(context / dockerfile), on_log)
    try:
        async with engine.open(Request("POST", "/build", query, body=from_thread(produce), patience_s=LONG_S)) as body:
            async for message in body.lines():
                log.take(message)
    except EngineError as error:
        raise log.failure(error.problem) from error
    log.check()
    return name


class _Log:
    """What the builder says: passed on, its last lines kept, its failure understood."""

    def __init__(self, source: str, on_log: Callable[[str], None] | None) -> None:
        self._source = source
        self._on_log = on_log
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._step = ""
        self._problem: str | None = None

    def take(self, message: dict[str, Any]) -> None:
        text = str(message.get("stream") or message.get("status") or "")
        for line in text.splitlines():
            if not line.strip():
                continue
            if STEP.match(line):
                self._step = line.strip()
            self._tail.append(line)
            if self._on_log is not None:
                self._on_log(line)
        if "error" in message:
            self._problem = str(message["error"])

    def check(self) -> None:
        """Raise `BuildError` if the builder reported one."""
        if self._problem is not None:
            raise self.failure(self._problem)

    def failure(self, problem: str) -> BuildError:
        hint = "correct this step; the log's last lines are in log_tail"
        if "--mount" in self._step or "unknown flag" in problem or "heredoc" in problem.lower():
            hint = "this Dockerfile needs BuildKit: build it with `docker build` and give the image's name instead"
        elif "pull access denied" in problem or "manifest unknown" in problem or "not found" in problem:
            hint = "check the name after FROM, or log in to its registry with `docker login`"
        tail = "\n".join(self._tail)
        return BuildError(self._source, " ".join(problem.split()), step=self._step, log_tail=tail, hint=hint)
