"""Builds of Dockerfiles, without an engine: stages in order, each step told with its number, layers cached."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from termarena.core.errors import BuildError, ImageError
from termarena.sandbox.images.config import ImageConfig, digest_of, this_architecture
from termarena.sandbox.images.context import Context
from termarena.sandbox.images.expansion import BadSubstitution, expand
from termarena.sandbox.images.getting import PullOptions, drop_scratch
from termarena.sandbox.images.making import LayerMaker
from termarena.sandbox.images.mounting import OWN_CACHES, source_of
from termarena.sandbox.images.names import ImageName
from termarena.sandbox.images.recipe import parse_recipe, parse_trigger, refuse
from termarena.sandbox.images.recorded import image_for
from termarena.sandbox.images.stagework import StageWork, Surroundings
from termarena.sandbox.images.store import StoredImage, hex_of
from termarena.sandbox.spec import Network

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from termarena.sandbox.images.recipe import Instruction, Recipe, Stage
    from termarena.sandbox.images.shelf import ImageShelf
    from termarena.sandbox.spec import Fetches

__all__ = ["BuildOptions", "BuildPlan", "Built", "build_image", "plan_build"]

SCRATCH: Final = "scratch"
UNNAMED: Final = "localhost/termarena/build"
RECIPE_LIMIT_BYTES: Final = 1 << 20
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to build."""

    dockerfile: str = "Dockerfile"
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    """The stage to stop at; empty for the last."""
    network: Network = field(default_factory=lambda: Network(mode="public"))
    fetches: Fetches | None = None
    """A recording of what RUN and ADD fetch: made, or in the network's place."""
    use_cache: bool = True
    secrets: Mapping[str, Path] = field(default_factory=dict)
    """Files for `RUN --mount=type=secret`, by their id; they land in no layer and in no key."""
    makes_nothing: bool = False
    """Whether every step is only checked, as far as that goes without its files: see `plan_build`."""
    cache_scope: str = ""
    """Whose folders `RUN --mount=type=cache` sees: those of earlier builds with the same word. Empty: this build's own,
    which go with it; whoever writes one context must not reach what the build of another will read."""
    step_timeout_s: float | None = 3600.0
    """How long one RUN may take."""
    step_disk_bytes: int = 32 << 30
    """How much one RUN may write, to its layer and to cache mounts; looked at every second or less often."""
    on_log: Callable[[str], None] | None = None

    def say(self, line: str) -> None:
        """A line for whoever listens."""
        if self.on_log is not None:
            self.on_log(line)


@dataclass(frozen=True, slots=True)
class Built:
    """A built image."""

    image: StoredImage
    was_cached: bool
    """Whether every step was known from earlier builds."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What a build would do."""

    steps: tuple[str, ...]
    """As its log would tell them."""
    bases: tuple[str, ...]
    """The images that it stands on or copies from."""
    missing: tuple[str, ...]
    """Those of them that would be pulled."""
    config: ImageConfig
    """What the image would say, as far as its bases are known."""


async def build_image(shelf: ImageShelf, context: Path, name: str | None, options: BuildOptions | None = None) -> Built:
    """Build the Dockerfile of a context and store the image under `name`, or under one made of its id.

    Raises `BuildError`, which has the step and the end of its output, `ImageError` for a base that cannot be had, and
    with a recording what `open_fetches` raises.
    """
    options = options or BuildOptions()
    shelf.store.hold()
    source = str(context / options.dockerfile)
    recipe = await asyncio.to_thread(_read, context, options.dockerfile, source)
    partial = shelf.store.folder / "partial"
    partial.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=partial) as scratch:
        build = _Build(shelf, recipe, _context(context, options), options, scratch=Path(scratch))
        try:
            config = await build.run()
        finally:
            await asyncio.shield(drop_scratch(shelf.driver, Path(scratch) / OWN_CACHES))
    image_id = digest_of(config.as_json())
    image = StoredImage(
        name=str(ImageName.parse(name or f"{UNNAMED}:{hex_of(image_id)}")),
        id=image_id,
        config=config,
        source=f"build {context.name}",
        substitutes=tuple(sorted(build.substitutes)),
        mode=shelf.driver.ids.kind,
    )
    return Built(shelf.store.add(image), build.was_cached)


