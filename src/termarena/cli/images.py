"""`termarena images`: the images that embedded sandboxes start from, without a container engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from termarena.cli.fetch_options import FetchCommand, RecordFetchesOption, ReplayFetchesOption, checked_fetches
from termarena.cli.help import command_group
from termarena.cli.output import Column, JsonOption, print_json, print_line, print_table, progress, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from termarena.sandbox.images import BuildPlan, ImageShelf, StoredImage
    from termarena.sandbox.spec import Fetches

__all__ = ["app"]

app = command_group("Get, build, list and remove images for embedded sandboxes; no container engine is needed.")

Result = TypeVar("Result")
SHOWN = 20
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="[registry/]repository[:tag][@digest].")]


def _with_shelf(work: Callable[[ImageShelf], Awaitable[Result]]) -> Result:
    """Do something with the images of this home, on a driver of its own."""
    import asyncio

    async def run() -> Result:
        from termarena.core.settings import resolve_settings
        from termarena.sandbox.images import ImageShelf
        from termarena.sandbox.namespace import NamespaceDriver

        home = resolve_settings().settings.paths.home
        async with NamespaceDriver(home=home, on_log=say) as driver:
            shelf = ImageShelf(driver, home)
            try:
                return await work(shelf)
            finally:
                shelf.close()

    return asyncio.run(run())


def _check_names(*names: str | None) -> None:
    """Raise `UsageError` for what cannot be the name of an image: nothing was looked for yet."""
    from termarena.core.errors import ImageError, UsageError
    from termarena.sandbox.images.names import ImageName

    for name in filter(None, names):
        try:
            ImageName.parse(name)
        except ImageError as error:
            raise UsageError(error.message, hint=error.hint) from error


def _as_json(shelf: ImageShelf, image: StoredImage) -> dict[str, Any]:
    layers = shelf.store.layers_of(image.config)
    return {
        "name": image.name,
        "id": image.id,
        "files_digest": image.config.files_digest,
        "layers": len(layers),
        "size_bytes": sum(layer.size_bytes for layer in layers),
        "source": image.source,
        "stored_at": image.stored_at,
        "manifest_digest": image.manifest_digest,
        "substitutes": list(image.substitutes),
        "mode": image.mode,
        "left_out": [path for layer in layers for path in layer.left_out],
    }


def _tell(image: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json({"schema_version": 1, "kind": "image", **image})
        return
    print_line(f"{image['name']} {image['id']}")
    if image["left_out"]:
        say(f"devices that no sandbox may have were left out: {', '.join(image['left_out'][:SHOWN])}")


@app.command("pull")
def pull(
    name: NameArgument,
    *,
    mirror: Annotated[
        list[str] | None, typer.Option(metavar="HOST=URL", help="Ask this address first for images of HOST.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Get an image from its registry, with the credentials of `docker login`.

    \b
    termarena images pull debian:bookworm-slim
    termarena images pull --mirror docker.io=https://mirror.example ubuntu:24.04
    """
    _check_names(name)
    mirrors = _mirrors(mirror or [])

    async def work(shelf: ImageShelf) -> dict[str, Any]:
        from termarena.sandbox.images import PullOptions

        with progress(f"pulling {name}", unit="bytes") as shown:
            options = PullOptions(mirrors=mirrors, on_log=say, on_progress=shown.move_to)
            return _as_json(shelf, await shelf.pull(name, options))

    _tell(_with_shelf(work), json=json)


def _mirrors(given: list[str]) -> dict[str, str] | None:
    from termarena.core.errors import UsageError

    for entry in given:
        if not entry.partition("=")[2].startswith(("http://", "https://")):
            raise UsageError(f"--mirror {entry} is not HOST=URL", hint="for example docker.io=https://mirror.example")
    return dict(entry.split("=", 1) for entry in given) or None


