"""`terminal_bench_plugin`: the actions and providers through which an ElizaOS runtime works in a sandbox.

The plugin is made of plain objects with the names that ElizaOS expects; `elizaos` itself is not needed to make it, and
`as_elizaos` turns it into that package's own classes where it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from termarena.core.errors import MissingExtra, TermArenaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from elizaos_terminal_bench.environment import TerminalEnvironment

__all__ = [
    "ENVIRONMENT_SETTING",
    "TERMINAL_ACTIONS",
    "TERMINAL_PROVIDERS",
    "ActionOutcome",
    "TerminalAction",
    "TerminalBenchPlugin",
    "TerminalProvider",
    "create_terminal_bench_plugin",
    "terminal_bench_plugin",
]

ENVIRONMENT_SETTING: Final = "TERMINAL_BENCH_ENVIRONMENT"
"""The runtime's setting that holds the `TerminalEnvironment`, where the plugin was not made for one."""
LONGEST_OUTPUT_CHARS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """What an action came to, with the fields of ElizaOS's `ActionResult`."""

    success: bool
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TerminalAction:
    """Something that a runtime can do; `parameters` are the names of its texts."""

    name: str
    description: str
    parameters: tuple[str, ...]
    similes: tuple[str, ...]
    act: Callable[[TerminalEnvironment, Mapping[str, str]], Awaitable[ActionOutcome]]
    environment: TerminalEnvironment | None = None

    async def validate(self, runtime: object = None, *_: object) -> bool:
        """Whether there is an environment to act in."""
        return _environment(self.environment, runtime) is not None

    async def handler(
        self, runtime: object, message: object = None, state: object = None, options: object = None, *_: object
    ) -> ActionOutcome:
        """Act; what goes wrong is told in the outcome. Parameters come in the options, or in the message's content."""
        del state
        environment = _environment(self.environment, runtime)
        if environment is None:
            return ActionOutcome(success=False, text="", error=f"{ENVIRONMENT_SETTING} is not set")
        given = _parameters(options) or _parameters(getattr(message, "content", None))
        missing = [name for name in self.parameters if name not in given]
        if missing:
            return ActionOutcome(success=False, text="", error=f"{self.name} needs {', '.join(missing)}")
        try:
            return await self.act(environment, given)
        except TermArenaError as error:
            return ActionOutcome(success=False, text="", error=str(error))


@dataclass(frozen=True, slots=True)
class TerminalProvider:
    """Something that a runtime can look at."""

    name: str
    description: str
    look: Callable[[TerminalEnvironment], Awaitable[str]]
    environment: TerminalEnvironment | None = None

    async def get(self, runtime: object = None, *_: object) -> dict[str, str]:
        """The text of it; empty where there is no environment."""
        environment = _environment(self.environment, runtime)
        return {"text": "" if environment is None else await self.look(environment)}


@dataclass(frozen=True, slots=True)
class TerminalBenchPlugin:
    """The plugin."""

    name: str = "terminal-bench"
    description: str = "Works in the sandbox of a terminal task"
    actions: tuple[TerminalAction, ...] = ()
    providers: tuple[TerminalProvider, ...] = ()

    def as_elizaos(self) -> object:
        """The same as ElizaOS's own `Plugin`. Raises MissingExtra where `elizaos` is not installed."""
        try:
            types: Any = import_module("elizaos.types")
        except ImportError as error:
            raise MissingExtra("elizaos", extra="elizaos", purpose="a plugin of ElizaOS's own classes") from error
        actions = [_as_elizaos_action(each, types) for each in self.actions]
        providers = [_as_elizaos_provider(each, types) for each in self.providers]
        made: object = types.Plugin(name=self.name, description=self.description, actions=actions, providers=providers)
        return made


def create_terminal_bench_plugin(environment: TerminalEnvironment | None = None) -> TerminalBenchPlugin:
    """The plugin for one environment, or for the one that the runtime's settings name when it acts."""
    actions = tuple(replace(action, environment=environment) for action in _ACTIONS)
    providers = tuple(replace(provider, environment=environment) for provider in _PROVIDERS)
    return TerminalBenchPlugin(actions=actions, providers=providers)