async def plan_build(shelf: ImageShelf, context: Path, options: BuildOptions | None = None) -> BuildPlan:
    """What a build would do: every instruction that the target needs is checked, and what it copies from the context
    found, without making, pulling or fetching anything.

    Raises `BuildError` for what can be known to fail. What lies in a base that is not stored here cannot.
    """
    options = replace(options or BuildOptions(), makes_nothing=True)
    recipe = await asyncio.to_thread(_read, context, options.dockerfile, str(context / options.dockerfile))
    steps: list[str] = []
    with tempfile.TemporaryDirectory(prefix="termarena-") as scratch:
        told = replace(options, on_log=steps.append)
        build = _Build(shelf, recipe, _context(context, options), told, scratch=Path(scratch))
        config = await build.run()
    bases = tuple(sorted(build.bases))
    missing = tuple(name for name in bases if shelf.known(name) is None)
    return BuildPlan(tuple(steps), bases, missing, config)


def _read(context: Path, dockerfile: str, source: str) -> Recipe:
    try:
        with (context / dockerfile).open("rb") as file:
            raw = file.read(RECIPE_LIMIT_BYTES + 1)
    except OSError as error:
        raise BuildError(source, error.strerror or "cannot be read", step="", log_tail="", cause="task") from error
    if len(raw) > RECIPE_LIMIT_BYTES:
        problem = f"is longer than {RECIPE_LIMIT_BYTES} bytes"
        raise BuildError(source, problem, step="", log_tail="", cause="task")
    return parse_recipe(raw.decode("utf-8", "replace"), source)


def _context(folder: Path, options: BuildOptions) -> Context:
    recording = None if options.fetches is None else options.fetches.folder
    return Context(folder, options.dockerfile, recording=recording)


def _caches(shelf: ImageShelf, scope: str) -> Path | None:
    """Where the cache mounts of a scope are kept; None for none."""
    store = shelf.store
    return store.folder / "mounts" / store.ids.kind / hex_of(digest_of(scope.encode())) if scope else None


def sources_of(one: Instruction) -> list[str]:
    """The stages and images that an instruction takes files from."""
    mounts = [source_of(value) for name, value in one.flags if name == "mount"]
    copied = one.flag("from")
    return [*([] if copied is None else [copied]), *(source.image for source in mounts if source is not None)]


