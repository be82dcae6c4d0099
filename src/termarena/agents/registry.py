"""The words of `--agent`, and what makes an agent of each; nothing is imported before its word is used."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from termarena.core.errors import MissingExtra, NotFound, UsageError
from termarena.core.given_files import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType

    from termarena.agents.contract import Agent
    from termarena.agents.human import Seat
    from termarena.agents.installed.sharing import InstalledRun
    from termarena.agents.mind import LoopOptions
    from termarena.models import RunModels
    from termarena.tasks.model import Task

__all__ = [
    "AgentFactory",
    "AgentKind",
    "AgentOptions",
    "AgentRequest",
    "is_installed",
    "kind_of",
    "known_agents",
    "probe_agent",
    "resolve_agent",
    "takes_models",
]

AgentFactory: TypeAlias = "Callable[[], Agent]"
"""Makes the agent of one attempt."""
_MODULE_CLASS: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What a run gives to its agents beyond their word."""

    model: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Fill in `${NAME}` where a solution's environment asks for it."""
    seat: Seat | None = None
    """Where a person sits, for `human`."""
    models: RunModels | None = None
    """What the run's models share; None: an agent with a model has its own."""
    loop: LoopOptions | None = None
    """How an agent with a model works; None is the usual way."""
    installed: InstalledRun | None = None
    """What the run's installed agents share; only a run has it."""
    places: Mapping[str, Path] = field(default_factory=dict)
    """Where files that the word names lie here, where they came from another machine."""


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """What an agent's module makes its factory of."""

    word: str
    argument: str
    """What stands behind the colon."""
    task: Task
    options: AgentOptions

    @property
    def file(self) -> Path:
        """The argument, where it is the path of a file."""
        return place_of(self.argument, self.options.places)


class AgentKind(NamedTuple):
    """An entry of the list of agents."""

    word: str
    """As it is given; capitals stand for something to fill in."""
    kind: Literal["reference", "model", "installed", "baseline", "recorded", "remote", "person", "own"]
    needs: str
    """What must be there, in a few words; empty: nothing."""
    summary: str
    maker: str
    """`module:function` that takes an `AgentRequest`; empty for what the harness answers itself."""
    prober: str = ""
    """`module:function` that takes the argument and looks whether somebody is there; empty where nothing can be."""


_AGENTS: Final = (
    AgentKind(
        "oracle",
        "reference",
        "a reference solution",
        "the task's own solution: a task that it does not pass is broken",
        "termarena.agents.oracle:make",
    ),
    AgentKind("nop", "reference", "", "does nothing: what passes then is no task", "termarena.agents.nop:make"),
    AgentKind(
        "tools",
        "model",
        "--model",
        "a model with a shell and files, by native tool calls",
        "termarena.agents.tool_loop:make",
    ),
    AgentKind(
        "tools-text",
        "model",
        "--model",
        "the same for models without tool calls: actions are written out",
        "termarena.agents.tool_loop:make",
    ),
    AgentKind(
        "terminus",
        "model",
        "--model",
        "a model in front of a terminal: it reads screens and types keys",
        "termarena.agents.terminus:make",
    ),
    AgentKind(
        "cli:NAME",
        "installed",
        "--model",
        "a program of others that lives in the sandbox: claude-code, codex …, or cli:custom:FILE",
        "termarena.agents.installed.agent:make",
    ),
    AgentKind(
        "script:PATH",
        "recorded",
        "a script of this machine",
        "runs a script of yours as one command",
        "termarena.agents.scripts:make",
    ),
    AgentKind(
        "replay:FILE",
        "recorded",
        "a recording with input, or a trajectory",
        "does again what a terminal.cast or a trajectory.json says",
        "termarena.agents.replay:make",
    ),
    AgentKind(
        "a2a:URL",
        "remote",
        "an A2A agent, its extra battles",
        "an agent behind a network address, by terminal-bench-shell-v1",
        "termarena.battles.white_agent:make",
        "termarena.battles.white_agent:probe",
    ),
    AgentKind("human", "person", "termarena play", "you, in your own terminal", "termarena.agents.human:make"),
    AgentKind("always-right", "baseline", "", "every task counts as solved; nothing is run", ""),
    AgentKind("always-wrong", "baseline", "", "no task counts as solved; nothing is run", ""),
    AgentKind("random:SEED", "baseline", "", "a coin for every attempt; nothing is run", ""),
    AgentKind(
        "module:Class",
        "own",
        "your class, importable from here",
        "an agent of your own",
        "termarena.agents.foreign:make",
    ),
)

_OWN: Final = _AGENTS[-1]


def known_agents() -> tuple[AgentKind, ...]:
    """Every word, in the order of the documentation."""
    return _AGENTS


def takes_models(word: str) -> bool:
    """Whether this word's agent has a model that we ask: a loop of ours, or an installed agent behind the broker."""
    if is_installed(word):
        return True
    return any(known.kind == "model" and known.word == word for known in _AGENTS)


def is_installed(word: str) -> bool:
    """Whether this word's agent lives in the sandbox."""
    return word.startswith("cli:")


def resolve_agent(word: str, *, task: Task, options: AgentOptions | None = None) -> AgentFactory:
    """What makes the agents of this word for this task; everything that can be known before a start is checked.

    Raises `NotFound` for an unknown word, `UsageError` for one without what it needs, `NoSolution` for the oracle on a
    task that has none.
    """
    kind = kind_of(word)
    if not kind.maker:
        raise UsageError(f"{word!r} is a baseline: the harness answers it, it makes no agent")
    request = AgentRequest(word, word.partition(":")[2], task, options or AgentOptions())
    module, _, function = kind.maker.partition(":")
    made: AgentFactory = getattr(_loaded(module, word), function)(request)
    return made


async def probe_agent(word: str) -> None:
    """Look whether an agent that lives elsewhere is there, before the first trial; of others nothing is asked.

    Raises `AgentUnreachable`, and what `resolve_agent` raises for its word.
    """
    kind = kind_of(word)
    if kind.prober:
        module, _, function = kind.prober.partition(":")
        await getattr(_loaded(module, word), function)(word.partition(":")[2])


def _loaded(module: str, word: str) -> ModuleType:
    """Raises `MissingExtra` for an agent whose packages are not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.startswith("termarena"):
            raise
        raise MissingExtra(missing, extra=module.split(".")[1], purpose=f"the agent {word}") from error


def kind_of(word: str) -> AgentKind:
    """The entry that a word of `--agent` belongs to; raises `NotFound` for none, `UsageError` for one misspelt."""
    name, _, argument = word.partition(":")
    for known in _AGENTS:
        known_name, takes, _ = known.word.partition(":")
        if known_name == name and known is not _OWN:
            if bool(takes) != bool(argument) or (argument == "" and word.endswith(":")):
                raise UsageError(f"{word!r} is not how this agent is named", hint=f"write --agent {known.word}")
            return known
    if _MODULE_CLASS.fullmatch(word):
        return _OWN
    raise NotFound(f"no agent is called {word!r}", known=tuple(known.word for known in _AGENTS))
