"""Agents of other people: `module:Class`, loaded when asked for, checked, and run where they stop nobody."""

from __future__ import annotations

import inspect
import math
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from termarena.agents.contract import AgentReport, Usage
from termarena.agents.threads import AgentThread
from termarena.core.errors import AgentError, NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from termarena.agents.contract import Brief, Workspace
    from termarena.agents.registry import AgentFactory, AgentRequest

__all__ = ["ForeignAgent", "load_class", "make"]

PAGE = "docs/agents.md has an agent to start from"


def make(request: AgentRequest) -> AgentFactory:
    """Raises `NotFound` for a module or a class that is not there, `UsageError` for a class that is no agent."""
    loaded = load_class(request.word)
    given = {"model": request.options.model} if request.options.model is not None else {}
    _check(request.word, loaded, given)
    return lambda: ForeignAgent(
        request.word, lambda: loaded(**given), version=str(getattr(loaded, "version", "unknown"))
    )


def load_class(word: str) -> Any:  # noqa: ANN401 - whether it is an agent's is checked when one is made
    """What `module:Class` names. Raises `NotFound` for what is not there, `UsageError` for a syntax error."""
    module_name, _, path = word.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module_name)
    except SyntaxError as error:
        raise UsageError(f"{word}: {error.filename}, line {error.lineno}: {error.msg}") from error
    except ImportError as error:
        hint = f"it is looked for in {here} and among the installed packages"
        raise NotFound(f"{word}: cannot import {module_name}: {error}", hint=hint) from error
    for name in path.split("."):
        if not hasattr(found, name):
            classes = tuple(key for key, value in vars(found).items() if hasattr(value, "solve"))
            raise NotFound(f"{word}: {getattr(found, '__name__', module_name)} has no {name}", known=classes)
        found = getattr(found, name)
    return found


def _check(word: str, maker: Any, given: dict[str, str]) -> None:  # noqa: ANN401 - as above
    """Hold a class to the contract as far as that can be done without making one."""
    if not callable(maker):
        raise UsageError(f"{word} is {type(maker).__name__}, not a class", hint=PAGE)
    try:
        inspect.signature(maker).bind(**given)
    except TypeError as error:
        shown = "model=…" if given else ""
        raise UsageError(f"{word}({shown}) cannot be made: {error}", hint=PAGE) from error
    except ValueError:
        return  # written in C: it has no signature to look at
    solve = getattr(maker, "solve", None)
    if not isinstance(maker, type):
        return  # a function that makes agents: what it gives is seen when it is called
    if not callable(solve):
        raise UsageError(f"{word} has no method solve(brief, workspace)", hint=PAGE)
    try:
        inspect.signature(solve).bind(None, None, None)
    except TypeError as error:
        raise UsageError(f"{word}.solve does not take (brief, workspace): {error}", hint=PAGE) from error


class ForeignAgent:
    """See `Agent`. Whatever blocks, blocks its own thread."""

    def __init__(self, word: str, maker: Callable[[], Any], *, version: str) -> None:
        """`maker` is called in the agent's own thread, at the first `solve`."""
        self.name = word
        self.version = version
        self._maker = maker
        self._made: Any = None

    async def solve(self, brief: Brief, workspace: Workspace) -> AgentReport:
        """Raises what the agent raises; `AgentError` when it returns something else than a report.

        Cancelled, it returns at once: the thread is told, and no longer waited for.
        """
        report = await AgentThread(self.name).run(self._agent_solve, brief, workspace)
        if report is None:
            return AgentReport()
        if not isinstance(report, AgentReport):
            found = f"{type(report).__module__}.{type(report).__qualname__}"
            raise AgentError(f"{self.name}.solve returned {found}, not an AgentReport", hint=PAGE)
        for problem in _problems(report):
            raise AgentError(f"{self.name}.solve returned a report that is none: {problem}", hint=PAGE)
        return report

    def _agent_solve(self) -> Callable[..., Any]:
        """In the agent's own thread: one object serves all steps of one attempt."""
        if self._made is None:
            self._made = self._maker()
        solve: Any = getattr(self._made, "solve", None)
        if not callable(solve):
            raise AgentError(f"{self.name} made an object without solve(brief, workspace)", hint=PAGE)
        return solve  # type: ignore[no-any-return]  # callable says so


def _problems(report: AgentReport) -> Iterator[str]:
    """What a record could not hold: a dataclass takes anything, and its maker may not check types."""
    ends = get_args(get_type_hints(AgentReport)["end"])
    if report.end not in ends:
        yield f"end is {report.end!r}, not one of {', '.join(ends)}"
    if not isinstance(report.message, str):
        yield f"message is {type(report.message).__name__}, not text"
    if not isinstance(report.model, str | None):
        yield f"model is {type(report.model).__name__}, not text"
    if not isinstance(report.usage, Usage):
        yield f"usage is {type(report.usage).__name__}, not a Usage"
        return
    usage = report.usage
    for name in ("input_tokens", "output_tokens", "cached_tokens"):
        count = getattr(usage, name)
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
            yield f"{name} is {count!r}, not a number of tokens"
    cost = usage.cost_usd
    if cost is not None and not (math.isfinite(cost) and cost >= 0):
        yield f"cost_usd is {cost!r}, not an amount"