class _Build:
    """One build."""

    def __init__(
        self, shelf: ImageShelf, recipe: Recipe, context: Context, options: BuildOptions, *, scratch: Path
    ) -> None:
        self.shelf = shelf
        self.recipe = recipe
        self.options = options
        self.was_cached = True
        self.substitutes: set[str] = set()
        self.bases: set[str] = set()
        """Images that are not built here."""
        self._results: dict[int, ImageConfig] = {}
        self._outer = self._outer_arguments()
        self._around = Surroundings(
            source=recipe.source,
            context=context,
            maker=LayerMaker(
                shelf,
                use_cache=options.use_cache,
                network=options.network,
                fetches=options.fetches,
                makes_nothing=options.makes_nothing,
            ),
            say=options.say,
            given=options.arguments,
            image_named=self._image_named,
            scratch=scratch,
            secrets=options.secrets,
            escape=recipe.escape,
            caches=None if options.makes_nothing else _caches(shelf, options.cache_scope),
            timeout_s=options.step_timeout_s,
            disk_bytes=options.step_disk_bytes,
        )
        self._needed = self._find_needed()
        self._total = sum(1 + len(recipe.stages[at].steps) for at in self._needed)
        self._done = 0

    async def run(self) -> ImageConfig:
        """All stages that the target needs, lowest first."""
        await self._find_recorded()
        try:
            for at in self._needed:
                self._results[at] = await self._stage(self.recipe.stages[at])
        finally:
            await asyncio.shield(self._around.maker.settle())
        return self._results[self._needed[-1]]

    def _outer_arguments(self) -> dict[str, str]:
        values = {"TARGETARCH": this_architecture(), "TARGETOS": "linux", "BUILDARCH": this_architecture()}
        values |= {"TARGETPLATFORM": f"linux/{this_architecture()}", "BUILDPLATFORM": f"linux/{this_architecture()}"}
        for one in self.recipe.arguments:
            for word in one.words:
                name, equals, default = word.partition("=")
                if name in self.options.arguments:
                    values[name] = self.options.arguments[name]
                elif equals:
                    values[name] = self._expanded(default, values, one)
        return values

    def _expanded(self, text: str, values: Mapping[str, str], one: Instruction) -> str:
        try:
            return expand(text, values, escape=self.recipe.escape)
        except BadSubstitution as error:
            raise refuse(self.recipe.source, one.line, str(error), text=one.shown) from error

    # Which stages.

    def _find_needed(self) -> list[int]:
        last = len(self.recipe.stages) - 1
        if self.options.target:
            last = self._index(self.options.target, before=len(self.recipe.stages))
            if last < 0:
                raise BuildError(
                    self.recipe.source, f"has no stage {self.options.target}", step="", log_tail="", cause="task"
                )
        needed, pending = set(), [last]
        while pending:
            at = pending.pop()
            if at in needed:
                continue
            needed.add(at)
            stage = self.recipe.stages[at]
            names = [self._base_name(stage), *(name for one in stage.steps for name in sources_of(one))]
            pending += [found for name in names if (found := self._index(name, before=at)) >= 0]
        return sorted(needed)

    def _index(self, name: str, *, before: int) -> int:
        """The stage of this name or number above a line; -1 for none."""
        if name.isdecimal() and int(name) < before:
            return int(name)
        found = [at for at in range(before) if self.recipe.stages[at].name == name.lower()]
        return found[-1] if found else -1

    def _base_name(self, stage: Stage) -> str:
        name = self._expanded(stage.base.words[0], self._outer, stage.base)
        if not name:
            raise refuse(self.recipe.source, stage.base.line, "FROM names no image", text=stage.base.shown)
        return name

    async def _find_recorded(self) -> None:
        """In a replay, every image that is named plainly, before anything begins."""
        if self.options.fetches is None or self.options.fetches.mode != "replay" or self.options.makes_nothing:
            return
        for at in self._needed:
            stage = self.recipe.stages[at]
            names = [self._base_name(stage), *(name for one in stage.steps for name in sources_of(one))]
            for name in names:
                if "$" not in name and name.lower() != SCRATCH and self._index(name, before=at) < 0:
                    await self._image_named(name)

    # One stage.

    async def _stage(self, stage: Stage) -> ImageConfig:
        step = self._tell(stage.base.shown)
        self._check_platform(stage)
        name = self._base_name(stage)
        try:
            config = ImageConfig() if name.lower() == SCRATCH else await self._image_named(name)
        except ImageError as error:
            if isinstance(error, BuildError):
                raise
            raise BuildError(
                self.recipe.source, str(error), step=step, log_tail="", hint=error.hint, cause=error.cause
            ) from error
        triggers = [parse_trigger(text, self.recipe.source) for text in config.onbuild]
        if not any(key == "PATH" for key, _ in config.env):
            config = config.with_variable("PATH", PATH)
        work = StageWork(self._around, replace(config, onbuild=()), self._outer)
        for one in triggers:
            self.options.say(f" ---> ONBUILD {one.shown}")
            self.was_cached &= await work.carry_out(one, step)
        for one in stage.steps:
            is_known = await work.carry_out(one, self._tell(one.shown))
            self.was_cached &= is_known
            if is_known and one.name in ("RUN", "COPY", "ADD", "WORKDIR"):
                self.options.say(" ---> Using cache")
        return work.config

    def _tell(self, text: str) -> str:
        self._done += 1
        step = f"Step {self._done}/{self._total} : {text}"
        self.options.say(step)
        return step

    def _check_platform(self, stage: Stage) -> None:
        wanted = stage.base.flag("platform")
        if wanted is None:
            return
        platform = self._expanded(wanted, self._outer, stage.base)
        if platform not in (f"linux/{this_architecture()}", this_architecture(), "linux"):
            problem = f"--platform={platform}: this machine is linux/{this_architecture()}"
            raise refuse(self.recipe.source, stage.base.line, problem, text=stage.base.shown)

    async def _image_named(self, name: str) -> ImageConfig:
        """A stage that is built already, or an image."""
        at = self._index(name, before=len(self.recipe.stages))
        if at in self._results:
            return self._results[at]
        self.bases.add(name)
        if self.options.makes_nothing:
            stored = self.shelf.known(name)
            return ImageConfig() if stored is None else stored.config
        found = await image_for(self.shelf, name, self.options.fetches, PullOptions(on_log=self.options.on_log))
        self.substitutes.update(found.image.substitutes)
        return found.image.config
