"""The drivers there are, by name; and which one is right for a task on this machine."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from termarena.core.errors import CapabilityMissing, EngineError, ImageError, NotFound, TaskFormatError, UsageError
from termarena.sandbox.staged import stage_below

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.sandbox.contract import Driver
    from termarena.tasks.model import Environment

__all__ = ["AUTO", "DRIVERS", "Choice", "check_driver", "choose_driver", "open_driver"]

DRIVERS: Final = ("namespace", "docker")
AUTO: Final = "auto"
"""The word for: whichever can."""
LONGEST_COMPOSITION: Final = 1 << 20


class Choice(NamedTuple):
    """A driver for a task."""

    name: str
    why: str
    """One clause for people: why this one."""


def open_driver(
    name: str, *, home: Path | None = None, run_id: str = "", on_log: Callable[[str], None] | None = None
) -> Driver:
    """The driver of this name, which starts nothing yet; whoever opens it closes it.

    `home` holds traces, root file systems and, from now on, whatever this process stages; `run_id` labels containers,
    `on_log` gets the lines of pulls and builds. Raises `NotFound` with the names there are.
    """
    if home is not None:
        stage_below(home)
    # Each is imported when it is used: a machine without an engine never loads the client for one.
    if name == "namespace":
        made: Driver = import_module("termarena.sandbox.namespace").NamespaceDriver(home=home, on_log=on_log)
    elif name == "docker":
        made = import_module("termarena.sandbox.docker").DockerDriver(home=home, run_id=run_id, on_log=on_log)
    else:
        raise NotFound(f"no driver is called {name}", known=DRIVERS)
    return made


def choose_driver(name: str, environment: Environment, *, home: Path) -> Choice:
    """The driver of this name; for `auto` the first that can make the environment here, found by trying.

    A task with a bare recipe runs on the embedded sandbox if that works here and the tools are installed; everything
    else takes a container engine that answers, and without one an image, or a compose file that asks for nothing else
    than embedded services, runs embedded too. Raises `NotFound` for a name that is none, `CapabilityMissing`, with what
    to do, when no driver can.
    """
    if name != AUTO:
        if name not in DRIVERS:
            raise NotFound(f"no driver is called {name}", known=(*DRIVERS, AUTO))
        return Choice(name, "it was asked for")
    problem = _namespace_problem(environment, home)
    if problem is None:
        return Choice("namespace", "the task has a recipe for a plain root file system")
    if not has_image(environment):
        hint = "see what the embedded sandbox needs: termarena doctor"
        raise CapabilityMissing("a plain root file system", driver="namespace", why=problem, hint=hint)
    silence = _engine_problem()
    if silence is not None and environment.bare is None:
        problem = _kernel_problem(home) or _services_problem(environment)
        if problem is None:
            return Choice("namespace", "no container engine answers, and the embedded sandbox gets images by itself")
    if silence is not None:
        hint = f"start a Docker or Podman engine (termarena doctor --docker); without one: {problem}"
        raise CapabilityMissing("an image", driver="docker", why=silence, hint=hint)
    return Choice("docker", problem)


def check_driver(name: str) -> None:
    """Look whether the engine of a driver that was asked for by name answers; the others have none.

    Raises `EngineError`, and `UsageError` for an address of an engine that is none.
    """
    if name == "docker":
        _ask_engine()


def has_image(environment: Environment) -> bool:
    """Whether the environment says how to get an image: by name, a Dockerfile or a compose file."""
    return bool(environment.image or environment.compose or environment.context.get("Dockerfile"))


def _namespace_problem(environment: Environment, home: Path) -> str | None:
    """Why the embedded sandbox cannot make this environment here; None when it can."""
    from termarena.tasks.needs import tools_missing_for  # noqa: PLC0415 - only where it is asked

    if environment.bare is None:
        return "the task needs an image: it has no recipe for a plain root file system"
    if missing := tools_missing_for(environment):
        return f"this machine lacks {', '.join(missing)}, which the task requires"
    return _kernel_problem(home)


def _services_problem(environment: Environment) -> str | None:
    """What of its compose file the embedded sandbox does not follow; None when it has none, or all is followed."""
    if environment.compose is None:
        return None
    from termarena.sandbox.compositions import parse_composition  # noqa: PLC0415 - only where it is asked
    from termarena.sandbox.namespace.services import read_services  # noqa: PLC0415 - only where it is asked
    from termarena.sandbox.spec import Root  # noqa: PLC0415 - only where it is asked

    name = environment.compose
    file = environment.context.get(name)
    if file is None:
        return f"{name} is not there"
    root = Root(kind="compose", path=Path(name), image=environment.image)
    try:
        document = parse_composition(file.read(LONGEST_COMPOSITION).decode("utf-8", "replace"), source=name)
        read_services(document, root, values=environment.env, folder=None, source=name)
    except (CapabilityMissing, ImageError, TaskFormatError) as error:
        return str(error)
    return None


@cache
def _kernel_problem(home: Path) -> str | None:
    """What the kernel refuses to the embedded sandbox; a tenth of a second, once per process."""
    if sys.platform != "linux":
        return "the embedded sandbox needs Linux"
    from termarena.sandbox.namespace.probe import probe  # noqa: PLC0415 - only where it is asked

    refused = [fact for fact in probe(home, only_needed=True).facts if not fact.is_there]
    return f"the embedded sandbox does not work here: {refused[0].name}: {refused[0].detail}" if refused else None


def _ask_engine() -> None:
    from termarena.sandbox.docker.address import find_address  # noqa: PLC0415 - only where it is asked
    from termarena.sandbox.docker.sweeping import ask  # noqa: PLC0415 - only where it is asked

    ask(find_address(), "GET", "/version")


def _engine_problem() -> str | None:
    """Why no container engine can be used; None when one answers."""
    try:
        _ask_engine()
    except (EngineError, UsageError) as error:
        return str(error)
    return None
