"""The tables of the arena. What is in them is derived from run folders and can be made again, but for keys, contenders,
battles, and proofs that were sent.

    datasets ─┬─ runs ─┬─ run_tasks ── tasks
    entrants ─┘        └─ trials ───── tasks
    contenders ── battles ── battle_events
    task_proofs
    keys

Times are UTC in ISO 8601, as journals have them. `runs.report` and `datasets.standings` hold what takes long to
compute, as JSON of the types that pages and the API show.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, ForeignKey, Index, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

__all__ = [
    "Battle",
    "BattleEvent",
    "Contender",
    "Dataset",
    "Entrant",
    "Key",
    "Run",
    "RunTask",
    "Table",
    "Task",
    "TaskProof",
    "Trial",
]


class Table(DeclarativeBase):
    """What all tables have in common: the catalogue that they are in."""


class Dataset(Table):
    """A set of tasks, known by its digest; runs of the same tasks share it."""

    __tablename__ = "datasets"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(Text, unique=True)
    name: Mapped[str] = mapped_column(Text)
    tasks: Mapped[int]
    updated_at: Mapped[str] = mapped_column(Text)
    standings: Mapped[str | None] = mapped_column(Text)
    """A `Leaderboard` as JSON; None before the first."""
    changes: Mapped[int]
    """How often a run of it was taken in."""
    standings_at_change: Mapped[int]
    """Of how many changes `standings` knows: it is stale where there are more."""


class Entrant(Table):
    """An agent in one setup: whatever can move its score, the limits apart. Its runs count together."""

    __tablename__ = "entrants"

    id: Mapped[int] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(Text, unique=True)
    agent: Mapped[str] = mapped_column(Text, index=True)
    version: Mapped[str] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)
    setup: Mapped[str] = mapped_column(Text)
    """What else it was given, as a JSON object."""


class Run(Table):
    """A run as far as its journal has been read."""

    __tablename__ = "runs"
    __table_args__ = (
        Index("runs_by_dataset", "dataset_id", "started_at"),
        Index("runs_by_start", "started_at"),
        Index("runs_by_rank", "dataset_id", "is_ranked", "state"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(Text, unique=True)
    name: Mapped[str] = mapped_column(Text)
    folder: Mapped[str] = mapped_column(Text)
    sender: Mapped[str | None] = mapped_column(Text)
    """The name of the key that it was sent with; None where it was found in the folder."""
    dataset_id: Mapped[int] = mapped_column(ForeignKey("datasets.id"))
    entrant_id: Mapped[int] = mapped_column(ForeignKey("entrants.id"), index=True)
    state: Mapped[str] = mapped_column(Text)
    started_at: Mapped[str | None] = mapped_column(Text)
    updated_at: Mapped[str | None] = mapped_column(Text)
    journal_seq: Mapped[int]
    journal_bytes: Mapped[int] = mapped_column(BigInteger)
    is_ranked: Mapped[bool]
    total: Mapped[int]
    solved: Mapped[int]
    unsolved: Mapped[int]
    unscored: Mapped[int]
    pending: Mapped[int]
    accuracy: Mapped[float | None]
    accuracy_low: Mapped[float | None]
    accuracy_high: Mapped[float | None]
    interval_low: Mapped[float | None]
    interval_high: Mapped[float | None]
    cost_usd: Mapped[float | None]
    """None where some trial did not tell its part."""
    report: Mapped[str] = mapped_column(Text)
    """A `Report` as JSON, without its tasks and trials: those have tables."""


class Task(Table):
    """A task by its name; `RunTask.digest` says which version of it a run had."""

    __tablename__ = "tasks"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    slug: Mapped[str] = mapped_column(Text, unique=True)
    instruction: Mapped[str | None] = mapped_column(Text)
    """As an agent was told it; None where no trajectory has it."""


class RunTask(Table):
    """One task in one run, its trials together."""

    __tablename__ = "run_tasks"
    __table_args__ = (Index("run_tasks_by_task", "task_id"),)

    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"), primary_key=True)
    digest: Mapped[str] = mapped_column(Text)
    is_mixed: Mapped[bool]
    """The task was changed while the run went on."""
    category: Mapped[str] = mapped_column(Text)
    difficulty: Mapped[str] = mapped_column(Text)
    total: Mapped[int]
    solved: Mapped[int]
    unsolved: Mapped[int]
    unscored: Mapped[int]
    duration_s: Mapped[float]
    cost_usd: Mapped[float | None]


class Trial(Table):
    """One try of one trial; `is_counted` on the one that counts."""

    __tablename__ = "trials"

    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    retry: Mapped[int] = mapped_column(primary_key=True)
    is_counted: Mapped[bool]
    outcome: Mapped[str] = mapped_column(Text)
    agent_end: Mapped[str | None] = mapped_column(Text)
    fault: Mapped[str | None] = mapped_column(Text)
    failure_mode: Mapped[str] = mapped_column(Text)
    reward: Mapped[float | None]
    is_tampered: Mapped[bool]
    graded_in: Mapped[str | None] = mapped_column(Text)
    tests_passed: Mapped[int]
    tests_total: Mapped[int]
    duration_s: Mapped[float]
    work_s: Mapped[float | None]
    commands: Mapped[int | None] = mapped_column(BigInteger)
    input_tokens: Mapped[int | None] = mapped_column(BigInteger)
    output_tokens: Mapped[int | None] = mapped_column(BigInteger)
    cost_usd: Mapped[float | None]
    message: Mapped[str] = mapped_column(Text)


class Key(Table):
    """A key that lets its holder read, submit or administer; only its hash is kept."""

    __tablename__ = "keys"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    hash: Mapped[str] = mapped_column(Text, unique=True)
    scopes: Mapped[str] = mapped_column(Text)
    """Separated by blanks."""
    created_at: Mapped[str] = mapped_column(Text)
    revoked_at: Mapped[str | None] = mapped_column(Text)


class Contender(Table):
    """An agent behind a network address, known by its card: a white one fights, a green one is a referee."""

    __tablename__ = "contenders"
    __table_args__ = (Index("contenders_once", "url", "role", "owner", unique=True),)

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(Text, unique=True)
    name: Mapped[str] = mapped_column(Text)
    url: Mapped[str] = mapped_column(Text)
    role: Mapped[str] = mapped_column(Text)
    """`white` or `green`."""
    card: Mapped[str] = mapped_column(Text)
    """What its card said last, as JSON."""
    about: Mapped[str] = mapped_column(Text)
    """What it was registered with beyond that, as a JSON object."""
    owner: Mapped[str] = mapped_column(Text)
    """The name of the key that registered it."""
    registered_at: Mapped[str] = mapped_column(Text)
    checked_at: Mapped[str] = mapped_column(Text)
    is_alive: Mapped[bool]
    problem: Mapped[str] = mapped_column(Text)
    """Why it is not alive."""
    sealed_key: Mapped[str | None] = mapped_column(Text, deferred=True)
    """What it asks for with every request, as `Seal` wrote it; only who speaks to it asks the database for this."""


class Battle(Table):
    """A battle that was asked for. Whoever claimed it and renews its lease in time fights it, and no one else."""

    __tablename__ = "battles"
    __table_args__ = (Index("battles_by_state", "state", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    slug: Mapped[str] = mapped_column(Text, unique=True)
    state: Mapped[str] = mapped_column(Text)
    white_id: Mapped[int] = mapped_column(ForeignKey("contenders.id"))
    green_id: Mapped[int | None] = mapped_column(ForeignKey("contenders.id"))
    """None: the server's own referee."""
    config: Mapped[str] = mapped_column(Text)
    """As it was given, as JSON."""
    about: Mapped[str] = mapped_column(Text)
    """How it is fought, where that is not as usual, as a JSON object."""
    created_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[str] = mapped_column(Text)
    started_at: Mapped[str | None] = mapped_column(Text)
    ended_at: Mapped[str | None] = mapped_column(Text)
    tries: Mapped[int]
    """How often it was claimed."""
    claimed_by: Mapped[str | None] = mapped_column(Text)
    leased_until_s: Mapped[float | None]
    """By the database's clock."""
    cancelled_by: Mapped[str | None] = mapped_column(Text)
    """The name of the key that asked for its end."""
    run: Mapped[str | None] = mapped_column(Text)
    """The folder of the run that it is; None with another referee than our own."""
    result: Mapped[str | None] = mapped_column(Text)
    """As JSON."""
    message: Mapped[str] = mapped_column(Text)


class BattleEvent(Table):
    """Something that was told of a battle."""

    __tablename__ = "battle_events"

    id: Mapped[int] = mapped_column(primary_key=True)
    battle_id: Mapped[int] = mapped_column(ForeignKey("battles.id", ondelete="CASCADE"), index=True)
    at: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    """`state` or `told`."""
    content: Mapped[str] = mapped_column(Text)
    """As a JSON object."""


class TaskProof(Table):
    """The newest proof of one version of a task."""

    __tablename__ = "task_proofs"

    id: Mapped[int] = mapped_column(primary_key=True)
    task: Mapped[str] = mapped_column(Text, index=True)
    """The task's id, as the proof has it."""
    task_digest: Mapped[str] = mapped_column(Text, unique=True)
    letter: Mapped[str] = mapped_column(Text)
    made_at: Mapped[str] = mapped_column(Text)
    sender: Mapped[str | None] = mapped_column(Text)
    """The name of the key that it was sent with; None where it was found in the folder."""
    content: Mapped[str] = mapped_column(Text)
    """A `Proof` as JSON, without its evidence."""
