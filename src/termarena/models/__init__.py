"""Models: language models behind one contract, with prices, limits, budgets and their exchanges kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from termarena.models.contract import (
        Completion,
        Exchange,
        Message,
        Model,
        Request,
        Sampling,
        TokenUsage,
        ToolCall,
        ToolSpec,
    )
    from termarena.models.run_models import Brought, MeteredModel, ModelLimits, RunModels
else:
    from termarena.core.doors import door

    __getattr__ = door(
        __name__,
        contract="Completion Exchange Message Model Request Sampling TokenUsage ToolCall ToolSpec",
        run_models="Brought MeteredModel ModelLimits RunModels",
    )

__all__ = [
    "Brought",
    "Completion",
    "Exchange",
    "Message",
    "MeteredModel",
    "Model",
    "ModelLimits",
    "Request",
    "RunModels",
    "Sampling",
    "TokenUsage",
    "ToolCall",
    "ToolSpec",
]
