"""The options of `termarena run`, but for those that choose tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = [
    "AddressOption",
    "AgentsOption",
    "ArenaOption",
    "AttemptsOption",
    "ConcurrencyOption",
    "DatasetOption",
    "DriverOption",
    "DryRunOption",
    "EngineOption",
    "ExampleCountOption",
    "ExampleEmbeddingsOption",
    "ExamplesOption",
    "FirstOption",
    "GradingOption",
    "IntegrityOption",
    "MaxReplyTokensOption",
    "MaxStepsOption",
    "ModelOption",
    "ModelRequestsOption",
    "ModelTokensPerMinuteOption",
    "OutOption",
    "PathOption",
    "RetryOption",
    "RunBudgetTokensOption",
    "RunBudgetUsdOption",
    "SampleOption",
    "TemperatureOption",
    "TimeoutMultiplierOption",
    "ToolsOption",
    "TrialBudgetTokensOption",
    "TrialBudgetUsdOption",
]

ArenaOption = Annotated[
    str | None,
    typer.Option("--arena", metavar="URL", help="Send it to this arena as it goes; the key is TERMARENA_ARENA_KEY."),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", "-d", metavar="NAME", help="A pulled dataset, or samples.")
]
PathOption = Annotated[
    Path | None, typer.Option("--path", "-p", metavar="FOLDER", help="A folder of tasks, one task, a tasks.json.")
]

# Who works on the tasks.

AgentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        "-a",
        metavar="AGENT",
        help="oracle (the default), nop, tools, cli:claude-code, script:FILE, module:Class …; repeat for a run each.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODEL", help="openai:gpt-5-mini, ollama:qwen3 …, for agents that take one."),
]
MaxStepsOption = Annotated[
    int | None, typer.Option("--max-steps", metavar="N", min=1, help="How often a trial's model is asked at most.")
]
TemperatureOption = Annotated[
    float | None, typer.Option("--temperature", metavar="NUMBER", min=0, help="Of the model; else the provider's own.")
]
MaxReplyTokensOption = Annotated[
    int | None, typer.Option("--max-reply-tokens", min=1, metavar="N", help="How long one of its replies may be.")
]
ExamplesOption = Annotated[
    list[str] | None,
    typer.Option("--examples", metavar="RUN", help="Show the model similar solved trials of this run, or builtin."),
]
ExampleCountOption = Annotated[int, typer.Option("--example-count", min=1, metavar="N", help="So many of them.")]
ExampleEmbeddingsOption = Annotated[
    str | None,
    typer.Option("--example-embeddings", metavar="MODEL", help="Whose embeddings say what is similar; else BM25."),
]
ToolsOption = Annotated[
    str | None, typer.Option("--tools", metavar="FILE", help="Further tools for the model: see docs/agents.md.")
]

# What that may cost.

TrialBudgetUsdOption = Annotated[
    float | None, typer.Option("--trial-budget-usd", metavar="USD", help="What one trial's model may cost.")
]
RunBudgetUsdOption = Annotated[
    float | None, typer.Option("--run-budget-usd", metavar="USD", help="What all trials together may cost.")
]
TrialBudgetTokensOption = Annotated[
    int | None, typer.Option("--trial-budget-tokens", min=1, metavar="N", help="Tokens of one trial.")
]
RunBudgetTokensOption = Annotated[
    int | None, typer.Option("--run-budget-tokens", min=1, metavar="N", help="Tokens of all trials together.")
]
ModelRequestsOption = Annotated[
    int | None, typer.Option("--model-requests", min=1, metavar="N", help="Requests to the model at once.")
]
ModelTokensPerMinuteOption = Annotated[
    int | None, typer.Option("--model-tokens-per-minute", min=1, metavar="N", help="What the provider allows.")
]

# Where, how often and by which rules.

DriverOption = Annotated[
    str, typer.Option("--driver", metavar="DRIVER", help="namespace, docker, or auto: per task, the first that can.")
]
EngineOption = Annotated[
    Literal["local", "ray"], typer.Option("--engine", help="On this machine, or on the nodes of a Ray cluster.")
]
AddressOption = Annotated[
    str, typer.Option("--address", metavar="HOST:PORT", help="Of the cluster; auto: the one that this machine is in.")
]
AttemptsOption = Annotated[int, typer.Option("--attempts", "-k", metavar="K", min=1, help="Trials per task.")]
ConcurrencyOption = Annotated[
    int | None,
    typer.Option("--concurrency", "-n", metavar="N", min=1, help="Trials at once, at most; else as many as fit here."),
]
RetryOption = Annotated[int, typer.Option("--retry", metavar="N", min=0, help="Try an unscored trial again, so often.")]
TimeoutMultiplierOption = Annotated[
    float,
    typer.Option("--timeout-multiplier", metavar="FACTOR", help="Of every time limit; other than 1 is not ranked."),
]
GradingOption = Annotated[
    Literal["auto", "sealed", "live", "both"],
    typer.Option("--grading", help="Where the tests run: see docs/grading.md."),
]
IntegrityOption = Annotated[
    Literal["enforce", "report"],
    typer.Option("--integrity", help="Whether tampering takes a pass away, or is only told."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="The run's own folder; else runs/TIME-AGENT.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would run; start and write nothing.")]
# `-n` is how many at once here, as in other harnesses; elsewhere it is `--first`.
FirstOption = Annotated[
    int | None, typer.Option("--first", min=1, metavar="N", help="The first N by id, after all else.")
]
SampleOption = Annotated[
    int | None,
    typer.Option(
        "--sample",
        min=1,
        metavar="[N]",
        help="N at random, the same for the same --seed; without N: --dataset samples.",
    ),
]
