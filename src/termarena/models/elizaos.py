"""`elizaos:MODULE:NAME`: the model of an ElizaOS runtime. Its actions and its message service take no part."""

from __future__ import annotations

import asyncio
import inspect
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from termarena.core.errors import NotFound, UsageError
from termarena.models.contract import Completion, Message
from termarena.models.errors import ModelUnavailable, UnusableReply

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.models.contract import Exchange, Request

__all__ = ["GenerateOptions", "GeneratedText", "Runtime", "RuntimeModel", "RuntimeSource", "load_runtime"]

HOW: Final = "write --model elizaos:MODULE:NAME, where NAME is a runtime or a function that makes one"
_ROLES: Final = {"system": "Instructions", "user": "User", "assistant": "You", "tool": "User"}


class GeneratedText(Protocol):
    """What a runtime answers."""

    @property
    def text(self) -> str:
        """The words of the model."""


class Runtime(Protocol):
    """What is asked of an ElizaOS runtime."""

    async def generate_text(self, input_text: str, options: GenerateOptions | None = None) -> GeneratedText:
        """The model's answer to a text."""


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """The fields of ElizaOS's `GenerateTextOptions` that its runtime reads."""

    temperature: float | None = None
    max_tokens: int | None = None
    model_type: str | None = None


class _Aside:
    """Has whatever a runtime prints go to stderr: ElizaOS logs to stdout, where our results are.

    Runtimes are asked side by side, so the first that begins turns it aside and the last that ends turns it back.
    """

    def __init__(self) -> None:
        self._asking = 0
        self._stdout = sys.stdout

    def __enter__(self) -> None:
        if self._asking == 0:
            self._stdout, sys.stdout = sys.stdout, sys.stderr
        self._asking += 1

    def __exit__(self, *_: object) -> None:
        self._asking -= 1
        if self._asking == 0:
            sys.stdout = self._stdout


_ASIDE: Final = _Aside()


class RuntimeSource:
    """The runtime that all attempts of a run share; a function that makes it is called once, when it is needed."""

    def __init__(self, word: str, found: Any) -> None:  # noqa: ANN401 - what a user's module holds
        """`found` is a runtime, or makes one, also as a coroutine."""
        self._word = word
        self._found = found
        self._made: Runtime | None = None
        self._making = asyncio.Lock()

    async def get(self) -> Runtime:
        """Raises what making it raises, and UsageError where what is made is no runtime."""
        async with self._making:
            if self._made is None:
                self._made = await self._make()
        return self._made

    async def _make(self) -> Runtime:
        made = self._found
        if not hasattr(made, "generate_text") or isinstance(made, type):
            try:
                made = made()
                made = await made if inspect.isawaitable(made) else made
            except Exception as error:
                raise ModelUnavailable(self._word, f"{type(error).__name__}: {error}") from error
        if not hasattr(made, "generate_text"):
            raise UsageError(f"{self._word} made {type(made).__name__}, which has no generate_text", hint=HOW)
        runtime: Runtime = made
        return runtime


def load_runtime(word: str, path: str) -> RuntimeSource:
    """What `MODULE:NAME` names, importable from the working folder; nothing is made or asked yet.

    Raises NotFound for a module or a name that is not there, UsageError for what can be no runtime.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise UsageError(f"{word!r} names no runtime", hint=HOW)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        with _ASIDE:
            found: Any = import_module(module_name)
    except ImportError as error:
        hint = f"it is looked for in {here} and among the installed packages"
        raise NotFound(f"{word}: cannot import {module_name}: {error}", hint=hint) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise NotFound(f"{word}: {getattr(found, '__name__', module_name)} has no {part}", hint=HOW)
        found = getattr(found, part)
    if not callable(found) and not hasattr(found, "generate_text"):
        raise UsageError(f"{word} is {type(found).__name__}: no runtime, and nothing that makes one", hint=HOW)
    return RuntimeSource(word, found)


class RuntimeModel:
    """See `Model`. How many tokens it used is unknown: the runtime does not tell."""

    context_tokens: int | None = None

    def __init__(self, name: str, source: RuntimeSource) -> None:
        """The runtime is asked in the event loop of the run."""
        self.name = name
        self._source = source

    async def complete(
        self,
        request: Request,
        *,
        timeout_s: float,
        observe: Callable[[Exchange], None] | None = None,  # noqa: ARG002 - nothing goes over a wire of ours
    ) -> Completion:
        """The conversation as one text, since a runtime takes no other.

        Raises `ModelUnavailable` after `timeout_s` and for whatever the runtime raises, `UnusableReply` for an answer
        that holds no text, and UsageError where tools are offered: there is no place for them.
        """
        if request.tools:
            raise UsageError("a runtime of ElizaOS takes no tools", hint="use --agent tools-text")
        turns = [f"{_ROLES[message.role]}:\n{message.content}" for message in request.messages]
        options = GenerateOptions(request.sampling.temperature, request.sampling.max_tokens)
        try:
            with _ASIDE:
                async with asyncio.timeout(timeout_s):
                    runtime = await self._source.get()
                    answer = await runtime.generate_text("\n\n".join([*turns, "You:\n"]), options)
        except UsageError:
            raise
        except TimeoutError as error:
            raise ModelUnavailable(self.name, f"no answer within {timeout_s:.0f} s") from error
        except Exception as error:
            raise ModelUnavailable(self.name, f"{type(error).__name__}: {error}") from error
        if not isinstance(getattr(answer, "text", None), str):
            raise UnusableReply(f"the runtime answered {type(answer).__name__}, which has no text")
        return Completion(Message("assistant", answer.text), "stop")
