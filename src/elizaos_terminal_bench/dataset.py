"""Which tasks a run is about. What was asked for and is not there is an error; nothing else takes its place."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elizaos_terminal_bench.types import TerminalTask, category_named, difficulty_named
from termarena.core.errors import NotFound, UsageError
from termarena.core.settings import resolve_settings
from termarena.sandbox.staged import staged
from termarena.tasks import SAMPLES, Selection, load_dataset
from termarena.tasks.pull import find_pulled
from termarena.tasks.pull.known import look_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from termarena.tasks import Dataset, FileTree, Task

__all__ = ["TerminalBenchDataset", "home_of", "task_of", "terminal_task"]

BENCHMARK: Final = "terminal-bench"


class TerminalBenchDataset:
    """Tasks by one name; empty until `load` has run."""

    def __init__(
        self,
        data_path: Path | str | None = None,
        version: str = "2.0",
        *,
        use_sample_tasks: bool = False,
        cache_dir: Path | str | None = None,
    ) -> None:
        """`data_path` as in `TerminalBenchConfig`. Raises UsageError where it is given beside `use_sample_tasks`."""
        if use_sample_tasks and data_path is not None:
            raise UsageError("the samples and a data path are two sets of tasks", hint="give one of them")
        self.data_path = data_path
        self.version = version
        self.use_sample_tasks = use_sample_tasks
        self.cache_dir = cache_dir
        self.public_name: str | None = None
        """The public dataset that was pulled under this name, as it is; None for the samples and for any folder."""
        self._source: Dataset | None = None
        self._tasks: list[TerminalTask] = []

    async def load(self) -> None:
        """Raises NotFound or UsageError, with what to do next, where there are no such tasks."""
        self._source = await asyncio.to_thread(self._open)
        self._tasks = [terminal_task(task) for task in self._source]

    @property
    def source(self) -> Dataset:
        """The dataset as TermArena has it. Raises UsageError before `load`."""
        if self._source is None:
            raise UsageError("the dataset is not loaded", hint="await dataset.load() first")
        return self._source

    @property
    def tasks(self) -> list[TerminalTask]:
        """Those that load, by id."""
        return list(self._tasks)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tasks)

    def __iter__(self) -> Iterator[TerminalTask]:
        """By id."""
        return iter(self._tasks)

    def get_task(self, task_id: str) -> TerminalTask | None:
        """The task of this id, the part behind its organisation's `/` being enough; None where there is none."""
        return next((task for task in self._tasks if task_id in (task.task_id, task.task_id.rpartition("/")[2])), None)

    def get_tasks_by_category(self, category: str) -> list[TerminalTask]:
        """Raises NotFound for a category that no task has."""
        return self._having(Selection(categories=(str(category),)))

    def get_tasks_by_difficulty(self, difficulty: str) -> list[TerminalTask]:
        """Raises NotFound for a difficulty that no task has."""
        return self._having(Selection(difficulties=(str(difficulty),)))

    def get_statistics(self) -> dict[str, int | dict[str, int]]:
        """How many tasks there are, of which categories and difficulties."""
        return {
            "total_tasks": len(self._tasks),
            "by_category": dict(Counter(task.category.value for task in self._tasks)),
            "by_difficulty": dict(Counter(task.difficulty.value for task in self._tasks)),
        }

    def _having(self, wanted: Selection) -> list[TerminalTask]:
        chosen = {task.id for task in wanted.choose(self.source)}
        return [task for task in self._tasks if task.task_id in chosen]

    def _open(self) -> Dataset:
        if self.use_sample_tasks:
            return load_dataset(SAMPLES)
        name = str(self.data_path) if self.data_path is not None else f"{BENCHMARK}@{self.version}"
        if self.data_path is not None and os.path.exists(name):  # noqa: PTH110 - Path.exists raises for a name too long
            return load_dataset(name)
        settings = resolve_settings().settings
        pulled = find_pulled(name, home=home_of(self.cache_dir), sources=settings.datasets.sources)
        if pulled is None:
            raise NotFound(
                f"the dataset {name} is not here yet",
                hint=f"fetch it with: termarena datasets pull {name}; --sample takes the bundled tasks instead",
            )
        known = look_up(name, settings.datasets.sources)
        self.public_name = None if known is None or known.name in settings.datasets.sources else known.name
        return load_dataset(pulled.path)


def home_of(cache_dir: Path | str | None) -> Path:
    """TermArena's folder for caches, or the one that was given."""
    return resolve_settings().settings.paths.home if cache_dir is None else Path(cache_dir)


def terminal_task(task: Task) -> TerminalTask:
    """A task in ElizaOS's form."""
    environment, bare = task.environment, task.environment.bare
    entry = task.tests.entry if task.tests is not None else None
    return TerminalTask(
        task_id=task.id,
        instruction=task.instruction,
        category=category_named(task.metadata.category),
        difficulty=difficulty_named(task.metadata.difficulty),
        test_script=_text(task.tests.files, entry) if task.tests is not None else "",
        reference_solution=_text(task.solution.files, task.solution.entry) if task.solution is not None else "",
        timeout_seconds=task.agent.timeout_s,
        required_tools=list(bare.requires) if bare is not None else [],
        setup_script=_text(environment.context, bare.setup) if bare is not None and bare.setup else None,
        docker_image=environment.image,
        network_enabled=environment.network.mode != "none",
        metadata={"format": task.provenance.format, "path": task.provenance.path, "digest": task.digest},
        source=task,
    )


def task_of(task: TerminalTask) -> Task:
    """The whole task; one that was written by hand is read as an entry of a `tasks.json`. Raises TaskFormatError."""
    if task.source is not None:
        return task.source
    fields = {name: value for name, value in asdict(task).items() if name != "source" and value not in (None, "")}
    with staged("task") as folder:
        file = Path(folder, "tasks.json")
        file.write_text(json.dumps([fields]), encoding="utf-8")
        return load_dataset(file).whole().tasks[0]


def _text(tree: FileTree, name: str | None) -> str:
    file = tree.get(name) if name else None
    return file.read().decode("utf-8", "replace") if file is not None else ""
