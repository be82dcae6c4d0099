"""The model of an ElizaOS runtime, asked by our own loop: its actions and its message service take no part."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from termarena.models import Completion, Message, MeteredModel, RunModels
from termarena.models.budget import Budget
from termarena.models.errors import ModelUnavailable
from termarena.models.names import ModelName, Provider

if TYPE_CHECKING:
    from collections.abc import Callable

    from termarena.models import Exchange, Request

__all__ = ["RUNTIME_WORD", "GeneratedText", "Runtime", "RuntimeModel", "RuntimeModels"]

RUNTIME_WORD: Final = "elizaos:runtime"
"""What stands for the model in the records of a run."""
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


class RuntimeModel:
    """See `Model`. How many tokens it used is unknown: the runtime does not tell."""

    name = RUNTIME_WORD
    context_tokens: int | None = None

    def __init__(self, runtime: Runtime) -> None:
        """It is asked in the event loop of the run."""
        self._runtime = runtime

    async def complete(
        self,
        request: Request,
        *,
        timeout_s: float,
        observe: Callable[[Exchange], None] | None = None,  # noqa: ARG002 - nothing goes over a wire of ours
    ) -> Completion:
        """The conversation as one text, since a runtime takes no other. Raises `ModelUnavailable` after `timeout_s`."""
        turns = [f"{_ROLES[message.role]}:\n{message.content}" for message in request.messages]
        options = GenerateOptions(request.sampling.temperature, request.sampling.max_tokens)
        asked = self._runtime.generate_text("\n\n".join([*turns, "You:\n"]), options)
        try:
            answer = await asyncio.wait_for(asked, timeout_s)
        except TimeoutError as error:
            raise ModelUnavailable(RUNTIME_WORD, f"no answer within {timeout_s:.0f} s") from error
        return Completion(Message("assistant", answer.text), "stop")


class RuntimeModels(RunModels):
    """The models of a run that has one: a runtime's."""

    def __init__(self, runtime: Runtime) -> None:
        """Whatever word is asked for, this runtime answers."""
        super().__init__()
        self._runtime = runtime

    def check(self, word: str) -> ModelName:
        """Nothing can be known before it is asked."""
        return ModelName(word, Provider("elizaos", ""), word, "", has_own_url=False)

    def open(self, word: str) -> MeteredModel:
        """The runtime's model, for one attempt."""
        del word
        return MeteredModel(RuntimeModel(self._runtime), None, Budget("trial", parent=self.budget))
