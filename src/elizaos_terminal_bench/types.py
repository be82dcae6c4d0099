"""The names that ElizaOS users know: what goes in, what comes out. Plain values; nothing here runs anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from elizaos_terminal_bench.config import TerminalBenchConfig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from termarena.tasks import Task

__all__ = [
    "CategoryMetrics",
    "CommandStatus",
    "DifficultyMetrics",
    "LeaderboardComparison",
    "OtherName",
    "TaskCategory",
    "TaskDifficulty",
    "TerminalBenchConfig",
    "TerminalBenchReport",
    "TerminalBenchResult",
    "TerminalCommand",
    "TerminalSession",
    "TerminalTask",
    "category_named",
    "difficulty_named",
]


class TaskCategory(StrEnum):
    """The categories of ElizaOS's own tasks."""

    CODE_COMPILATION = "code_compilation"
    SYSTEM_ADMIN = "system_admin"
    ML_TRAINING = "ml_training"
    FILE_OPERATIONS = "file_operations"
    PACKAGE_MANAGEMENT = "package_management"
    NETWORK_CONFIG = "network_config"
    DATABASE = "database"
    SCRIPTING = "scripting"
    GIT_OPERATIONS = "git_operations"
    TEXT_PROCESSING = "text_processing"
    DEBUGGING = "debugging"
    UNKNOWN = "unknown"


class TaskDifficulty(StrEnum):
    """How hard a task's author takes it to be."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    UNKNOWN = "unknown"


class OtherName(str):
    """A category or difficulty that a dataset has and the enumerations do not; `value` as a member has it."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The name itself."""
        return str(self)


def category_named(name: str) -> TaskCategory | OtherName:
    """The member of this value; else the name itself, so that two categories are never taken for one."""
    return TaskCategory(name) if name in set(TaskCategory) else OtherName(name)


def difficulty_named(name: str) -> TaskDifficulty | OtherName:
    """The member of this value, else the name itself."""
    return TaskDifficulty(name) if name in set(TaskDifficulty) else OtherName(name)


class CommandStatus(StrEnum):
    """How a command ended."""

    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    ERROR = "error"
    """It could not be carried out at all."""


@dataclass
class TerminalTask:
    """A task, as far as ElizaOS's form can hold it; the run itself works on the whole one."""

    task_id: str
    instruction: str
    category: TaskCategory | OtherName
    difficulty: TaskDifficulty | OtherName
    test_script: str
    """The file that the tests start with; empty where the grader's image brings it."""
    reference_solution: str
    """Empty where the task has none."""
    timeout_seconds: float | None = None
    """The agent's time; None where the task sets no limit."""
    required_tools: list[str] = field(default_factory=list)
    setup_script: str | None = None
    teardown_script: str | None = None
    docker_image: str | None = None
    """None where the task brings a Dockerfile or needs no image."""
    network_enabled: bool = False
    expected_files: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    source: Task | None = field(default=None, repr=False, compare=False)
    """The whole task that this one tells of; None for one that was written by hand."""


@dataclass
class TerminalCommand:
    """A command of the agent."""

    command: str
    stdout: str
    stderr: str
    exit_code: int | None
    """None where the command had no exit status: a key press, a command that could not be started."""
    execution_time_ms: float
    timestamp: datetime
    working_directory: str | None = None
    """Where it was asked to run; None: where the task says."""
    status: CommandStatus = CommandStatus.SUCCESS


@dataclass
class TerminalSession:
    """What an agent did at a task."""

    session_id: str
    task: TerminalTask
    commands: list[TerminalCommand] = field(default_factory=list)
    start_time: datetime | None = None
    end_time: datetime | None = None
    total_tokens: int | None = None
    """None is unknown."""


@dataclass
class TerminalBenchResult:
    """What came of one task."""

    task_id: str
    success: bool
    commands_executed: int
    total_execution_time_ms: float
    """Of the agent's own work."""
    test_output: str
    """For whoever reads the result; no agent ever sees it."""
    test_exit_code: int | None = None
    """None where the tests did not run to an end."""
    error_message: str | None = None
    """None for a success; else the failure's kind, and what is known of it."""
    tokens_used: int | None = None
    """None is unknown, never zero."""
    session: TerminalSession | None = None
    category: TaskCategory | OtherName = TaskCategory.UNKNOWN
    difficulty: TaskDifficulty | OtherName = TaskDifficulty.UNKNOWN
    outcome: str = "unscored"
    """`solved`, `unsolved`, or `unscored`: the task or the machine was at fault, and nothing is held against the
    agent."""


@dataclass
class CategoryMetrics:
    """How the tasks of one category went."""

    total: int = 0
    passed: int = 0
    failed: int = 0
    unscored: int = 0
    accuracy: float | None = None
    """Of the scored ones; None where there are none."""
    avg_commands: float = 0.0
    avg_time_ms: float = 0.0


@dataclass
class DifficultyMetrics(CategoryMetrics):
    """How the tasks of one difficulty went."""


@dataclass
class LeaderboardComparison:
    """A run beside published scores. It is false where the run has no rank, and then says why."""

    our_score: float | None
    """In per cent."""
    rank: int | None
    total_entries: int
    """The published rows and this run."""
    comparison: dict[str, float] = field(default_factory=dict)
    """Every system with its score, this run among them; empty without a rank."""
    percentile: float | None = None
    nearest_above: tuple[str, float] | None = None
    nearest_below: tuple[str, float] | None = None
    rank_range: tuple[int, int] | None = None
    """The best and the worst rank within the 95 % interval of our score: one rank alone claims too much."""
    as_of: str | None = None
    """The day of the published scores."""
    source: str | None = None
    not_ranked: list[str] = field(default_factory=list)
    """Why there is no rank."""

    def __bool__(self) -> bool:
        """Whether there is a rank."""
        return self.rank is not None


@dataclass
class TerminalBenchReport:
    """A run, in the form that ElizaOS users know. None is unknown, never zero."""

    total_tasks: int
    passed_tasks: int
    failed_tasks: int
    accuracy: float | None
    """Of the scored tasks; None where none is."""
    results: list[TerminalBenchResult]
    total_commands: int
    avg_commands_per_task: float
    total_tokens: int | None
    avg_tokens_per_task: float | None
    evaluation_time_seconds: float
    """By the clock on the wall."""
    avg_time_per_task_seconds: float
    by_category: dict[TaskCategory | OtherName, CategoryMetrics] = field(default_factory=dict)
    by_difficulty: dict[TaskDifficulty | OtherName, DifficultyMetrics] = field(default_factory=dict)
    error_categories: dict[str, int] = field(default_factory=dict)
    """Failures by kind: AGENT_TIMEOUT, TEST_FAILED, INFRA_FAULT …"""
    leaderboard_comparison: LeaderboardComparison | None = None
    """None where none was asked for."""
    metadata: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    unscored_tasks: int = 0
    """Neither passed nor failed: nobody could tell."""
