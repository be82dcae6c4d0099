"""ElizaOS's Terminal-Bench, by the names its users know, carried out by TermArena.

Importing this package loads nothing of TermArena; a name is loaded when it is first used. docs/elizaos.md says what is
the same as in ElizaOS, what differs, and why.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elizaos_terminal_bench.config import TerminalBenchConfig
    from elizaos_terminal_bench.dataset import TerminalBenchDataset
    from elizaos_terminal_bench.environment import TerminalEnvironment
    from elizaos_terminal_bench.evaluator import TerminalBenchEvaluator, format_report_markdown
    from elizaos_terminal_bench.leaderboard import LEADERBOARD_SCORES
    from elizaos_terminal_bench.plugin import (
        TERMINAL_ACTIONS,
        TERMINAL_PROVIDERS,
        create_terminal_bench_plugin,
        terminal_bench_plugin,
    )
    from elizaos_terminal_bench.runner import TerminalBenchRunner, run_terminal_bench
    from elizaos_terminal_bench.types import (
        CategoryMetrics,
        CommandStatus,
        DifficultyMetrics,
        LeaderboardComparison,
        TaskCategory,
        TaskDifficulty,
        TerminalBenchReport,
        TerminalBenchResult,
        TerminalCommand,
        TerminalSession,
        TerminalTask,
    )

__all__ = [
    "LEADERBOARD_SCORES",
    "TERMINAL_ACTIONS",
    "TERMINAL_PROVIDERS",
    "CategoryMetrics",
    "CommandStatus",
    "DifficultyMetrics",
    "LeaderboardComparison",
    "TaskCategory",
    "TaskDifficulty",
    "TerminalBenchConfig",
    "TerminalBenchDataset",
    "TerminalBenchEvaluator",
    "TerminalBenchReport",
    "TerminalBenchResult",
    "TerminalBenchRunner",
    "TerminalCommand",
    "TerminalEnvironment",
    "TerminalSession",
    "TerminalTask",
    "create_terminal_bench_plugin",
    "format_report_markdown",
    "run_terminal_bench",
    "terminal_bench_plugin",
]

_ELSEWHERE = {
    "LEADERBOARD_SCORES": "leaderboard",
    "TERMINAL_ACTIONS": "plugin",
    "TERMINAL_PROVIDERS": "plugin",
    "create_terminal_bench_plugin": "plugin",
    "terminal_bench_plugin": "plugin",
    "TerminalEnvironment": "environment",
    "TerminalBenchConfig": "config",
    "TerminalBenchDataset": "dataset",
    "TerminalBenchEvaluator": "evaluator",
    "format_report_markdown": "evaluator",
    "TerminalBenchRunner": "runner",
    "run_terminal_bench": "runner",
}
"""The modules of the names that are not in `types`."""


def __getattr__(name: str) -> object:
    """A name of the package, loaded now."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'types')}"), name)
