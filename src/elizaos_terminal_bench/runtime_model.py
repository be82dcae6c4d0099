"""The models of a run that was given a runtime of ElizaOS: asked by our own loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from termarena.models import MeteredModel, RunModels
from termarena.models.budget import Budget
from termarena.models.elizaos import RuntimeModel, RuntimeSource
from termarena.models.names import PROVIDERS, ModelName

if TYPE_CHECKING:
    from termarena.models.elizaos import Runtime

__all__ = ["RUNTIME_WORD", "RuntimeModels"]

RUNTIME_WORD: Final = "elizaos:runtime"
"""What stands for the model in the records of a run."""


class RuntimeModels(RunModels):
    """The models of a run that has one: a runtime's."""

    def __init__(self, runtime: Runtime) -> None:
        """Whatever word is asked for, this runtime answers."""
        super().__init__()
        self._runtime = RuntimeSource(RUNTIME_WORD, runtime)

    def check(self, word: str) -> ModelName:
        """Nothing can be known before it is asked."""
        return ModelName(word, PROVIDERS["elizaos"], word, "", has_own_url=False)

    def open(self, word: str) -> MeteredModel:
        """The runtime's model, for one attempt."""
        del word
        return MeteredModel(RuntimeModel(RUNTIME_WORD, self._runtime), None, Budget("trial", parent=self.budget))
