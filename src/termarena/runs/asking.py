"""What a run gives to agents that ask a model: the models, their limits, and how their loops work.

Apart from the other trials' matters because most words of `--agent` ask none, and need not wait for any of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from termarena.agents.custom_tools import read_tools
from termarena.agents.mind import LoopOptions
from termarena.core.given_files import place_of
from termarena.models import ModelLimits, Sampling
from termarena.models.embeddings import Embeddings
from termarena.runs.solved import SolvedExamples

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from termarena.models import RunModels
    from termarena.runs.plan import RunOptions

__all__ = ["limits_of", "loop_of"]


def limits_of(options: RunOptions) -> ModelLimits:
    """What a run allows its models."""
    return ModelLimits(
        trial_usd=options.trial_budget_usd,
        run_usd=options.run_budget_usd,
        trial_tokens=options.trial_budget_tokens,
        run_tokens=options.run_budget_tokens,
        requests_at_once=options.model_requests,
        tokens_per_minute=options.model_tokens_per_minute,
    )


def loop_of(options: RunOptions, models: RunModels, places: Mapping[str, Path]) -> LoopOptions:
    """How a run's agents with a model work; `places` as `AgentOptions` has them.

    Raises `NotFound` for examples of a run or a file of tools that is not there.
    """
    usual = LoopOptions()
    examples = [str(place_of(word, places)) for word in options.examples]
    return LoopOptions(
        max_steps=options.max_steps or usual.max_steps,
        sampling=Sampling(temperature=options.temperature, max_tokens=options.max_reply_tokens),
        examples=SolvedExamples(examples) if examples else None,
        example_count=options.example_count,
        embeddings=Embeddings(models, options.example_embeddings) if options.example_embeddings else None,
        tools=read_tools(place_of(options.tools, places)) if options.tools else (),
    )
