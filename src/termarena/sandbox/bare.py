"""The start state of a task on a plain root file system: its bare recipe, carried out."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from termarena.core.errors import CapabilityMissing, TaskError, UsageError
from termarena.sandbox.spec import Limits, Network, SandboxSpec
from termarena.sandbox.staged import staged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from termarena.sandbox.contract import Sandbox
    from termarena.tasks.model import BareRecipe, Environment

__all__ = ["bare_spec", "filled_in", "prepare_bare"]

MIB: Final = 1 << 20
LEAST_MEMORY_BYTES: Final = 1 << 30
SHOWN_CHARACTERS: Final = 2000
DEFAULT_WORKDIR: Final = "/app"
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def bare_spec(environment: Environment, *, variables: Mapping[str, str] | None = None) -> SandboxSpec:
    """A sandbox on the host's root for a task with a bare recipe.

    `variables` fill in `${NAME}`; by default there are none, because a task that could name any variable of the harness
    could read its keys. Raises `CapabilityMissing` for a task without a recipe, `UsageError` for a variable not given.
    """
    _recipe(environment)
    memory_bytes = max((environment.memory_mb or 0) * MIB, LEAST_MEMORY_BYTES)
    # A task that asks for no disk gets what memory has room for, where sandboxes start fastest.
    disk_bytes = min(2048 * MIB, memory_bytes * 3 // 4)
    if environment.storage_mb is not None:
        disk_bytes = environment.storage_mb * MIB
    policy = environment.network
    return SandboxSpec(
        limits=Limits(memory_bytes=memory_bytes, disk_bytes=disk_bytes, cpus=environment.cpus),
        network=Network(mode=policy.mode, allowed_hosts=policy.allowed_hosts),
        env=filled_in(environment.env, variables or {}),
        workdir=environment.workdir or DEFAULT_WORKDIR,
    )


async def prepare_bare(box: Sandbox, environment: Environment) -> None:
    """Lay the context in a temporary folder of the sandbox, run the setup there as root, remove the folder.

    It has no clock of its own. Raises `CapabilityMissing` for required commands that are not there, `TaskError` for a
    setup that fails.
    """
    recipe = _recipe(environment)
    await _check_commands(box, recipe)
    if recipe.setup is None:
        return
    folder = f"/tmp/environment-{box.id}"  # noqa: S108 - inside the sandbox, where nothing runs yet
    with staged("environment") as context:
        await asyncio.to_thread(environment.context.write_to, context)
        await box.put_tree(context, folder, user="root")
    script = f"{folder}/{recipe.setup}"
    done = await box.exec(["sh", script], user="root", cwd=folder)
    await box.exec(["rm", "-rf", folder], user="root", cwd="/")
    if done.exit_status != 0:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()[-SHOWN_CHARACTERS:]
        raise TaskError(f"the setup {recipe.setup} ended with status {done.exit_status}: {said}")


def _recipe(environment: Environment) -> BareRecipe:
    if environment.bare is None:
        raise CapabilityMissing(
            "an image",
            driver="namespace",
            why="the task has no recipe for a plain root file system",
            hint="use a driver that builds images, or declare what the task requires",
        )
    return environment.bare


async def _check_commands(box: Sandbox, recipe: BareRecipe) -> None:
    find = 'for name; do command -v "$name" >/dev/null 2>&1 || echo "$name"; done'
    done = await box.exec(["sh", "-c", find, "sh", *recipe.requires], cwd="/")
    if missing := done.stdout.decode("utf-8", "replace").split():
        raise CapabilityMissing(
            f"the commands {', '.join(missing)}",
            driver="namespace",
            why="this machine's /usr has none of that name",
            hint="install them on this machine, or use another root or driver",
        )


def filled_in(env: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a task, each `${NAME}` in them from `variables`; raises `UsageError` for one not given."""

    def value_of(found: re.Match[str]) -> str:
        value = variables.get(found[1], found[2])
        if value is None:
            raise UsageError(
                f"the task wants the variable {found[1]}, which was not given to it",
                hint="variables of the harness never reach a sandbox by themselves; the task can hold a default: "
                f"${{{found[1]}:-…}}",
            )
        return value

    return {name: _VARIABLE.sub(value_of, text) for name, text in env.items()}
