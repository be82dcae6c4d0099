"""`termarena shell`: a person in a sandbox."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from termarena.cli.help import command_app
from termarena.cli.output import say

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from termarena.sandbox import Driver, Root, Sandbox, SandboxSpec
    from termarena.sandbox.terminal import CastWriter
    from termarena.tasks import Task

__all__ = ["app"]

app = command_app()

# The best interactive shell that is there, without knowing what is.
ANY_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec /bin/sh")


class Plan(NamedTuple):
    """What to start, and with which driver."""

    driver: str
    what: SandboxSpec | Task


@app.command()
def shell(  # noqa: PLR0913 - one parameter per option
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="A task's folder, or its id in the dataset.")
    ] = None,
    *,
    root: Annotated[
        str | None, typer.Option(metavar="ROOT", help="host, a folder with a root file system, or an archive of one.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An image: of an engine, or with --driver namespace of the store."),
    ] = None,
    driver: Annotated[
        str,
        typer.Option(metavar="DRIVER", help="What makes the sandbox: namespace, docker; auto is the first that can."),
    ] = "auto",
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", metavar="NAME", help="Where a task's id is looked up.")
    ] = "samples",
    program: Annotated[
        str | None, typer.Option("--shell", metavar="PATH", help="The shell to start; else bash, else sh.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="FILE.cast", help="Record the session as an asciicast; the file must be new.")
    ] = None,
    record_input: Annotated[
        bool, typer.Option("--record-input", help="Record what is typed too, passwords included.")
    ] = False,
) -> None:
    """Open a shell in a sandbox, with the start state of a task or on a plain root file system.

    \b
    termarena shell fibonacci-server
    termarena shell my-tasks/fix-the-build --record session.cast
    termarena shell --image debian:bookworm --driver namespace

    Everything in it is gone when the shell ends. Nothing of your files, keys or variables is visible inside.
    """
    import asyncio

    from termarena.cli.attaching import require_terminal
    from termarena.core.errors import UsageError

    if sum(given is not None for given in (task, root, image)) > 1:
        raise UsageError("one root file system is enough", hint="give a task, --root or --image")
    require_terminal()
    if task is not None:
        plan = _plan_of_task(task, driver, dataset=dataset)
    else:
        plan = _plan_of_root(root or "host", driver) if image is None else _plan_of_image(image, driver)
    words = (program,) if program else ANY_SHELL
    recorder = _Recorder(record, records_input=record_input)
    try:
        status = asyncio.run(_run(plan, words=words, recorder=recorder))
    except asyncio.CancelledError:
        raise typer.Exit(130) from None
    say(f"the shell ended with status {status}; the sandbox is gone")
    if recorder.problem is not None:
        say(f"warning: the recording is not complete: {recorder.problem}")


def _plan_of_root(root: str, driver: str) -> Plan:
    from termarena.sandbox import SandboxSpec

    return Plan("namespace" if driver == "auto" else driver, SandboxSpec(root=_root(root)))


def _plan_of_image(image: str, driver: str) -> Plan:
    from termarena.sandbox import Root, SandboxSpec

    return Plan("docker" if driver == "auto" else driver, SandboxSpec(root=Root(kind="image", image=image)))


def _plan_of_task(name: str, driver: str, *, dataset: str) -> Plan:
    from termarena.cli.choosing import open_task
    from termarena.sandbox.drivers import choose_driver

    task = open_task(name, dataset=dataset)
    choice = choose_driver(driver, task.environment, home=_home())
    if driver == "auto" and choice.name != "namespace":
        say(f"driver {choice.name}: {choice.why}")
    return Plan(choice.name, task)


def _root(name: str) -> Root:
    from termarena.core.errors import NotFound
    from termarena.sandbox import Root

    if name == "host":
        return Root()
    path = Path(name)
    if not path.exists():
        raise NotFound(f"no folder and no archive is at {name}", hint="give host, a folder or an archive")
    return Root(kind="folder" if path.is_dir() else "archive", path=path.absolute())


class _Recorder:
    """Makes the recording when the shell starts, so that nothing is left of a sandbox that did not."""

    def __init__(self, path: Path | None, *, records_input: bool) -> None:
        self.path = path
        self.records_input = records_input
        self.problem: str | None = None

    def _writer(self) -> CastWriter | None:
        from termarena.core.errors import UsageError
        from termarena.sandbox.terminal import CastWriter

        if self.path is None:
            return None
        try:
            return CastWriter(self.path, env={"TERM": "xterm-256color"})
        except OSError as error:
            raise UsageError(f"cannot record to {self.path}: {error.strerror}", hint="name a new file") from error

    async def attach(self, box: Sandbox, words: tuple[str, ...]) -> int:
        from termarena.cli.attaching import attach, size_here

        cols, rows = size_here()
        cast = self._writer()
        pty = await box.open_pty(words, cols=cols, rows=rows)
        status = None
        try:
            if cast is not None:
                cast.begin(cols, rows)
            status = await attach(pty, cast, records_input=self.records_input)
        finally:
            pty.close()
            if cast is not None:
                cast.close(status)
                self.problem = cast.problem
        return status


async def _run(plan: Plan, *, words: tuple[str, ...], recorder: _Recorder) -> int:
    from termarena.sandbox.drivers import open_driver

    driver = open_driver(plan.driver, home=_home(), on_log=say)
    try:
        async with _started(driver, plan) as box:
            say(f"sandbox {box.id} ({driver.name}); leave it with exit or Ctrl-D")
            return await recorder.attach(box, words)
    finally:
        await driver.aclose()


@asynccontextmanager
async def _started(driver: Driver, plan: Plan) -> AsyncIterator[Sandbox]:
    """The sandbox, with the task's instruction said before the person comes in."""
    from termarena.sandbox import SandboxSpec
    from termarena.sandbox.staging import Stage

    if isinstance(plan.what, SandboxSpec):
        async with driver.start(plan.what) as box:
            yield box
        return
    task = plan.what
    stage = Stage(driver)
    try:
        state = await stage.prepare(task.environment, folder=Path(task.provenance.path), task=task.id)
        async with state.start() as box:
            for line in (task.id, "", *task.instruction.strip().splitlines(), ""):
                say(line)
            yield box
    finally:
        await stage.aclose()


def _home() -> Path:
    from termarena.core.settings import resolve_settings

    return resolve_settings().settings.paths.home