@app.command("build", cls=FetchCommand)
def build(  # noqa: PLR0913 - one parameter per option
    context: Annotated[
        Path, typer.Argument(metavar="CONTEXT", help="The folder with the Dockerfile and what it copies.")
    ],
    *,
    tag: Annotated[
        str | None, typer.Option("--tag", "-t", metavar="NAME", help="Store the image under this name.")
    ] = None,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="The Dockerfile, within the context.")
    ] = "Dockerfile",
    build_arg: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A value for an ARG.")] = None,
    target: Annotated[str, typer.Option(metavar="STAGE", help="The stage to stop at.")] = "",
    secret: Annotated[
        list[str] | None, typer.Option(metavar="ID=FILE", help="A file for RUN --mount=type=secret; it is not kept.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Carry out every step anew.")] = False,
    network: Annotated[
        Literal["public", "none"], typer.Option(help="What RUN reaches: the world, through a proxy, or nothing.")
    ] = "public",
    record_fetches: RecordFetchesOption = None,
    replay_fetches: ReplayFetchesOption = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check every step and tell what would be done; make nothing."),
    ] = False,
    step_timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long one RUN may take.", min=1)] = 3600,
    step_disk: Annotated[str, typer.Option(metavar="SIZE", help="How much one RUN may write.")] = "32g",
    json: JsonOption = False,
) -> None:
    """Build a Dockerfile; its log goes to stderr.

    What `RUN --mount=type=cache` keeps is kept for later builds of the same folder only.

    \b
    termarena images build tasks/one/environment --tag one:1
    termarena images build tasks/one/environment --tag one:1 --record-fetches   # beside the task
    termarena images build . -t app --replay-fetches=kept                       # without a network
    termarena images build . --dry-run
    termarena images build . -t app --build-arg VERSION=2 --target test --network none
    """
    from termarena.core.errors import UsageError

    _check_names(tag)
    if not (context / file).is_file():
        raise UsageError(
            f"no {file} is in {context}", hint="name the folder that holds it, or another file with --file"
        )
    if tag is None and not dry_run:
        raise UsageError("the image needs a name", hint="give one with --tag NAME, or only look with --dry-run")

    fetches = _fetches(context, record_fetches, replay_fetches)

    async def work(shelf: ImageShelf) -> dict[str, Any] | BuildPlan:
        from termarena.sandbox.images import BuildOptions, build_image, plan_build
        from termarena.sandbox.spec import Network

        options = BuildOptions(
            dockerfile=file,
            arguments=_assignments(build_arg or []),
            target=target,
            network=Network(mode=network),
            fetches=fetches,
            use_cache=not no_cache,
            secrets=_secrets(secret or []),
            cache_scope=str(context.resolve()),
            step_timeout_s=step_timeout,
            step_disk_bytes=_size(step_disk),
            on_log=say,
        )
        if dry_run:
            return await plan_build(shelf, context, options)
        built = await build_image(shelf, context, tag, options)
        return {**_as_json(shelf, built.image), "was_cached": built.was_cached}

    done = _with_shelf(work)
    if isinstance(done, dict):
        _tell(done, json=json)
    else:
        _tell_plan(done, json=json)


def _tell_plan(plan: BuildPlan, *, json: bool) -> None:
    if json:
        facts = {"steps": list(plan.steps), "bases": list(plan.bases), "missing": list(plan.missing)}
        print_json({"schema_version": 1, "kind": "build-plan", **facts})
        return
    for step in plan.steps:
        print_line(step)
    if plan.missing:
        say(f"not here, and would be pulled: {', '.join(plan.missing)}")
    say("nothing was made and nothing was fetched")


def _fetches(context: Path, record: str | None, replay: str | None) -> Fetches | None:
    """A folder that is named, or that of the task that the context belongs to."""
    from termarena.core.errors import UsageError
    from termarena.sandbox.fetches.plan import FetchPlan
    from termarena.sandbox.spec import Fetches
    from termarena.tasks import is_task

    plan = FetchPlan.wished(**dict(zip(("record", "replay"), checked_fetches(record, replay), strict=True)))
    if plan is None or plan.folder is not None:
        return None if plan is None else Fetches(mode=plan.mode, folder=Path(str(plan.folder)))
    task = next((place for place in (context, context.resolve().parent) if is_task(str(place))), None)
    if task is None:
        word = "--record-fetches" if plan.mode == "record" else "--replay-fetches"
        raise UsageError(f"{context} is not part of a task", hint=f"name a folder: {word}=FOLDER")
    return plan.of(task, task.name)


def _size(text: str) -> int:
    from termarena.core.errors import UsageError
    from termarena.sandbox.units import bytes_of

    try:
        return bytes_of(text)
    except ValueError as error:
        raise UsageError(f"--step-disk: {error}", hint="for example 32g, or 500m") from error


def _secrets(given: list[str]) -> dict[str, Path]:
    from termarena.core.errors import UsageError

    files = {name: Path(file) for name, _, file in (entry.partition("=") for entry in given)}
    for name, file in files.items():
        if not name or not file.is_file():
            raise UsageError(f"--secret {name}: no file is at {file}", hint="write --secret ID=FILE")
    return files


def _assignments(given: list[str]) -> dict[str, str]:
    """As with Docker, a name without a value takes that of the environment."""
    import os

    pairs = [entry.partition("=") for entry in given]
    return {name: value if equals else os.environ.get(name, "") for name, equals, value in pairs}


