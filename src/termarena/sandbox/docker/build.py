"""Images from Dockerfiles, by the engine's own builder, kept under the digest of their context and their bases."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import deque
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from termarena.core.errors import BuildError, EngineError, ImageError
from termarena.sandbox.docker.archives import Packing, from_thread, pack
from termarena.sandbox.docker.blame import Failure, blame_for_build
from termarena.sandbox.docker.client import LONG_S, Request
from termarena.sandbox.docker.ignore import Ignored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from termarena.core.errors import Cause
    from termarena.sandbox.docker.client import Engine

__all__ = ["Built", "Recipe", "bases_of", "build_image", "context_digest"]

REPOSITORY: Final = "termarena/build"
CONTEXT_LABEL: Final = "termarena.context"
TAIL_LINES: Final = 40
STEP: Final = re.compile(r"Step \d+/\d+ : .*")
NOT_FOUND: Final = 404
ARGUMENT: Final = re.compile(r"\s*ARG\s+([A-Za-z_]\w*)=(\S*)", re.IGNORECASE)
BASE: Final = re.compile(r"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
COPIED: Final = re.compile(r"\s*COPY\s+(?:--\S+\s+)*?--from=(\S+)", re.IGNORECASE)
VARIABLE: Final = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is built from a context."""

    dockerfile: str = "Dockerfile"
    arguments: Mapping[str, str] = field(default_factory=dict)
    """`ARG`s of the Dockerfile."""
    target: str = ""
    """The stage to stop at; empty for the last."""

    @property
    def words(self) -> bytes:
        """What changes the outcome beside the context."""
        extra = [sorted(self.arguments.items()), self.target] if self.arguments or self.target else []
        return self.dockerfile.encode() + (json.dumps(extra).encode() if extra else b"") + b"\0"


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built, now or earlier."""

    name: str
    was_there: bool


class _Hash:
    """A file that is only a digest."""

    def __init__(self) -> None:
        self.state = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.state.update(content)
        return len(content)

    def flush(self) -> None:
        """Nothing waits."""


def context_digest(context: Path, recipe: Recipe) -> str:
    """Names, modes, links and contents of what would be sent, and the recipe; times do not count."""
    digest = _Hash()
    digest.write(recipe.words)
    pack(context, digest, _packing(context, recipe.dockerfile))  # type: ignore[arg-type]  # only written to
    return digest.state.hexdigest()


def _packing(context: Path, dockerfile: str) -> Packing:
    ignored = Ignored.of(context, dockerfile)

    def excludes(path: str, is_folder: bool) -> bool:  # noqa: FBT001 - called by position
        return path not in (dockerfile, ".dockerignore") and ignored.excludes(path, is_folder=is_folder)

    return Packing(owner=(0, 0), excludes=excludes, is_dated=False)


async def build_image(
    engine: Engine, context: Path, *, recipe: Recipe | None = None, on_log: Callable[[str], None] | None = None
) -> Built:
    """Build an image; an unchanged context on unchanged bases is built once per engine.

    `on_log` gets the builder's words as they come. Raises `ImageError` for a folder without the Dockerfile,
    `BuildError` with the failing step, the end of the log and, where there is evidence, the cause.
    """
    recipe = recipe or Recipe()
    if not (context / recipe.dockerfile).is_file():
        hint = "give the folder that holds the Dockerfile"
        raise ImageError(str(context), f"has no {recipe.dockerfile}", hint=hint, cause="task")
    digest = await asyncio.to_thread(context_digest, context, recipe)
    bases = await asyncio.to_thread(bases_of, context / recipe.dockerfile, recipe.arguments)
    name = await _name(engine, digest, bases)
    if await _id_of(engine, name) is not None:
        return Built(name, was_there=True)
    query = {
        "t": name,
        "dockerfile": recipe.dockerfile,
        "rm": True,
        "forcerm": True,
        "labels": {CONTEXT_LABEL: digest},
        "buildargs": dict(recipe.arguments),
        "target": recipe.target or None,
    }
    packing = _packing(context, recipe.dockerfile)

    def produce(out: IO[bytes]) -> None:
        pack(context, out, packing)

    log = _Log(str(context / recipe.dockerfile), on_log)
    await log.follow(engine, Request("POST", "/build", query, body=from_thread(produce), patience_s=LONG_S))
    # A base that had to be pulled is known only now.
    found = await _name(engine, digest, bases)
    if found != name:
        await engine.call("POST", f"/images/{name}/tag", query={"repo": REPOSITORY, "tag": found.rpartition(":")[2]})
        await engine.call("DELETE", f"/images/{name}")
    return Built(found, was_there=False)


def bases_of(dockerfile: Path, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """The images that a Dockerfile begins from or copies from, as far as they are named plainly or by an `ARG` before
    the first `FROM`; stages of its own are not among them."""
    found: dict[str, None] = {}
    stages: list[str] = []
    values: dict[str, str] = {}
    for line in dockerfile.read_text(errors="replace").splitlines():
        if (given := ARGUMENT.match(line)) and not stages:
            values[given[1]] = arguments.get(given[1], given[2].strip("\"'"))
        elif began := BASE.match(line):
            found[VARIABLE.sub(lambda name: values.get(name[1], name[0]), began[1])] = None
            stages.append((began[2] or "").lower())
        elif copied := COPIED.match(line):
            found[copied[1]] = None
    own = {*stages, *map(str, range(len(stages))), "scratch"}
    return tuple(name for name in found if name.lower() not in own and "$" not in name)


async def _name(engine: Engine, digest: str, bases: tuple[str, ...]) -> str:
    """What a build is kept under: another base gives another image."""
    ids = [(name, await _id_of(engine, name)) for name in bases]
    return f"{REPOSITORY}:{hashlib.sha256(json.dumps([digest, ids]).encode()).hexdigest()[:40]}"


async def _id_of(engine: Engine, name: str) -> str | None:
    """Of an image that the engine has."""
    try:
        return str((await engine.call("GET", f"/images/{name}/json")).json()["Id"])
    except EngineError as error:
        if error.status != NOT_FOUND:
            raise
        return None


class _Log:
    """What the builder says: passed on, its last lines kept, its failure understood."""

    def __init__(self, source: str, on_log: Callable[[str], None] | None) -> None:
        self._source = source
        self._on_log = on_log
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._step = ""
        self._problem: str | None = None
        self._exit_code: int | None = None

    async def follow(self, engine: Engine, request: Request) -> None:
        """Build, and raise `BuildError` if it fails."""
        failed: EngineError | None = None
        try:
            async with engine.open(request) as body:
                async for message in body.lines():
                    self._take(message)
        except EngineError as error:
            failed, self._problem = error, error.problem
        except (OSError, ValueError) as error:
            failed, self._problem = EngineError(str(engine.address), str(error)), str(error)
        if self._problem is not None:
            cause = await blame_for_build(engine, Failure(self._step, self._exit_code, failed))
            raise self._failure(self._problem, cause) from failed

    def _take(self, message: dict[str, Any]) -> None:
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
            code = (message.get("errorDetail") or {}).get("code")
            self._exit_code = code if isinstance(code, int) and code else None

    def _failure(self, problem: str, cause: Cause | None) -> BuildError:
        hint = "correct this step; the log's last lines are in log_tail"
        if "--mount" in self._step or "unknown flag" in problem or "heredoc" in problem.lower():
            hint = "this Dockerfile needs BuildKit: build it with `docker build` and give the image's name instead"
        elif cause == "infra":
            hint = "the engine, its disk or a registry failed, not this step: try again; termarena doctor --docker"
        elif "pull access denied" in problem or "manifest unknown" in problem or "not found" in problem:
            hint = "check the name after FROM, or log in to its registry with `docker login`"
        tail = "\n".join(self._tail)
        words = " ".join(problem.split())
        return BuildError(self._source, words, step=self._step, log_tail=tail, hint=hint, cause=cause)