def _as_elizaos_action(action: TerminalAction, types: Any) -> object:  # noqa: ANN401 - a package that may not be there
    async def handler(*given: object) -> object:
        outcome = await action.handler(*given)
        return types.ActionResult(**{name: value for name, value in asdict(outcome).items() if value is not None})

    parameters = [types.ActionParameter(name=name, description=name, required=True) for name in action.parameters]
    made: object = types.Action(
        name=action.name,
        description=action.description,
        similes=list(action.similes),
        parameters=parameters,
        validate=action.validate,
        handler=handler,
    )
    return made


def _as_elizaos_provider(provider: TerminalProvider, types: Any) -> object:  # noqa: ANN401 - as above
    async def get(*given: object) -> object:
        return types.ProviderResult(**await provider.get(*given))

    made: object = types.Provider(name=provider.name, description=provider.description, get=get)
    return made


async def _execute(environment: TerminalEnvironment, given: Mapping[str, str]) -> ActionOutcome:
    done = await environment.execute(given["command"])
    text = f"Exit code: {done.exit_code}\nstdout:\n{done.stdout[:LONGEST_OUTPUT_CHARS]}"
    return ActionOutcome(success=done.exit_code == 0, text=text)


async def _write(environment: TerminalEnvironment, given: Mapping[str, str]) -> ActionOutcome:
    await environment.write_file(given["path"], given["content"])
    return ActionOutcome(success=True, text=f"wrote {given['path']}")


async def _touch(environment: TerminalEnvironment, given: Mapping[str, str]) -> ActionOutcome:
    if not await environment.file_exists(given["path"]):
        await environment.write_file(given["path"], "")
    return ActionOutcome(success=True, text=f"{given['path']} is there")


async def _read(environment: TerminalEnvironment, given: Mapping[str, str]) -> ActionOutcome:
    content = await environment.get_file_content(given["path"])
    return ActionOutcome(success=True, text=content[:LONGEST_OUTPUT_CHARS])


async def _list(environment: TerminalEnvironment, given: Mapping[str, str]) -> ActionOutcome:
    return ActionOutcome(success=True, text="\n".join(await environment.list_directory(given["path"])))


async def _state(environment: TerminalEnvironment) -> str:
    names = await environment.list_directory()
    return f"Working directory: {await environment.get_working_directory()}\n" + "\n".join(names)


_ACTIONS: Final = (
    TerminalAction("EXECUTE", "Run a command in the shell", ("command",), ("RUN", "SHELL", "COMMAND"), _execute),
    TerminalAction("WRITE_FILE", "Replace a file's content", ("path", "content"), ("CREATE_FILE",), _write),
    TerminalAction("TOUCH", "Make an empty file where there is none", ("path",), ("CREATE_EMPTY_FILE",), _touch),
    TerminalAction("READ_FILE", "Read a file", ("path",), ("CAT", "SHOW_FILE"), _read),
    TerminalAction("LIST_DIR", "List a folder", ("path",), ("LS", "LIST_FILES"), _list),
)
_PROVIDERS: Final = (TerminalProvider("TERMINAL_STATE", "Where the shell is, and what lies there", _state),)
terminal_bench_plugin: Final = create_terminal_bench_plugin()
TERMINAL_ACTIONS: Final = terminal_bench_plugin.actions
TERMINAL_PROVIDERS: Final = terminal_bench_plugin.providers


def _environment(own: TerminalEnvironment | None, runtime: object) -> TerminalEnvironment | None:
    if own is not None:
        return own
    setting = getattr(runtime, "get_setting", None)
    found: TerminalEnvironment | None = setting(ENVIRONMENT_SETTING) if callable(setting) else None
    return found


def _parameters(holder: object) -> dict[str, str]:
    """The texts under `parameters` or `params`, of a mapping or of an object; else none."""
    for name in ("parameters", "params"):
        found = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
        # ElizaOS 2.0.0a5 hands them over as the protobuf message ActionParameters, whose `values` are a Struct.
        texts = found if isinstance(found, Mapping) else getattr(found, "values", None)
        if isinstance(texts, Mapping) and texts:
            return {str(key): str(value) for key, value in texts.items()}
    return {}