@app.command("import")
def import_archive(
    archive: Annotated[
        Path, typer.Argument(metavar="ARCHIVE", help="What `docker save` or an OCI tool wrote, or a tar of a root.")
    ],
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Store it under this name.")] = None,
    json: JsonOption = False,
) -> None:
    """Store an image from an archive.

    \b
    docker save ubuntu:24.04 | gzip > u.tgz; termarena images import u.tgz
    termarena images import rootfs.tar --name debian:bookworm
    """
    from termarena.core.errors import UsageError

    _check_names(name)
    if not archive.is_file():
        raise UsageError(f"no file is at {archive}", hint="name a tar archive, packed or not")

    async def work(shelf: ImageShelf) -> dict[str, Any]:
        return _as_json(shelf, await shelf.import_archive(archive, name=name))

    _tell(_with_shelf(work), json=json)


@app.command("export")
def export(
    name: NameArgument,
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write.")],
    *,
    json: JsonOption = False,
) -> None:
    """Write an image as an archive that `docker load` and OCI tools read.

    \b
    termarena images export mytask:1 mytask.tar
    docker load -i mytask.tar
    """

    from termarena.core.errors import UsageError

    _check_names(name.removeprefix("sha256:"))
    if not target.parent.is_dir():
        raise UsageError(f"no folder is at {target.parent}", hint="make it, or name another file")

    async def work(shelf: ImageShelf) -> str:
        return await shelf.export(name, target)

    exported = _with_shelf(work)
    if json:
        print_json({"schema_version": 1, "kind": "exported-image", "path": str(target), "id": exported})
        return
    print_line(f"{target} {exported}")


@app.command("list")
def list_images(*, json: JsonOption = False) -> None:
    """List the images that are stored here.

    \b
    termarena images list
    termarena images list --json
    """

    async def work(shelf: ImageShelf) -> list[dict[str, Any]]:
        return [_as_json(shelf, image) for image in shelf.store.images()]

    found = _with_shelf(work)
    if json:
        print_json({"schema_version": 1, "kind": "images", "images": found})
        return
    if not found:
        say("there is no image; get one: termarena images pull NAME")
        return
    print_table(
        ["image", "id", Column("layers", align="right"), Column("MB", align="right"), "from", "stored"],
        [
            (
                one["name"],
                one["id"][7:19],
                one["layers"],
                f"{one['size_bytes'] / 1e6:.1f}",
                one["source"],
                one["stored_at"],
            )
            for one in found
        ],
    )


@app.command("prune")
def prune(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Images to forget first.")] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Forget every image but those of the map, and every cached step.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Remove layers that no image and no cached step needs, and downloads that never ended.

    \b
    termarena images prune
    termarena images prune ubuntu:24.04
    termarena images prune --all
    """

    _check_names(*(names or ()))

    async def work(shelf: ImageShelf) -> dict[str, Any]:
        pruned = await shelf.prune(tuple(names or ()), everything=everything)
        return {"images": list(pruned.images), "layers": pruned.layers, "size_bytes": pruned.size_bytes}

    removed = _with_shelf(work)
    if json:
        print_json({"schema_version": 1, "kind": "pruned-images", **removed})
        return
    freed = f"{removed['size_bytes'] / 1e6:.1f} MB"
    print_line(f"{len(removed['images'])} images forgotten, {removed['layers']} layers removed ({freed})")


@app.command("map")
def map_image(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The name that tasks use.")] = None,
    source: Annotated[str | None, typer.Argument(metavar="SOURCE", help="An archive, or a stored image.")] = None,
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Let NAME mean itself again.")] = False,
    json: JsonOption = False,
) -> None:
    """Let an archive or another image stand in for a name, for sites without a network; without a name, list these.

    Results on a substitute say so: they are not comparable with those on the original.

    \b
    termarena images map ubuntu:24.04 ./rootfs.tar
    termarena images map
    termarena images map --remove ubuntu:24.04
    """
    from termarena.core.errors import UsageError

    _check_names(name)
    if name is not None and (source is None) != remove:
        raise UsageError("give NAME and SOURCE, or --remove and NAME", hint="see: termarena images map --help")

    async def work(shelf: ImageShelf) -> list[dict[str, str]]:
        if name is not None and source is not None:
            await shelf.substitute(name, source)
        elif name is not None and not shelf.unsubstitute(name):
            say(f"{name} had no substitute")
        return [{"name": one.name, "image": one.image, "source": one.source} for one in shelf.substitutes()]

    entries = _with_shelf(work)
    if json:
        print_json({"schema_version": 1, "kind": "image-map", "entries": entries})
        return
    if not entries:
        say("no name has a substitute")
        return
    print_table(["name", "stands for it", "from"], [tuple(entry.values()) for entry in entries])
